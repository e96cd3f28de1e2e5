"""A broker's listeners: their names, protocols and addresses, as the settings give them.

A broker has one listener for its controller, and one or more for clients; brokers use one of those
among themselves. Without `listeners`, there is one for clients, `PLAINTEXT`. Without
`control.plane.listener.name`, the controller's is `CONTROLLER`, on a free port, and speaks what
brokers speak among themselves. Listeners of KRaft's controllers, `controller.listener.names`, are
left out: every broker here is its own controller.

Error messages are Kafka's where it has any.
Not here: what a protocol does to a connection (`security`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from embedkafka.runtime.addresses import LOOPBACK, format_address, is_loopback, is_wildcard
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass, replace

CLIENT_LISTENER: Final = "PLAINTEXT"
CONTROL_LISTENER: Final = "CONTROLLER"
PLAINTEXT: Final = "PLAINTEXT"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MAX_PORT: Final = 65_535
_KAFKAS_PORT: Final = 9092
"""That of `PLAINTEXT://:9092`, Kafka's default for `listeners`."""

Settings = Mapping[str, object]
"""The settings that were given, by name."""

_LISTENER: Final = r"(?P<name>\w[\w.-]*)://\[?(?P<host>[^\[\]/,]*?)\]?:(?P<port>\d{1,5})"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the listeners for clients are, in place of what the settings say."""

    host: str | None = None
    """The host of all of them. Without it they keep theirs, and those without one get loopback."""
    port: int = 0
    """The port of the first one, unless it is 0."""
    advertise: str | None = None
    """The host that clients are given, with the port that the listener has."""
    place: int = 0
    """How many brokers of the process come before this one. Fixed ports count up by that."""


AS_SET: Final = Placement()


def plan_listeners(
    given: Settings,
    placement: Placement = AS_SET,
    *,
    control_host: str = LOOPBACK,
    ports: Mapping[str, int] | None = None,
) -> Listeners:
    """The listeners that the settings describe; raises `ConfigError` if they contradict each other.

    `ports` holds ports that take the place of 0, by name.
    """
    clients, control = _addresses(given)
    protocols = _protocols(given)
    inter_broker = _inter_broker(given, [one.name for one in clients], protocols)
    protocols.setdefault(CONTROL_LISTENER, protocols[inter_broker])
    placed = _placed(clients, placement)
    advertised = _advertised_at(given, clients, placement)
    known_ports = ports or {}
    listeners = [
        NamedListener(
            name=one.name,
            protocol=_protocol_of(one.name, protocols),
            host=one.host or LOOPBACK,
            port=_counted(one.port, placement) or known_ports.get(one.name, 0),
            advertised=advertised.get(one.name),
        )
        for one in placed
    ]
    listeners.append(
        NamedListener(
            name=control.name,
            protocol=_protocol_of(control.name, protocols),
            host=control.host or control_host,
            port=_counted(control.port, placement),
            advertised=Address(name=control.name),
            is_control_plane=True,
        )
    )
    return Listeners(all=tuple(listeners), inter_broker=inter_broker)


def client_protocols(given: Settings) -> dict[str, str]:
    """What the listeners for clients speak, by name."""
    protocols = _protocols(given)
    return {one.name: _protocol_of(one.name, protocols) for one in _addresses(given)[0]}


def names_controllers_only(given: Settings) -> bool:
    """Whether `listeners` has only those of KRaft's controllers, as in a file for one of them."""
    listening = parse_listeners(given, "listeners")
    return bool(listening) and {one.name for one in listening} <= _quorum(given)


def speaks_sasl(given: Settings) -> bool:
    """Whether clients or brokers log in with SASL on one of the listeners."""
    protocols = _protocols(given)
    names = [one.name for one in parse_listeners(given, "listeners")]
    return any(_protocol_of(name, protocols).startswith("SASL_") for name in names)


def parse_listeners(given: Settings, key: str) -> list[Address]:
    """The items of `listeners` or `advertised.listeners`; none if it is not given."""
    found = [
        _parse_address(key, item.strip()) for item in _text(given, key).split(",") if item.strip()
    ]
    if repeated := _repeated(one.name for one in found):
        raise ConfigError(f"{key}: each listener must have a different name, found two {repeated}")
    if key == "listeners" and (repeated := _repeated(one.port for one in found if one.port)):
        raise ConfigError(f"{key}: each listener must have a different port, found two {repeated}")
    return found


