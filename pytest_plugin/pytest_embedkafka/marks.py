"""`@pytest.mark.kafka(...)` on a test, class or module: its cluster, and how the test leaves it.

Arguments that no cluster can have are errors of the collection. Imports embedkafka only for tests
that ask for a cluster of another shape.
"""

import inspect
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

MARK: Final = "kafka"
MARK_LINE: Final = (
    "kafka(brokers, topics, config, racks, security, host, port, log_dirs, seed, defaults, keep, "
    "snapshot): the cluster of the `kafka` fixture; a list of brokers runs the test on each; port "
    "is the first broker's; keep leaves the cluster as the test left it; snapshot starts the test "
    "from `kafka.snapshot(name)`"
)
_OF_CLUSTER: Final = (
    *("brokers", "topics", "config", "racks", "security"),
    *("host", "port", "log_dirs", "seed", "defaults"),
)
"""Arguments of `EmbeddedKafka` that a test may choose, as far as it has them."""
_KEEP, _SNAPSHOT = _OF_TEST = ("keep", "snapshot")


@dataclass(frozen=True, slots=True)
class Shape:
    """A cluster as tests ask for it. Equal ones share a cluster."""

    text: str
    settings: Mapping[str, Any] = field(compare=False)  # Any: arguments of EmbeddedKafka
    users: Hashable = field(default=None, repr=False)
    """Those of `security`, whose repr leaves them out: they have passwords."""

    def __str__(self) -> str:
        return self.text


def keeps(item: pytest.Item) -> bool:
    """Whether the test leaves the cluster as it is."""
    return bool(_arguments(item).get(_KEEP))


def find_snapshot(item: pytest.Item) -> str | None:
    """The name of the snapshot that the test starts from, if any."""
    name: str | None = _arguments(item).get(_SNAPSHOT)
    return name


def find_shapes(node: pytest.Item | pytest.Collector) -> list[Shape]:
    """The clusters that a test is to run on; none if the session's will do."""
    arguments = _require_known(node)
    chosen = {name: value for name, value in arguments.items() if name not in _OF_TEST}
    if not chosen:
        return []
    brokers = chosen.get("brokers")
    if not isinstance(brokers, list | tuple):
        return [_shape(node, chosen)]
    if not brokers:
        raise _error(node, "brokers=[] leaves nothing to run on")
    return [_shape(node, {**chosen, "brokers": count}) for count in brokers]


def _arguments(node: pytest.Item | pytest.Collector) -> dict[str, Any]:
    """All marks together; the closest one decides."""
    merged: dict[str, Any] = {}
    for mark in node.iter_markers(MARK):
        merged = {**mark.kwargs, **merged}
    return merged


def _require_known(node: pytest.Item | pytest.Collector) -> dict[str, Any]:
    for mark in node.iter_markers(MARK):
        if mark.args:
            raise _error(node, f"it takes no positional arguments, got {mark.args[0]!r}")
    arguments = _arguments(node)
    for name in arguments.keys() - {_KEEP, _SNAPSHOT}:
        if name not in (known := _known_arguments()):
            raise _error(node, f"it has no argument {name!r}, only {', '.join(known)}")
    if not isinstance(arguments.get(_KEEP, False), bool):
        raise _error(node, f"keep must be True or False, got {arguments[_KEEP]!r}")
    snapshot = arguments.get(_SNAPSHOT)
    if snapshot is not None and not (isinstance(snapshot, str) and snapshot):
        raise _error(node, f"snapshot must be the name of a snapshot, got {snapshot!r}")
    return arguments


def _known_arguments() -> list[str]:
    from embedkafka import EmbeddedKafka

    parameters = inspect.signature(EmbeddedKafka).parameters
    return [*(name for name in _OF_CLUSTER if name in parameters), *_OF_TEST]


def _shape(node: pytest.Item | pytest.Collector, settings: Mapping[str, Any]) -> Shape:
    from embedkafka import EmbeddedKafka, EmbedKafkaError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its start warns
            EmbeddedKafka(**settings)
    except (EmbedKafkaError, TypeError, ValueError) as error:
        raise _error(node, str(error)) from error
    text = ", ".join(f"{name}={settings[name]!r}" for name in sorted(settings))
    security = settings.get("security")
    users = None if security is None else _users(security.users)
    return Shape(text, settings, users)


def _users(users: Any) -> Hashable:  # Any: names and passwords, or names alone
    return tuple(sorted(users.items())) if isinstance(users, Mapping) else tuple(users)


def _error(node: pytest.Item | pytest.Collector, reason: str) -> pytest.Collector.CollectError:
    return pytest.Collector.CollectError(f"@pytest.mark.{MARK} of {node.nodeid}: {reason}")
