"""A broker's listeners, and the address it advertises to clients."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from embedkafka.runtime.addresses import format_address
from embedkafka.runtime.failures import ConfigError

CLIENT_LISTENER: Final = "PLAINTEXT"
CONTROL_LISTENER: Final = "CONTROLLER"

LISTENER_FACTS: Final[Mapping[str, str]] = {
    "control.plane.listener.name": CONTROL_LISTENER,
    "inter.broker.listener.name": CLIENT_LISTENER,
    "listener.security.protocol.map": f"{CLIENT_LISTENER}:PLAINTEXT,{CONTROL_LISTENER}:PLAINTEXT",
}
"""The values that these settings have on every broker, because it has these two listeners."""

_LISTENER: Final = re.compile(
    r"(?P<name>\w[\w.-]*)://\[?(?P<host>[^\[\]/,]*?)\]?:(?P<port>\d{1,5})"
)


class Advertised(NamedTuple):
    """An advertised address; an empty host and port 0 stand for the broker's own."""

    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return format_listener(CLIENT_LISTENER, self.host, self.port)


def format_listener(name: str, host: str, port: int) -> str:
    return f"{name}://{format_address(host, port)}"


def parse_advertised(text: str) -> Advertised:
    """The client listener in `NAME://host:port,...`; the first if none has its name."""
    found: dict[str, Advertised] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        match = _LISTENER.fullmatch(item)
        if match is None:
            raise ConfigError(f"advertised.listeners: {item!r} is not NAME://host:port")
        found[match["name"].upper()] = Advertised(match["host"], int(match["port"]))
    return found.get(CLIENT_LISTENER) or next(iter(found.values()), Advertised())
