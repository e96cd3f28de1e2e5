"""Adapts the parts of a broker to each other's ports.

Each class translates in a few lines; a decision found here is in the wrong place.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from embedkafka.broker.log.log import AppendOrigin, FetchIsolation, Log
from embedkafka.broker.metadata_cache import NOT_INFORMED, MetadataCache
from embedkafka.broker.replica.manager import ReplicaManager
from embedkafka.broker.replica.partition.partition import ACKS_ALL
from embedkafka.broker.replica.ports import LeaderChange
from embedkafka.broker.replica.produce import PartitionResponse
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.scheduler import Scheduler
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.store import ConnectionLoss, SessionExpired, SessionState, ZkError

_LOG = logging.getLogger(__name__)

_POSTPONED_MS: Final = 1000


class CachedMetadata:
    """`replica.ports.MetadataView` and `groups.ports.TopicCatalog` on the metadata cache."""

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache

    def contains(self, topic_partition: TopicPartition) -> bool:
        return self._cache.snapshot.find_partition(*topic_partition) is not None

    def is_alive(self, broker_id: BrokerId) -> bool:
        return broker_id in self._cache.snapshot.brokers

    def rack(self, broker_id: BrokerId) -> str | None:
        node = self._cache.snapshot.brokers.get(broker_id)
        return node.rack if node else None

    def topics(self) -> Mapping[str, tuple[UUID, int]]:
        snapshot = self._cache.snapshot
        return {
            name: (snapshot.topic_ids.get(name, ZERO_UUID), len(partitions))
            for name, partitions in snapshot.topics.items()
        }


class CachedCoordinatorLeaders:
    """`coordinator.ports.KnownLeaders` for one internal topic."""

    def __init__(
        self,
        broker_id: BrokerId,
        cache: MetadataCache,
        topic: str,
        *,
        broker_epoch: Callable[[], int],
    ) -> None:
        """`broker_epoch` returns the epoch of this broker's current registration."""
        self._broker_id = broker_id
        self._cache = cache
        self._topic = topic
        self._broker_epoch = broker_epoch

    @property
    def is_informed(self) -> bool:
        informed_in = self._cache.snapshot.broker_epoch
        return informed_in != NOT_INFORMED and informed_in >= self._broker_epoch()

    def is_elsewhere(self, partition: int) -> bool:
        snapshot = self._cache.snapshot
        info = snapshot.find_partition(self._topic, partition)
        return (
            info is not None and info.leader != self._broker_id and info.leader in snapshot.brokers
        )


class CoordinatorLeadership:
    """`replica.ports.LeadershipListener`: notifies coordinators about their internal topic.

    `listeners` maps a topic to two callbacks, for leading and for following; both take the
    partition and its leader epoch.
    """

    def __init__(
        self,
        listeners: Mapping[str, tuple[Callable[[int, int], None], Callable[[int, int], None]]],
    ) -> None:
        self._listeners = listeners

    def on_leadership_change(
        self, leading: Sequence[LeaderChange], following: Sequence[LeaderChange]
    ) -> None:
        for index, changes in enumerate((leading, following)):
            for change in changes:
                topic, partition = change.topic_partition
                if topic in self._listeners:
                    self._listeners[topic][index](partition, change.leader_epoch)


class DiskFailures:
    """`replica.ports.LogDirEvents`: reports failures to the controller through the store.

    The controller then orders all replicas of this broker again, and learns from the answers which
    are online. While the store is unreachable, the report waits for the next session.

    Owner: `_lock` (leaf) guards the counts of reports that were wanted and made. One that is wanted
    while another is being made comes after it.
    """

    def __init__(self, broker_id: BrokerId, zk: KafkaZk, background: Scheduler) -> None:
        self._broker_id = broker_id
        self._zk = zk
        self._background = background
        self._lock = ranked_lock("reports of log directories", LEAF_RANK)
        self._wanted = self._made = 0
        zk.store.on_session_change(self._on_session_change)

    def on_log_dir_failure(self, directory: str, offline: Sequence[TopicPartition]) -> None:
        self._want()
        self._tell()

    def on_postponed(self) -> None:
        if self._want():
            self._background.once("log-dir-event", _POSTPONED_MS, self._tell)

    def _want(self) -> bool:
        """Returns whether all earlier reports have been made."""
        with self._lock:
            is_first = self._made == self._wanted
            self._wanted += 1
        return is_first

    def _on_session_change(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED and self._made != self._wanted:
            # The thread that reports the session may be the one that carries the request.
            self._background.once("log-dir-event", 0, self._tell)

    def _tell(self) -> None:
        wanted = self._wanted
        try:
            self._zk.notify_log_dir_failure(self._broker_id)
        except (ConnectionLoss, SessionExpired) as error:
            _LOG.warning("the controller learns of a failed log directory later: %r", error)
            return
        with self._lock:
            self._made = wanted
            is_last = self._wanted == wanted
        if not is_last:
            self._background.once("log-dir-event", _POSTPONED_MS, self._tell)


class LocalPartitions:
    """`coordinator.ports.PartitionLogs` on this broker's own replicas."""

    def __init__(
        self, replicas: Callable[[], ReplicaManager], *, append_timeout_ms: int, load_bytes: int
    ) -> None:
        self._replicas = replicas
        self.append_timeout_ms = append_timeout_ms
        self.load_bytes = load_bytes

    def append(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        on_done: Callable[[ErrorCode, int], None],
    ) -> None:
        def finish(results: Mapping[TopicPartition, PartitionResponse]) -> None:
            result = results[topic_partition]
            on_done(result.error, result.base_offset)

        self._replicas().writes.append_records(
            timeout_ms=self.append_timeout_ms,
            required_acks=ACKS_ALL,
            entries={topic_partition: memoryview(bytearray(batch))},
            on_done=finish,
            origin=AppendOrigin.COORDINATOR,
            internal_topics_allowed=True,
        )

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        return self._require_log(topic_partition).log_start_offset

    def read(self, topic_partition: TopicPartition, offset: int) -> memoryview:
        log = self._require_log(topic_partition)
        records = log.read(
            offset,
            max_bytes=self.load_bytes,
            isolation=FetchIsolation.LOG_END,
            min_one_message=True,
        ).records
        return records if isinstance(records, memoryview) else memoryview(records.read())

    def _require_log(self, topic_partition: TopicPartition) -> Log:
        return self._replicas().hosted.require_leader(topic_partition).require_log()


class StoredProducerIds:
    """`transactions.ports.ProducerIdBlocks` on `/latest_producer_id_block`."""

    def __init__(self, broker_id: BrokerId, zk: KafkaZk) -> None:
        self._broker_id = broker_id
        self._zk = zk

    def allocate(self) -> range:
        try:
            block = self._zk.allocate_producer_ids(self._broker_id)
        except ZkError as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
        return range(block.first, block.last + 1)
