"""What `advertised.listeners` says: where clients are told to find a broker."""

import re
from typing import Final, NamedTuple

from embedkafka.runtime.addresses import format_address
from embedkafka.runtime.failures import ConfigError

CLIENT_LISTENER: Final = "PLAINTEXT"
CONTROL_LISTENER: Final = "CONTROLLER"

_LISTENER: Final = re.compile(
    r"(?P<name>\w[\w.-]*)://\[?(?P<host>[^\[\]/,]*?)\]?:(?P<port>\d{1,5})"
)


class Advertised(NamedTuple):
    """An empty host and port 0 stand for those on which the broker listens."""

    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"{CLIENT_LISTENER}://{format_address(self.host, self.port)}"


def parse_advertised(text: str) -> Advertised:
    """The client listener in `NAME://host:port,...`; the first if none has its name."""
    found: dict[str, Advertised] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        match = _LISTENER.fullmatch(item)
        if match is None:
            raise ConfigError(f"advertised.listeners: {item!r} is not NAME://host:port")
        found[match["name"].upper()] = Advertised(match["host"], int(match["port"]))
    return found.get(CLIENT_LISTENER) or next(iter(found.values()), Advertised())
