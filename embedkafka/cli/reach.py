"""How the commands for people reach a cluster: any cluster, as a client."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embedkafka.runtime.arguments import require_text
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.properties import read_properties

if TYPE_CHECKING:
    import argparse

    from embedkafka.cluster.clients.client_view import ClientView
    from embedkafka.spark.client_settings import ClientSettings

_VARIABLES: Final = ("EMBEDKAFKA_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS")


class Reach:
    """How to reach a cluster: its addresses, and the settings of a client that may."""

    def __init__(self, bootstrap: str | None, client_config: Path | None) -> None:
        self.settings = _settings(client_config)
        named = None if self.settings is None else self.settings.bootstrap_servers
        self.bootstrap_servers = require_bootstrap(bootstrap, named)

    def view(self) -> "ClientView":
        """A client of it, which asks when it is asked."""
        from embedkafka.cluster.clients.client_view import ClientView

        return ClientView(self.bootstrap_servers, self.settings)


def reach_of(parsed: "argparse.Namespace") -> Reach:
    """The cluster that the arguments name; raises `ConfigError` if none."""
    return Reach(parsed.bootstrap, parsed.client_config)


def require_bootstrap(*given: str | None) -> str:
    """The first address that is given, or else that of the environment."""
    variables = map(os.environ.get, _VARIABLES)
    found = next(filter(None, (*given, *variables)), None)
    if not found:
        raise ConfigError(
            "which cluster? Say --bootstrap host:port,..., or set "
            f"{' or '.join(_VARIABLES)}, as `embedkafka up` does for its command"
        )
    return require_text("--bootstrap", found, refusal=ConfigError)


def _settings(client_config: Path | None) -> "ClientSettings | None":
    if client_config is None:
        return None
    from embedkafka.spark.client_settings import translate_properties

    try:
        given = read_properties(client_config)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read --client-config {client_config}: {error}") from error
    return translate_properties(given)
