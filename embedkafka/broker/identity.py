"""Who and where a broker is: its id, its settings, its listeners, and the ports they are bound to.

Owner: none; the server says which ports it has.
Not here: planning listeners (`settings.listeners`).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.definition import ConfigValue
from embedkafka.broker.settings.listeners import (
    AS_SET,
    Address,
    Listeners,
    NamedListener,
    Placement,
    plan_listeners,
)
from embedkafka.runtime.addresses import LOOPBACK, format_address, is_loopback, is_wildcard
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.values import dataclass, field, replace
from embedkafka.wire.net.transport import own_address
from embedkafka.zk.payloads import BrokerEndpoint, BrokerInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """What makes one broker different from the next.

    Access to the control plane is control of the broker. So it listens on `control_host`, which is
    loopback unless the cluster spans machines.
    """

    id: BrokerId
    placement: Placement = AS_SET
    ports: Mapping[str, int] = field(default_factory=dict)
    """Ports for listeners that have none, by name."""
    control_host: str = LOOPBACK
    config: BrokerConfig

    @property
    def log_dirs(self) -> Sequence[Path]:
        text = self.config.text("log.dirs") or self.config.text("log.dir")
        return [Path(part.strip()) for part in text.split(",")]

    @property
    def rack(self) -> str | None:
        return self.config.text("broker.rack") or None

    def listeners(self) -> Listeners:
        return plan_listeners(
            self.config.given, self.placement, control_host=self.control_host, ports=self.ports
        )


class BoundListeners:
    """The listeners of a broker that has bound its ports."""

    def __init__(
        self, spec: BrokerSpec, listeners: Listeners, bound_port: Callable[[str], int]
    ) -> None:
        self._spec = spec
        self._listeners = listeners
        self._bound_port = bound_port
        self._own_addresses = {
            one.host: own_address(one.host) for one in listeners.all if is_wildcard(one.host)
        }

    def port(self, listener: str | None = None) -> int:
        """The port of the named listener, or of the first one for clients."""
        return self._bound_port(listener or self._listeners.clients[0].name)

    def ports(self) -> dict[str, int]:
        """All ports it listens on, by listener."""
        return {listener.name: self.port(listener.name) for listener in self._listeners.all}

    @property
    def addresses(self) -> dict[str, str]:
        """Where clients connect, as `host:port`, by listener.

        A listener on all addresses of the machine is where it says that it is, or at the machine's
        own address if it says the port of a proxy.
        """
        return {
            one.name: format_address(self._host_of(one), self.port(one.name))
            for one in self._listeners.clients
        }

    @property
    def advertised(self) -> dict[str, str]:
        """What clients learn from the listeners that are advertised, as `host:port`, by name."""
        found = [self._advertised(one) for one in self._listeners.clients if one.advertised]
        return {one.name: format_address(one.host, one.port) for one in found}

    def local_hosts(self) -> dict[int, str]:
        """The host at which this process reaches each port, whatever clients are given."""
        loopback = {"0.0.0.0": LOOPBACK, "::": "::1"}
        return {
            self.port(one.name): loopback.get(one.host, one.host) for one in self._listeners.all
        }

    def facts(self) -> dict[str, ConfigValue]:
        """Settings that describe this broker, whatever the user asked for."""
        listeners = self._listeners
        advertised = [self._advertised(one) for one in listeners.clients if one.advertised]
        return {
            "advertised.listeners": ",".join(map(str, advertised)),
            "broker.id": self._spec.id,
            "control.plane.listener.name": listeners.control.name,
            "inter.broker.listener.name": listeners.inter_broker,
            "listener.security.protocol.map": listeners.protocol_map(),
            "listeners": ",".join(
                str(Address(name=one.name, host=one.host, port=self.port(one.name)))
                for one in listeners.all
            ),
            "log.dirs": ",".join(map(str, self._spec.log_dirs)),
            "node.id": self._spec.id,
        }

    def _advertised(self, listener: NamedListener) -> Address:
        """What others learn about one of the listeners that are advertised."""
        given = listener.advertised
        assert given is not None, f"{listener.name} is not advertised"
        return Address(
            name=listener.name,
            host=given.host or self._own_addresses.get(listener.host, listener.host),
            port=given.port or self.port(listener.name),
        )

    def _host_of(self, listener: NamedListener) -> str:
        """Another port is a proxy's, which may not pass this one on."""
        if listener.host not in self._own_addresses:
            return listener.host
        told, port = listener.advertised, self.port(listener.name)
        is_direct = told is not None and (told.port or port) == port
        return (told.host if told and is_direct else "") or self._own_addresses[listener.host]

    def info(self) -> BrokerInfo:
        return BrokerInfo(
            id=self._spec.id,
            endpoints=tuple(
                self._endpoint(one) for one in self._listeners.all if one.advertised is not None
            ),
            rack=self._spec.rack,
        )

    def _endpoint(self, listener: NamedListener) -> BrokerEndpoint:
        address = self._advertised(listener)
        if listener.is_control_plane and not is_loopback(address.host):
            # Other machines reach it by the name under which they reach everything else.
            [inter_broker] = [
                one for one in self._listeners.clients if one.name == self._listeners.inter_broker
            ]
            address = replace(address, host=self._advertised(inter_broker).host)
        return BrokerEndpoint(
            host=address.host,
            port=address.port,
            listener=listener.name,
            security_protocol=listener.protocol,
        )
