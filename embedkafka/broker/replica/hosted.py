"""The partitions that this broker hosts: online, or offline because of a failed disk.

Owner: `_lock` (leaf) guards both maps while they change; reads of one entry need no lock.
Invariants: a partition is never both online and offline.
"""

from collections.abc import Iterable

from embedkafka.broker.replica.partition.partition import Partition
from embedkafka.broker.replica.partition.values import PartitionView
from embedkafka.broker.replica.ports import MetadataView
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.wire.protocol.errors import ApiError, ErrorCode


class HostedPartitions:
    """Finds partitions, or raises the error code that Kafka uses for their absence."""

    def __init__(self, broker_id: BrokerId, metadata: MetadataView) -> None:
        self.broker_id = broker_id
        self._metadata = metadata
        self._lock = ranked_lock("hosted partitions", LEAF_RANK)
        self._online: dict[TopicPartition, Partition] = {}
        self._offline: set[TopicPartition] = set()

    def find(self, topic_partition: TopicPartition) -> Partition | None:
        return self._online.get(topic_partition)

    def require(self, topic_partition: TopicPartition) -> Partition:
        """The partition, leader or follower, or ApiError with the reason."""
        partition = self._online.get(topic_partition)
        if partition is None:
            raise ApiError(self._reason(topic_partition), self._absence(topic_partition))
        return partition

    def require_leader(self, topic_partition: TopicPartition) -> Partition:
        partition = self.require(topic_partition)
        if not partition.is_leader:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {self.broker_id} does not lead {topic_partition}",
            )
        return partition

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._offline

    def online(self) -> list[Partition]:
        with self._lock:
            return list(self._online.values())

    def views(self) -> list[PartitionView]:
        """Every online partition at this moment, for reports."""
        return [partition.view() for partition in self.online()]

    def offline(self) -> list[TopicPartition]:
        with self._lock:
            return list(self._offline)

    def add(self, partition: Partition) -> None:
        with self._lock:
            self._online[partition.topic_partition] = partition
            self._offline.discard(partition.topic_partition)

    def remove(self, topic_partition: TopicPartition) -> Partition | None:
        with self._lock:
            self._offline.discard(topic_partition)
            return self._online.pop(topic_partition, None)

    def take_offline(self, topic_partitions: Iterable[TopicPartition]) -> list[Partition]:
        """Marks partitions offline; returns those that were online."""
        with self._lock:
            topic_partitions = list(topic_partitions)
            self._offline.update(topic_partitions)
            return [
                partition
                for topic_partition in topic_partitions
                if (partition := self._online.pop(topic_partition, None)) is not None
            ]

    def _reason(self, topic_partition: TopicPartition) -> ErrorCode:
        if topic_partition in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._metadata.contains(topic_partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _absence(self, topic_partition: TopicPartition) -> str:
        return f"broker {self.broker_id} has no replica of {topic_partition} in use"
