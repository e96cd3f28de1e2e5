"""The network side of one broker: a data plane, and a control plane that clients cannot clog.

Each plane has its own listeners, processors and sink. The acceptors of a plane run on the thread of
its first processor, so an idle broker has two network threads.

Owner: the thread that starts and stops the broker.
Invariants: when `stop` or `kill` returns, every thread has ended and every descriptor is closed.
Not here: the meaning of requests, and the threads of a handler pool.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from embedkafka.runtime.addresses import LOOPBACK
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.values import NamedTuple, dataclass, field
from embedkafka.wire.net.acceptor import Acceptor
from embedkafka.wire.net.channel_authenticator import NewAuthenticator
from embedkafka.wire.net.limits import ConnectionQuota, Limits
from embedkafka.wire.net.processor import Phase, Processor, Sink
from embedkafka.wire.net.transport import Encrypt, Listener, TcpTransport, Transport
from embedkafka.wire.protocol.client_software import ClientSoftware


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """Where to listen; port 0 lets the kernel choose."""

    name: str
    host: str = LOOPBACK
    port: int = 0
    is_control_plane: bool = False
    new_authenticator: NewAuthenticator | None = None
    """Makes an authenticator for each connection; without it, clients need not authenticate."""
    encrypt: Encrypt | None = None
    """Encrypts its connections; without it, they are plain text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The network settings of one broker."""

    listeners: Sequence[ListenerConfig]
    limits: Limits = field(default_factory=Limits)
    num_network_threads: int = 1
    backlog: int = 1024


class Connection(NamedTuple):
    """An open connection, as others may see it."""

    id: str
    address: str
    """The client's host and port."""
    introduction: bytes | None
    """The start of its first request; None if there was none yet."""
    listener: str
    software: ClientSoftware
    may_have_left: bool
    """Whether the broker does not read now what may be the connection's end."""


class ProcessorView(NamedTuple):
    """What a network thread does at one moment."""

    number: int
    is_control_plane: bool
    idle_share: float
    """The part of the time, since that is measured, in which it only waited."""
    response_count: int
    """How many replies of other threads wait for it."""
    connections: Mapping[tuple[str, str], int]
    """How many are open, by listener and address."""
    muted: Mapping[str, int]
    """How many of them have a request in progress, by listener."""


