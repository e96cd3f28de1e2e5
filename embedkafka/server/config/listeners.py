"""A broker's listeners: their names, protocols and addresses, as the settings give them.

A broker has one listener for its controller, and one or more for clients; brokers use one of those
among themselves. Without `listeners`, there is one for clients, `PLAINTEXT`. Without
`control.plane.listener.name`, the controller's is `CONTROLLER`, on a free port, and speaks what
brokers speak among themselves.

Error messages are Kafka's where it has any.
Not here: what a protocol does to a connection (`security`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from embedkafka.runtime.addresses import format_address
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass, replace

CLIENT_LISTENER: Final = "PLAINTEXT"
CONTROL_LISTENER: Final = "CONTROLLER"
PLAINTEXT: Final = "PLAINTEXT"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MAX_PORT: Final = 65_535

Settings = Mapping[str, object]
"""The settings that were given, by name."""

_LISTENER: Final = re.compile(
    r"(?P<name>\w[\w.-]*)://\[?(?P<host>[^\[\]/,]*?)\]?:(?P<port>\d{1,5})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One item of `listeners`; an empty host and port 0 leave the choice to the broker."""

    name: str
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"{self.name}://{format_address(self.host, self.port)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedListener:
    """A listener: what it speaks, where it listens, and what it tells others about that."""

    name: str
    protocol: str
    host: str
    port: int
    advertised: Address | None
    """None if others shall not know it; an empty host and port 0 stand for its own."""
    is_control_plane: bool = False

    @property
    def speaks_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """All listeners of a broker, the controller's last."""

    all: tuple[NamedListener, ...]
    inter_broker: str

    @property
    def clients(self) -> tuple[NamedListener, ...]:
        return self.all[:-1]

    @property
    def control(self) -> NamedListener:
        return self.all[-1]

    def protocol_of(self, name: str) -> str:
        """The security protocol of a listener."""
        return next(one.protocol for one in self.all if one.name == name)

    def protocol_map(self) -> str:
        """The value of `listener.security.protocol.map`."""
        return ",".join(f"{listener.name}:{listener.protocol}" for listener in self.all)


def plan_listeners(
    given: Settings,
    *,
    host: str,
    control_host: str,
    port: int = 0,
    ports: Mapping[str, int] | None = None,
) -> Listeners:
    """The listeners that the settings describe; raises `ConfigError` if they contradict each other.

    A listener without a host gets `host`. `port` is that of the first listener for clients. `ports`
    holds ports that take the place of 0, by name.
    """
    clients, control = _addresses(given, port)
    protocols = _protocols(given)
    inter_broker = _inter_broker(given, [one.name for one in clients], protocols)
    protocols.setdefault(CONTROL_LISTENER, protocols[inter_broker])
    advertised = _advertised(given, clients)
    known_ports = ports or {}
    listeners = [
        NamedListener(
            name=one.name,
            protocol=_protocol_of(one.name, protocols),
            host=one.host or host,
            port=one.port or known_ports.get(one.name, 0),
            advertised=advertised.get(one.name),
        )
        for one in clients
    ]
    listeners.append(
        NamedListener(
            name=control.name,
            protocol=_protocol_of(control.name, protocols),
            host=control.host or control_host,
            port=control.port,
            advertised=Address(name=control.name),
            is_control_plane=True,
        )
    )
    return Listeners(all=tuple(listeners), inter_broker=inter_broker)


def speaks_sasl(given: Settings) -> bool:
    """Whether clients or brokers log in with SASL on one of the listeners."""
    protocols = _protocols(given)
    names = [one.name for one in parse_listeners(given, "listeners")]
    return any(_protocol_of(name, protocols).startswith("SASL_") for name in names)


def parse_listeners(given: Settings, key: str) -> list[Address]:
    """The items of `listeners` or `advertised.listeners`; none if it is not given."""
    found = [
        _parse_address(key, item.strip())
        for item in str(given.get(key) or "").split(",")
        if item.strip()
    ]
    if repeated := _repeated(one.name for one in found):
        raise ConfigError(f"{key}: each listener must have a different name, found two {repeated}")
    if key == "listeners" and (repeated := _repeated(one.port for one in found if one.port)):
        raise ConfigError(f"{key}: each listener must have a different port, found two {repeated}")
    return found


def count_up(given: Settings, place: int, *, port: int) -> dict[str, str]:
    """The listener settings of the broker at `place` among those of one process.

    Fixed ports count up from broker to broker, those advertised too. A listener on a free port
    advertises that one. `port` is that of the first listener for clients, if it is fixed.
    """
    clients, control = _addresses(given, port)
    listening = [*clients, control] if control in parse_listeners(given, "listeners") else clients
    fixed = {one.name for one in clients if one.port}
    advertised = [
        _moved(one, place) if name in fixed else replace(one, port=0)
        for name, one in _advertised(given, clients).items()
    ]
    counted = {
        "listeners": [_moved(one, place) for one in listening],
        "advertised.listeners": advertised,
    }
    return {
        key: ",".join(map(str, addresses)) for key, addresses in counted.items() if given.get(key)
    }


