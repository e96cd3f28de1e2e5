"""The broker's view of the cluster: one frozen snapshot, replaced as a whole.

Owner: `_changed` (leaf) orders the writers; readers take `snapshot` and need no lock.
Invariants: a snapshot never changes; a partition's leader epoch never goes back within a topic id.
Not here: decisions (`controller`), and the replicas that act on them (`replica`).
"""

import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import LEADER_DURING_DELETE, TopicPartition
from embedkafka.runtime.locks import leaf_condition
from embedkafka.runtime.topic_names import is_legal
from embedkafka.runtime.values import dataclass, field
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.brokers import FULL, INCREMENTAL, UpdateMetadataRequest
from embedkafka.wire.protocol.wire_types import ZERO_UUID

_LOG = logging.getLogger(__name__)

NOT_INFORMED = -1

_MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where one listener of a broker answers."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNode:
    """A live broker: its listeners by name, and its rack."""

    id: int
    endpoints: Mapping[str, Endpoint]
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """A partition as the controller last described it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSnapshot:
    """The cluster at one moment."""

    brokers: Mapping[int, BrokerNode] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, Mapping[int, PartitionInfo]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    topic_ids: Mapping[str, uuid.UUID] = field(default_factory=lambda: MappingProxyType({}))
    topic_names: Mapping[uuid.UUID, str] = field(default_factory=lambda: MappingProxyType({}))
    controller_id: int = -1
    broker_epoch: int = NOT_INFORMED
    """This broker's registration epoch at the last full update from a controller."""

    @property
    def is_informed(self) -> bool:
        """Whether this broker has had a full update from a controller since it started."""
        return self.broker_epoch != NOT_INFORMED

    def find_partition(self, topic: str, partition: int) -> PartitionInfo | None:
        partitions = self.topics.get(topic)
        return partitions.get(partition) if partitions else None

    def has_leaders(self, topic: str, count: int) -> bool:
        """Whether `topic` has at least `count` partitions, and a live leader for each."""
        partitions = self.topics.get(topic, {})
        return len(partitions) >= count and all(
            info.leader in self.brokers for info in partitions.values()
        )

    def find_endpoint(self, broker_id: int, listener: str) -> Endpoint | None:
        broker = self.brokers.get(broker_id)
        return broker.endpoints.get(listener) if broker else None

    def find_new_leader(
        self, topic_partition: TopicPartition, error: ErrorCode
    ) -> tuple[int, int] | None:
        """The leader and its epoch, for a client whose request met `error` (KIP-951).

        None while there is no leader. Kafka sends the epoch alone then; librdkafka 2.16 reacts to
        that by using a leader and an epoch from uninitialized memory.
        """
        if error not in _MOVED:
            return None
        info = self.find_partition(*topic_partition)
        return None if info is None or info.leader < 0 else (info.leader, info.leader_epoch)

    def endpoints_of(
        self, ids: Collection[int], listener: str
    ) -> Iterator[tuple[int, str, int, str | None]]:
        """Id, host, port and rack of those brokers that are alive and have the listener."""
        for node in self.brokers.values():
            if node.id in ids and listener in node.endpoints:
                endpoint = node.endpoints[listener]
                yield node.id, endpoint.host, endpoint.port, node.rack


