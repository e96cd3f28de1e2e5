"""The network between brokers, whose links a test can cut. Clients reach every broker.

Brokers reach each other in two ways: through sockets, which `transport` opens, and inside the
process, where a follower gets its leader's replicas from `peers`. Both respect the same cuts. A cut
link refuses at once, where a real network would often time out: the effect is the same, sooner.

Owner: `_lock` (leaf) guards the cuts and the list of open streams.
Invariants: once `split` or `isolate` has returned, nothing new passes a cut link, and streams on it
are broken, with the requests that faults hold there. A read in progress between two threads may
still finish.
Not here: who keeps ZooKeeper (`session_link`).
"""

import errno
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from embedkafka.broker.replica.manager import ReplicaManager
from embedkafka.broker.replica.partition_notifier import FollowerListener
from embedkafka.faults.held import sender
from embedkafka.faults.links import CutLink, Links, SlowLink, StalledLink, Way
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.net.request_channel import Request
from embedkafka.wire.net.transport import Listener, Stream, TcpTransport, Transport

CLOSED = -1
"""The `fileno` of a closed stream."""


class Network:
    """All links between the brokers of one cluster."""

    def __init__(self, transport: Transport | None = None, *, links: Links | None = None) -> None:
        self._transport = transport or TcpTransport()
        self._link_faults = links
        self._has_link_faults = False
        self._accepted: list[_Accepted] = []
        self._slow_peers: dict[tuple[BrokerId, BrokerId, int], _SlowReplicas] = {}
        self._lock = ranked_lock("network", LEAF_RANK)
        self._sides: Sequence[frozenset[BrokerId]] = ()
        self._isolated: frozenset[BrokerId] = frozenset()
        self._owners: dict[int, BrokerId] = {}
        self._hosts: dict[int, str] = {}
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

    @property
    def sides(self) -> Sequence[frozenset[BrokerId]]:
        """The sides of a `split`; empty if there is none."""
        return self._sides

    def joins(self, one: BrokerId, other: BrokerId) -> bool:
        """Whether two brokers can reach each other."""
        return not (one in self._isolated or other in self._isolated or self._is_split(one, other))

    def on_links_changed(self) -> None:
        """Link faults came or went: breaks connections on links that are cut now."""
        self._has_link_faults = bool(self._link_faults and self._link_faults.faults)
        self._slow_peers.clear()
        if self._has_link_faults:
            self._break_off()
            for accepted in list(self._accepted):
                if self.source_at(accepted.stream.peer) is None and self._is_cut(
                    None, accepted.broker
                ):
                    self._break(accepted.stream, accepted.stream.peer)

    def source_of(self, request: Request) -> BrokerId | None:
        """The broker that sent a request, or None for a client."""
        return self.source_at(sender(request))

    def source_at(self, address: str) -> BrokerId | None:
        """The broker whose connection has this address, or None for a client's."""
        links = list(self._links)
        return next((link.broker for link in links if link.stream.local == address), None)

    # -- the brokers' side

    def claim(self, broker: BrokerId, hosts: Mapping[int, str]) -> None:
        """Records that `broker` has these ports, at these hosts.

        So brokers find each other, also by a name that only clients elsewhere can resolve.
        """
        with self._lock:
            self._owners.update(dict.fromkeys(hosts, broker))
            self._hosts.update(hosts)

    def transport(self, broker: BrokerId) -> Transport:
        """The transport through which `broker` listens and connects."""
        return _LinkedTransport(self, broker)

    def peers(
        self, broker: BrokerId, find: Callable[[BrokerId], ReplicaManager | None]
    ) -> Callable[[BrokerId], ReplicaManager | None]:
        """`find`, limited to brokers that `broker` can reach."""

        def find_reachable(other: BrokerId) -> ReplicaManager | None:
            if not self.joins(broker, other):
                return None
            found = find(other)
            if self._has_link_faults and found is not None:
                return self._across(broker, other, found)
            return found

        return find_reachable

    def _across(
        self, broker: BrokerId, other: BrokerId, found: ReplicaManager
    ) -> ReplicaManager | None:
        """The replicas of `other` as the link shows them to `broker`."""
        assert self._link_faults is not None
        fault = self._link_faults.find(broker, other)
        if isinstance(fault, CutLink | StalledLink):
            return None
        if not isinstance(fault, SlowLink):
            return found
        key = broker, other, id(found)
        slow = _SlowReplicas(found, fault, self._link_faults)
        return self._slow_peers.setdefault(key, slow)  # type: ignore[return-value]  # what a follower uses of it

    def _listen(self, broker: BrokerId, host: str, port: int, backlog: int) -> Listener:
        listener = self._transport.listen(host, port, backlog=backlog)
        return _LinkedListener(self, broker, listener)

    def _accept(self, broker: BrokerId, listener: Listener) -> Stream:
        stream = listener.accept()
        with self._lock:
            self._accepted = [one for one in self._accepted if one.stream.fileno() != CLOSED]
            self._accepted.append(_Accepted(broker, stream))
        return stream

    def _connect(self, broker: BrokerId, host: str, port: int, timeout_s: float) -> Stream:
        to = self._owners.get(port)
        self._require_way(broker, to)
        stream = self._transport.connect(self._hosts.get(port, host), port, timeout_s=timeout_s)
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
            self._break(link.stream, link.stream.local)

    def _break(self, stream: Stream, sender_address: str) -> None:
        """Aborts a connection, and loses the request that a fault holds on it."""
        if self._link_faults is not None:
            self._link_faults.held.lose(sender_address)
        stream.abort()

    def _is_open(self, broker: BrokerId, to: BrokerId | None) -> bool:
        """Whether `broker` may keep a connection it opened to `to`; None is no broker of ours."""
        if to is None:
            return broker not in self._isolated
        return not (
            broker in self._isolated or self._is_split(broker, to) or self._is_cut(broker, to)
        )

    def _is_cut(self, source: BrokerId | None, target: BrokerId) -> bool:
        if not self._has_link_faults:
            return False
        assert self._link_faults is not None
        return isinstance(self._link_faults.find(source, target), CutLink)

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
        return self._network._listen(self._broker, host, port, backlog)

    def connect(self, host: str, port: int, *, timeout_s: float) -> Stream:
        return self._network._connect(self._broker, host, port, timeout_s)