def _addresses(given: Settings, port: int) -> tuple[list[Address], Address]:
    """Where the broker listens: for clients, and for its controller."""
    listening = parse_listeners(given, "listeners")
    control_name = _text(given, "control.plane.listener.name").upper()
    if control_name and listening and control_name not in [one.name for one in listening]:
        raise ConfigError(
            "control.plane.listener.name must be a listener name defined in listeners. The valid "
            f"options based on currently configured listeners are {_names(listening)}"
        )
    # A file for KRaft gives its controllers listeners, which brokers of the ZooKeeper era lack.
    quorum = {name.strip().upper() for name in _text(given, "controller.listener.names").split(",")}
    clients = [one for one in listening if one.name not in quorum | {control_name}]
    if listening and not clients:
        raise ConfigError("listeners has none for clients")
    if any(one.name == CONTROL_LISTENER for one in clients):
        raise ConfigError(
            f"{CONTROL_LISTENER} is the listener of a broker's controller: set "
            f"control.plane.listener.name={CONTROL_LISTENER}, or choose another name"
        )
    clients = clients or [Address(name=CLIENT_LISTENER)]
    if port:
        clients[0] = replace(clients[0], port=port)
    control = next((one for one in listening if one.name == control_name), None)
    return clients, control or Address(name=control_name or CONTROL_LISTENER)


def _text(given: Settings, key: str) -> str:
    return str(given.get(key) or "")


def _names(addresses: Iterable[Address]) -> str:
    return ",".join(one.name for one in addresses)


def _moved(address: Address, place: int) -> Address:
    return replace(address, port=address.port + place) if address.port else address


def _parse_address(key: str, text: str) -> Address:
    match = _LISTENER.fullmatch(text)
    if match is None or int(match["port"]) > MAX_PORT:
        raise ConfigError(f"{key}: {text!r} is not NAME://host:port")
    return Address(name=match["name"].upper(), host=match["host"], port=int(match["port"]))


def _repeated(values: Iterable[object]) -> object | None:
    return next((value for value, count in Counter(values).items() if count > 1), None)


def _protocols(given: Settings) -> dict[str, str]:
    key = "listener.security.protocol.map"
    text = str(given.get(key) or ",".join(f"{name}:{name}" for name in SECURITY_PROTOCOLS))
    protocols: dict[str, str] = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, _, protocol = (part.strip().upper() for part in item.partition(":"))
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"{key}: {item!r} is not NAME:protocol, where the protocol is one of "
                f"{', '.join(SECURITY_PROTOCOLS)}"
            )
        protocols[name] = protocol
    return protocols


def _protocol_of(listener: str, protocols: Mapping[str, str]) -> str:
    if listener not in protocols:
        raise ConfigError(
            f"No security protocol defined for listener {listener}: add it to "
            "listener.security.protocol.map"
        )
    return protocols[listener]


def _inter_broker(given: Settings, clients: list[str], protocols: Mapping[str, str]) -> str:
    name = _text(given, "inter.broker.listener.name").upper()
    if name and given.get("security.inter.broker.protocol"):
        raise ConfigError(
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be "
            "set."
        )
    key = "inter.broker.listener.name" if name else "security.inter.broker.protocol"
    name = name or _text(given, "security.inter.broker.protocol") or PLAINTEXT
    if name not in clients:
        raise ConfigError(
            f"{key} must be a listener name defined in listeners. The valid options based on "
            f"currently configured listeners are {','.join(clients)}"
        )
    _protocol_of(name, protocols)
    return name


def _advertised(given: Settings, clients: list[Address]) -> dict[str, Address]:
    """By listener; those without an entry of the setting advertise nothing, as in Kafka."""
    advertised = parse_listeners(given, "advertised.listeners")
    if not advertised:
        return {one.name: Address(name=one.name) for one in clients}
    if not given.get("listeners"):  # it has one, whatever the address is called
        named = next((one for one in advertised if one.name == CLIENT_LISTENER), advertised[0])
        return {CLIENT_LISTENER: replace(named, name=CLIENT_LISTENER)}
    names = [one.name for one in clients]
    for one in advertised:
        if one.name not in names:
            raise ConfigError(
                "advertised.listeners listener names must be equal to or a subset of the ones "
                f"defined in listeners. Found {one.name}. The valid options based on the current "
                f"configuration are {','.join(names)}"
            )
    return {one.name: one for one in advertised}