class SocketServer:
    """Listens, and passes requests to `handle`: a function run by the processors, or a queue.

    `control_handle` is the same for the control plane; without it that plane shares `handle`.
    """

    def __init__(
        self,
        config: ServerConfig,
        handle: Sink,
        clock: Clock,
        failures: Failures,
        broker_id: BrokerId | int,
        *,
        control_handle: Sink | None = None,
        transport: Transport | None = None,
    ) -> None:
        self._config = config
        self._handle = handle
        self._control_handle = handle if control_handle is None else control_handle
        self._clock = clock
        self._failures = failures
        self._broker_id = broker_id
        self._transport = transport or TcpTransport()
        self._limits = config.limits
        self._num_network_threads = config.num_network_threads
        self._quota = ConnectionQuota(config.limits)
        # Limits on clients must not shut out the controller.
        self._control_quota = ConnectionQuota(Limits())
        self._listeners: dict[str, Listener] = {}
        self._ports: dict[str, int] = {}
        self._processors: list[Processor] = []
        self._clients: list[Processor] = []
        self._acceptors: list[Acceptor] = []
        self._all_acceptors: list[Acceptor] = []
        self._unsubscribe: Callable[[], None] = _nothing
        self._resizing = ranked_lock("network threads", LEAF_RANK)
        self._ended = False
        self._is_measured = False

    def bind(self) -> None:
        """Opens the listening sockets: clients may connect, but wait until `start`."""
        try:
            for listener in self._config.listeners:
                bound = self._transport.listen(
                    listener.host, listener.port, backlog=self._config.backlog
                )
                self._listeners[listener.name] = bound
                self._ports[listener.name] = bound.port
        except OSError:
            self._close_listeners()
            raise

    def start(self) -> None:
        """Starts to serve; binds first if necessary."""
        if not self._listeners:
            self.bind()
        self._clients = [
            self._add_processor(f"processor-{index}", is_control_plane=False)
            for index in range(self._num_network_threads)
        ]
        self._accept_for(self._clients, self._quota, is_control_plane=False)
        if any(listener.is_control_plane for listener in self._config.listeners):
            control = self._add_processor("control", is_control_plane=True)
            self._accept_for([control], self._control_quota, is_control_plane=True)
        self._unsubscribe = self._clock.subscribe(self._on_jump)
        for processor in self._processors:
            processor.start()

    def bound_port(self, listener: str) -> int:
        """The port of the named listener, also after the end."""
        return self._ports[listener]

    @property
    def connection_count(self) -> int:
        """How many connections are open, on both planes."""
        return self._quota.count + self._control_quota.count

    def client_connections(self) -> list[Connection]:
        """The open connections, without those of the control plane."""
        return [
            Connection(
                channel.id,
                channel.peer,
                channel.introduction,
                channel.listener,
                channel.software,
                channel.may_have_left,
            )
            for processor in self._clients
            for channel in processor.channels()
        ]

    def measure(self, *, on: bool) -> None:
        """Starts to measure how much time its threads have to spare, or ends it."""
        self._is_measured = on
        for processor in self._processors:
            processor.measure(on=on)

    def processor_views(self) -> list[ProcessorView]:
        """What the network threads do, those of the data plane first."""
        control = [each for each in self._processors if each.is_control_plane]
        return [
            _view(number, processor)
            for plane in (self._clients, control)
            for number, processor in enumerate(plane)
        ]

    def blocked_shares(self) -> dict[str, float]:
        """The part of the time in which no connection was accepted, by listener."""
        now_ms = self._clock.monotonic_ms()
        return {each.name: each.blocked.share(now_ms) for each in self._all_acceptors}

    @property
    def limits(self) -> Limits:
        """The current limits on clients."""
        return self._limits

    def set_limits(self, limits: Limits) -> None:
        """Changes the limits; closes connections over the new ones."""
        if limits != self._limits:
            self._limits = limits
            self._quota.set_limits(limits)
            for processor in self._clients:
                processor.close_excess()

    def set_address_rates(self, rates: Mapping[str | None, int]) -> None:
        """Limits new connections per second by address; None stands for all others."""
        self._quota.set_address_rates(rates)

    def resize(self, num_network_threads: int) -> None:
        """Changes the number of threads; those that end close their connections."""
        with self._resizing:  # one that is not started when the server ends would start later
            clients, self._num_network_threads = self._clients, num_network_threads
            if self._ended or not clients or len(clients) == num_network_threads:
                return
            added = [
                self._add_processor(f"processor-{index}", is_control_plane=False)
                for index in range(len(clients), num_network_threads)
            ]
            self._clients = clients[:num_network_threads] + added
            for processor in added:
                processor.start()
        for acceptor in self._acceptors:
            acceptor.owners = self._clients
        # `stop` joins them: this may be the thread of one of them.
        for processor in clients[num_network_threads:]:
            processor.stop(Phase.STOPPING)

    def pause(self) -> None:
        """Freezes, as in a long garbage collection: the kernel accepts, but no one answers."""
        for processor in self._processors:
            processor.pause()

    def resume(self) -> None:
        for processor in self._processors:
            processor.resume()

    def stop(self) -> None:
        """Stops accepting, finishes writing replies, and closes."""
        self._end(Phase.STOPPING)

    def kill(self) -> None:
        """Resets every connection, as if the process had died."""
        for processor in self._processors:
            processor.stop(Phase.KILLED)
        for listener in self._listeners.values():
            listener.abort()  # at once, even while a processor is busy
        self._end(Phase.KILLED)

    def close_clients(self, which: Callable[[Any], bool], reason: str) -> None:
        """Soon closes the connections whose principal is one of `which`; Any: as in `ReplyPort`."""
        for processor in self._processors:
            processor.close_clients(which, reason)

    def cut_off(self) -> None:
        """Frees the ports and resets connections, without waiting for threads."""
        for processor in self._processors:
            processor.cut_off()
        self._close_listeners()

    def _add_processor(self, name: str, *, is_control_plane: bool) -> Processor:
        processor = Processor(
            f"ek-b{self._broker_id}-{name}",
            self._control_handle if is_control_plane else self._handle,
            self._clock,
            self._failures,
            self._config.limits,
            self._control_quota if is_control_plane else self._quota,
            is_control_plane=is_control_plane,
            authenticators={
                listener.name: listener.new_authenticator
                for listener in self._config.listeners
                if listener.new_authenticator is not None
            },
        )
        processor.measure(on=self._is_measured)
        self._processors.append(processor)
        return processor

    def _accept_for(
        self, plane: Sequence[Processor], quota: ConnectionQuota, *, is_control_plane: bool
    ) -> None:
        """The first processor of `plane` accepts for all of them."""
        for listener in self._config.listeners:
            if listener.is_control_plane == is_control_plane:
                acceptor = Acceptor(
                    listener.name,
                    self._listeners[listener.name],
                    plane,
                    quota,
                    listener.encrypt,
                    now_ms=self._clock.monotonic_ms(),
                )
                plane[0].add_acceptor(acceptor)
                self._all_acceptors.append(acceptor)
                if not is_control_plane:
                    self._acceptors.append(acceptor)

    def _on_jump(self) -> None:
        for processor in self._processors:
            processor.wake()

    def _end(self, phase: Phase) -> None:
        self._unsubscribe()
        with self._resizing:
            self._ended = True
            processors, self._processors = self._processors, []
        for processor in processors:
            processor.stop(phase)
        for processor in processors:
            processor.join()
        self._close_listeners()

    def _close_listeners(self) -> None:
        for listener in list(self._listeners.values()):
            listener.close()
        self._listeners.clear()


def _view(number: int, processor: Processor) -> ProcessorView:
    channels = processor.channels()
    return ProcessorView(
        number=number,
        is_control_plane=processor.is_control_plane,
        idle_share=processor.idle_share,
        response_count=processor.response_count,
        connections=Counter((each.listener, each.client_address) for each in channels),
        muted={
            name: sum(each.muted for each in channels if each.listener == name)
            for name in dict.fromkeys(each.listener for each in channels)
        },
    )


def _nothing() -> None:
    """The initial value of a subscription."""