class _LinkedListener:
    """A listener that tells the network what it accepts."""

    def __init__(self, network: Network, broker: BrokerId, listener: Listener) -> None:
        self._network = network
        self._broker = broker
        self._listener = listener
        self.host, self.port = listener.host, listener.port
        self.fileno, self.abort, self.close = listener.fileno, listener.abort, listener.close

    def accept(self) -> Stream:
        return self._network._accept(self._broker, self._listener)


class _SlowReplicas:
    """The replicas of a leader behind a slow link: its news come late."""

    def __init__(self, replicas: ReplicaManager, link: SlowLink, links: Links) -> None:
        self.reads = replicas.reads
        self.hosted = replicas.hosted
        self.waiters = _SlowNews(replicas, link, links)


class _SlowNews:
    def __init__(self, replicas: ReplicaManager, link: SlowLink, links: Links) -> None:
        self._waiters = replicas.waiters
        self._link = link
        self._links = links
        self._late: dict[tuple[TopicPartition, FollowerListener], FollowerListener] = {}

    def listen(self, topic_partition: TopicPartition, listener: FollowerListener) -> None:
        def listen_late(about: TopicPartition) -> None:
            if self._link not in self._links.faults:  # mended; the follower has yet to notice
                listener(about)
                return
            delay_ms = self._links._delay_ms(self._link, Way.OUT, 0)
            self._links.late.once("slow news", delay_ms, lambda: listener(about))

        late = self._late.setdefault((topic_partition, listener), listen_late)
        self._waiters.listen(topic_partition, late)

    def forget(self, topic_partition: TopicPartition, listener: FollowerListener) -> None:
        late = self._late.pop((topic_partition, listener), None)
        if late is not None:
            self._waiters.forget(topic_partition, late)


class _Accepted(NamedTuple):
    broker: BrokerId
    stream: Stream


class _Link(NamedTuple):
    broker: BrokerId
    to: BrokerId | None
    stream: Stream
