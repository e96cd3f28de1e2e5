"""Which cluster an address leads to that a script names."""

from collections.abc import Callable, Mapping
from typing import Any

from embedkafka.runtime.arguments import require_attribute, require_text
from embedkafka.runtime.failures import ConfigError

_CLUSTER = 'a cluster such as the fixture `kafka`, or a mapping: {"localhost:9092": kafka}'


def require_addresses(kafka: Any) -> Callable[[str], str]:
    """All addresses lead to `kafka`, or those that a mapping names. Any: checked here."""
    if not isinstance(kafka, Mapping):
        _require_cluster("kafka", kafka, _CLUSTER)
        return lambda given: str(kafka.bootstrap_servers)
    if not kafka:
        raise ConfigError(f"kafka must be {_CLUSTER}, got an empty mapping")
    clusters: dict[str, Any] = {}
    for named, cluster in kafka.items():
        require_text("an address in kafka", named, refusal=ConfigError)
        _require_cluster(f"kafka[{named!r}]", cluster, "a cluster")
        clusters |= dict.fromkeys(_entries(named), cluster)

    def find(given: str) -> str:
        for entry in _entries(given):
            if entry in clusters:
                return str(clusters[entry].bootstrap_servers)
        return given

    return find


def _require_cluster(name: str, cluster: object, what: str) -> None:
    require_attribute(name, cluster, "bootstrap_servers", what, refusal=ConfigError)


def _entries(servers: str) -> list[str]:
    return [entry.strip() for entry in servers.split(",")]