def _addresses(given: Settings) -> tuple[list[Address], Address]:
    """Where the broker listens: for clients, and for its controller."""
    listening = parse_listeners(given, "listeners")
    control_name = _text(given, "control.plane.listener.name").upper()
    if control_name and listening and control_name not in [one.name for one in listening]:
        raise ConfigError(
            "control.plane.listener.name must be a listener name defined in listeners. The valid "
            f"options based on currently configured listeners are {_names(listening)}"
        )
    clients = [one for one in listening if one.name not in _quorum(given) | {control_name}]
    if listening and not clients and not names_controllers_only(given):
        raise ConfigError("listeners has none for clients")
    if any(one.name == CONTROL_LISTENER for one in clients):
        raise ConfigError(
            f"{CONTROL_LISTENER} is the listener of a broker's controller: set "
            f"control.plane.listener.name={CONTROL_LISTENER}, or choose another name"
        )
    clients = clients or [Address(name=CLIENT_LISTENER)]
    control = next((one for one in listening if one.name == control_name), None)
    return clients, control or Address(name=control_name or CONTROL_LISTENER)


def _quorum(given: Settings) -> set[str]:
    """The listeners of KRaft's controllers, which brokers of the ZooKeeper era lack."""
    names = _text(given, "controller.listener.names").split(",")
    return {name.strip().upper() for name in names} - {""}


def _text(given: Settings, key: str) -> str:
    return str(given.get(key) or "")


def _names(addresses: Iterable[Address]) -> str:
    return ",".join(one.name for one in addresses)


def _placed(clients: list[Address], placement: Placement) -> list[Address]:
    """The clients' listeners of the first broker, at the host and port that were chosen."""
    first, *others = [replace(one, host=placement.host or one.host) for one in clients]
    return [replace(first, port=placement.port or first.port), *others]


def _counted(port: int, placement: Placement) -> int:
    return port + placement.place if port else 0


def _parse_address(key: str, text: str) -> Address:
    match = re.fullmatch(_LISTENER, text)
    if match is None or int(match["port"]) > MAX_PORT:
        raise ConfigError(f"{key}: {text!r} is not NAME://host:port")
    return Address(name=match["name"].upper(), host=match["host"], port=int(match["port"]))


def _repeated(values: Iterable[object]) -> object | None:
    return next((value for value, count in Counter(values).items() if count > 1), None)


def _protocols(given: Settings) -> dict[str, str]:
    key = "listener.security.protocol.map"
    text = _text(given, key) or ",".join(f"{name}:{name}" for name in SECURITY_PROTOCOLS)
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


def _advertised_at(
    given: Settings, clients: list[Address], placement: Placement
) -> dict[str, Address]:
    """What listeners advertise once they are placed, by name; "" and 0 stand for their own."""
    advertised = _advertised(given, clients)
    if placement.advertise:
        return {name: Address(name=name, host=placement.advertise) for name in advertised}
    placed = {one.name: one for one in _placed(clients, placement)}
    if clients[0].name in advertised:
        first = clients[0]
        advertised[first.name] = replace(
            advertised[first.name],
            port=_port_to_advertise(advertised[first.name], first, placed[first.name], given),
        )
    if placement.host:
        hosts = {one.name: one.host for one in clients}
        advertised = {
            name: replace(one, host=_host_to_advertise(one.host, hosts[name], placement.host))
            for name, one in advertised.items()
        }
    return {
        name: replace(one, port=_counted(one.port, placement) if placed[name].port else 0)
        for name, one in advertised.items()
    }


def _port_to_advertise(advertised: Address, old: Address, new: Address, given: Settings) -> int:
    """That of a listener that moves from `old` to `new`: clients must not be sent to the old port.

    Another port than the old one belongs to a proxy, which sends clients on to the old one.
    """
    is_listed = _lists_clients(given)
    old_port = old.port if is_listed else _KAFKAS_PORT
    if old_port == new.port or advertised.port in (0, new.port):
        return advertised.port
    if advertised.port == old_port:
        return 0
    if is_listed and old_port:
        raise ConfigError(
            f"advertised.listeners sends clients to {advertised}, which is not port {old_port} of "
            f"the listener, so it cannot follow when `port` moves the listener to {new.port}: set "
            f"{new.port} in listeners and leave out `port`, or use `advertise`"
        )
    return advertised.port


def _host_to_advertise(advertised: str, old: str, new: str) -> str:
    """Likewise; "" stands for the listener's own, which is reachable."""
    is_deserted = is_loopback(advertised) and not (is_loopback(new) or is_wildcard(new))
    return "" if advertised == old or is_deserted else advertised


def _lists_clients(given: Settings) -> bool:
    return bool(given.get("listeners")) and not names_controllers_only(given)


def _advertised(given: Settings, clients: list[Address]) -> dict[str, Address]:
    """By listener; those without an entry of the setting advertise nothing, as in Kafka."""
    is_listed = _lists_clients(given)
    quorum = _quorum(given)
    advertised = [
        one for one in parse_listeners(given, "advertised.listeners") if one.name not in quorum
    ]
    if not advertised:
        return {one.name: Address(name=one.name) for one in clients}
    for one in advertised:
        if is_wildcard(one.host):
            raise ConfigError(
                f"advertised.listeners cannot use the nonroutable meta-address {one.host}. Use a "
                "routable IP address."
            )
    if not is_listed:  # there is one, whatever the address is called
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
