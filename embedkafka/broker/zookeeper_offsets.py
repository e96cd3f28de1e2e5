"""Offsets committed to ZooKeeper, by OffsetCommit v0 and OffsetFetch v0.

Such groups have no coordinator and no known members, so any broker answers.
Not here: offsets in `__consumer_offsets` (`group`), which are separate.
"""

from collections.abc import Sequence

from embedkafka.broker.metadata_cache import MetadataSnapshot
from embedkafka.runtime.ids import NO_OFFSET, TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import OffsetCommitRequest, OffsetFetchResponse
from embedkafka.zk.kafka_zk import KafkaZk

_Fetched = OffsetFetchResponse.Group.Topic.Partition


def commit_offsets(
    zk: KafkaZk,
    group: str,
    topics: Sequence[OffsetCommitRequest.Topic],
    *,
    max_metadata_size: int,
) -> list[ErrorCode]:
    """Stores offsets of existing partitions, without metadata; an error code for each."""

    def commit(topic: str, partition: OffsetCommitRequest.Topic.Partition) -> ErrorCode:
        if len(partition.committed_metadata or "") > max_metadata_size:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        if not group:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # no znode has such a path
        topic_partition = TopicPartition(topic, partition.partition_index)
        zk.set_consumer_offset(group, topic_partition, partition.committed_offset)
        return ErrorCode.NONE

    return [commit(topic.name, partition) for topic in topics for partition in topic.partitions]


def fetch_offset(
    zk: KafkaZk, group: str, topic_partition: TopicPartition, snapshot: MetadataSnapshot
) -> _Fetched:
    """Committed offsets; a partition without one answers as if it did not exist."""
    is_there = topic_partition.partition in snapshot.topics.get(topic_partition.topic, {})
    offset = zk.find_consumer_offset(group, topic_partition) if group and is_there else None
    return _Fetched(
        partition_index=topic_partition.partition,
        committed_offset=NO_OFFSET if offset is None else offset,
        metadata="",
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if offset is None else ErrorCode.NONE,
    )
