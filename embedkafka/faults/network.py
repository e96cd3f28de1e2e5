"""The network between brokers, whose links a test can cut. Clients reach every broker.

Brokers reach each other in two ways: through sockets, which `transport` opens, and inside the
process, where a follower gets its leader's replicas from `peers`. Both respect the same cuts. A cut
link refuses at once, where a real network would often time out: the effect is the same, sooner.

Owner: `_lock` (leaf) guards the cuts and the list of open streams.
Invariants: once `split` or `isolate` has returned, nothing new passes a cut link, and streams on it
are broken. A read in progress between two threads may still finish.
Not here: who keeps ZooKeeper (`session_link`).
"""

import errno
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, TypeVar

from embedkafka.net.transport import Listener, Stream, TcpTransport, Transport
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock

T = TypeVar("T")

CLOSED = -1
"""The `fileno` of a closed stream."""


class Network:
    """All links between the brokers of one cluster."""

    def __init__(self, transport: Transport | None = None) -> None:
        self._transport = transport or TcpTransport()
        self._lock = ranked_lock("network", LEAF_RANK)
        self._sides: Sequence[frozenset[BrokerId]] = ()
        self._isolated: frozenset[BrokerId] = frozenset()
        self._owners: dict[int, BrokerId] = {}
        self._links: list[_Link] = []

    # -- faults

    def split(self, sides: Iterable[Collection[BrokerId]]) -> None:
        """Lets brokers reach only those on their side; a broker on no side reaches all."""
        with self._lock:
            self._sides = tuple(frozenset(side) for side in sides)
        self._break_off()

    def heal(self) -> None:
        """Ends a `split`, but not an `isolate`."""
        with self._lock:
            self._sides = ()

    def isolate(self, broker: BrokerId) -> None:
        """Cuts all links of `broker`, except sockets that others opened to it.

        Those stay open, because a frozen broker does not hang up.
        """
        with self._lock:
            self._isolated |= {broker}
        self._break_off()

    def rejoin(self, broker: BrokerId) -> None:
        """Ends an `isolate`."""
        with self._lock:
            self._isolated -= {broker}

    def joins(self, one: BrokerId, other: BrokerId) -> bool:
        """Whether two brokers can reach each other."""
        return not (one in self._isolated or other in self._isolated or self._is_split(one, other))

    # -- the brokers' side

    def claim(self, broker: BrokerId, ports: Iterable[int]) -> None:
        """Records that these ports belong to `broker`."""
        with self._lock:
            self._owners.update(dict.fromkeys(ports, broker))

    def transport(self, broker: BrokerId) -> Transport:
        """The transport through which `broker` listens and connects."""
        return _LinkedTransport(self, broker)

    def peers(
        self, broker: BrokerId, find: Callable[[BrokerId], T | None]
    ) -> Callable[[BrokerId], T | None]:
        """`find`, limited to brokers that `broker` can reach."""
        return lambda other: find(other) if self.joins(broker, other) else None

    def _listen(self, host: str, port: int, backlog: int) -> Listener:
        return self._transport.listen(host, port, backlog=backlog)

    def _connect(self, broker: BrokerId, host: str, port: int, timeout_s: float) -> Stream:
        to = self._owners.get(port)
        self._require_way(broker, to)
        stream = self._transport.connect(host, port, timeout_s=timeout_s)
        with self._lock:
            self._links = [link for link in self._links if link.stream.fileno() != CLOSED]
            self._links.append(_Link(broker, to, stream))
        try:
            self._require_way(broker, to)  # the link may have been cut during connect
        except ConnectionError:
            stream.close()
            raise
        return stream

    def _require_way(self, broker: BrokerId, to: BrokerId | None) -> None:
        if not self._is_open(broker, to):
            raise ConnectionRefusedError(
                errno.ECONNREFUSED, f"the network between brokers {broker} and {to} is cut"
            )

    def _break_off(self) -> None:
        with self._lock:
            links, self._links = self._links, []
            cut = [link for link in links if not self._is_open(link.broker, link.to)]
            self._links = [link for link in links if link not in cut]
        for link in cut:
            link.stream.abort()

    def _is_open(self, broker: BrokerId, to: BrokerId | None) -> bool:
        """Whether `broker` may keep a connection it opened to `to`; None is no broker of ours."""
        return broker not in self._isolated and (to is None or not self._is_split(broker, to))

    def _is_split(self, one: BrokerId, other: BrokerId) -> bool:
        if not self._sides:
            return False  # the usual case; followers check this before every fetch
        side_of_one = next((side for side in self._sides if one in side), None)
        side_of_other = next((side for side in self._sides if other in side), None)
        return None not in (side_of_one, side_of_other) and side_of_one != side_of_other


class _LinkedTransport:
    """The transport of one broker."""

    def __init__(self, network: Network, broker: BrokerId) -> None:
        self._network = network
        self._broker = broker

    def listen(self, host: str, port: int, *, backlog: int) -> Listener:
        return self._network._listen(host, port, backlog)

    def connect(self, host: str, port: int, *, timeout_s: float) -> Stream:
        return self._network._connect(self._broker, host, port, timeout_s)


class _Link(NamedTuple):
    broker: BrokerId
    to: BrokerId | None
    stream: Stream