class MetadataCache:
    """Applies the controller's updates and hands out the current snapshot."""

    def __init__(self) -> None:
        self._changed = leaf_condition("metadata cache")
        self._snapshot = MetadataSnapshot()
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._uninformed: list[Callable[[], None]] = []

    @property
    def snapshot(self) -> MetadataSnapshot:
        return self._snapshot

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after every update, on the thread that made it."""
        with self._changed:
            self._listeners = (*self._listeners, listener)

    def once_informed(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after the first full update: now, or then on the updating thread."""
        with self._changed:
            if not self._snapshot.is_informed:
                self._uninformed.append(listener)
                return
        listener()

    def update(self, request: UpdateMetadataRequest) -> frozenset[TopicPartition]:
        """Applies one update; a full one replaces everything.

        Returns the partitions that are gone, including those of a topic that was re-created.
        """
        known = self._snapshot.brokers
        removed = self._apply(request)
        if (brokers := self._snapshot.brokers) != known:
            _report_differing_listeners(brokers)
        for listener in (*self._listeners, *self._informed()):
            listener()
        return removed

    def _informed(self) -> list[Callable[[], None]]:
        with self._changed:
            if not self._uninformed or not self._snapshot.is_informed:
                return []
            informed, self._uninformed = self._uninformed, []
            return informed

    def _apply(self, request: UpdateMetadataRequest) -> frozenset[TopicPartition]:
        with self._changed:
            old = self._snapshot
            told_ids = {
                state.topic_name: state.topic_id
                for state in request.topic_states
                if state.topic_id != ZERO_UUID
            }
            renewed = [n for n, id_ in told_ids.items() if old.topic_ids.get(n, id_) != id_]
            stale = old.topics if request.type == FULL else renewed
            kept = {name: listed for name, listed in old.topics.items() if name not in stale}
            topics, removed = _updated_topics(kept, request.topic_states)
            removed |= {
                TopicPartition(topic, partition)
                for topic in stale
                for partition in old.topics.get(topic, ())
                if topic in renewed or partition not in topics.get(topic, ())
            }
            topic_ids = {**old.topic_ids, **told_ids}
            topic_ids = {name: id_ for name, id_ in topic_ids.items() if name in topics}
            self._snapshot = MetadataSnapshot(
                brokers=MappingProxyType(_brokers(request)),
                topics=MappingProxyType(topics),
                topic_ids=MappingProxyType(topic_ids),
                topic_names=MappingProxyType({id_: name for name, id_ in topic_ids.items()}),
                controller_id=request.controller_id,
                # Kafka's own controllers do not say whether an update is full.
                broker_epoch=(
                    old.broker_epoch if request.type == INCREMENTAL else request.broker_epoch
                ),
            )
            self._changed.notify_all()
            return removed

    def await_snapshot(
        self, holds: Callable[[MetadataSnapshot], bool], clock: Clock, deadline_ms: float
    ) -> bool:
        """Waits until `holds(snapshot)`; False if `deadline_ms` passes first."""
        with self._changed:
            while not holds(self._snapshot):
                if not clock.wait_until(self._changed, deadline_ms):
                    return holds(self._snapshot)
            return True


def _report_differing_listeners(brokers: Mapping[int, BrokerNode]) -> None:
    """A client that bootstraps by one listener would not find every broker there."""
    names = {id_: ", ".join(sorted(node.endpoints)) for id_, node in brokers.items()}
    if len(set(names.values())) > 1:
        each = "; ".join(f"broker {id_} has {found}" for id_, found in sorted(names.items()))
        _LOG.error("listeners are not identical across brokers: %s", each)


def _brokers(request: UpdateMetadataRequest) -> dict[int, BrokerNode]:
    return {
        broker.id: BrokerNode(
            id=broker.id,
            endpoints=MappingProxyType(
                {
                    endpoint.listener: Endpoint(host=endpoint.host, port=endpoint.port)
                    for endpoint in broker.endpoints
                }
            ),
            rack=broker.rack,
        )
        for broker in request.live_brokers
    }


def _updated_topics(
    old: Mapping[str, Mapping[int, PartitionInfo]],
    states: Iterable[UpdateMetadataRequest.TopicState],
) -> tuple[dict[str, Mapping[int, PartitionInfo]], frozenset[TopicPartition]]:
    topics = dict(old)
    removed: set[TopicPartition] = set()
    for topic in states:
        partitions = dict(topics.get(topic.topic_name, {}))
        for state in topic.partition_states:
            topic_partition = TopicPartition(topic.topic_name, state.partition_index)
            if not is_legal(topic_partition):
                _LOG.warning("the controller sent an illegal partition: %r", topic_partition)
            elif state.leader == LEADER_DURING_DELETE:
                partitions.pop(state.partition_index, None)
                removed.add(topic_partition)
            else:
                partitions[state.partition_index] = PartitionInfo(
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=tuple(state.isr),
                    replicas=tuple(state.replicas),
                    offline_replicas=tuple(state.offline_replicas),
                )
        if partitions:
            topics[topic.topic_name] = MappingProxyType(partitions)
        else:
            topics.pop(topic.topic_name, None)
    return topics, frozenset(removed)
