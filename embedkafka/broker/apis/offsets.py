"""Offsets by time and by epoch, deleting records, and log directories."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embedkafka.broker import log_dirs
from embedkafka.broker.api_table import REASON, Api, Need
from embedkafka.broker.dispatch import LATER
from embedkafka.broker.log.log import FetchIsolation
from embedkafka.broker.replica.deletion import DeletedRecords
from embedkafka.broker.replica.fetch import CONSUMER_REPLICA_ID
from embedkafka.broker.replica.partition.partition import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from embedkafka.broker.replica.partition.values import OffsetAnswer, OffsetSearch
from embedkafka.runtime.ids import TopicPartition
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.core import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from embedkafka.wire.protocol.messages.topics import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

if TYPE_CHECKING:
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

_DEBUGGING: Final = -2
_READ_UNCOMMITTED: Final = 0
_BY_SEGMENTS: Final = 0
_FIRST_VERSION_OF: Final = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""Negative timestamps with a meaning, and the version that introduced each."""

_Listed = ListOffsetsResponse.Topic.Partition


def list_offsets(
    broker: "BrokerParts", request: ListOffsetsRequest, context: "RequestContext"
) -> object:
    """Offsets by timestamp, for leaders only.

    Behaviour: consumers see the high watermark as the end, read-committed ones the last stable
    offset; a partition named twice answers INVALID_REQUEST, once. A search that has to inflate a
    large batch runs on the thread for conversions.
    Versions:  v0 lists segment starts; v7 knows the highest timestamp (-3), v8 to v11 those
    of tiered storage.
    Left out:  tiered storage, whose timestamps find the local log start or nothing.
    """
    asked = Counter(
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    begun: dict[str, dict[int, _Listed | OffsetSearch]] = {}
    for topic in request.topics:
        partitions = begun.setdefault(topic.name, {})
        for partition in topic.partitions:
            partitions[partition.partition_index] = _begin(
                broker, request, context, topic.name, partition, asked
            )

    def finish() -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsResponse.Topic(
                    name=name,
                    partitions=[_finished(index, found) for index, found in partitions.items()],
                )
                for name, partitions in begun.items()
                if partitions
            ]
        )

    @context.answering
    def finish_and_reply() -> None:
        context.reply(finish())

    if any(
        isinstance(found, OffsetSearch) and found.is_slow
        for partitions in begun.values()
        for found in partitions.values()
    ):
        broker.conversions.once("search-by-time", 0, finish_and_reply)
        return LATER
    return finish()


def _begin(
    broker: "BrokerParts",
    request: ListOffsetsRequest,
    context: "RequestContext",
    name: str,
    partition: ListOffsetsRequest.Topic.Partition,
    asked: Mapping[TopicPartition, int],
) -> _Listed | OffsetSearch:
    """The answer for one partition, or the search that will find it."""
    topic_partition = TopicPartition(name, partition.partition_index)
    try:
        if not FetchIsolation.is_known(request.isolation_level):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "unknown isolation level")
        if asked[topic_partition] > 1 and context.version > _BY_SEGMENTS:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{topic_partition} is requested twice")
        if not _is_supported(partition.timestamp, context.version):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if context.version == _BY_SEGMENTS:
            return _segment_offsets(broker, topic_partition, partition, request.replica_id)
        found = broker.replicas.hosted.require(topic_partition).search_offset(
            partition.timestamp,
            isolation=_isolation(request.replica_id, request.isolation_level),
            current_leader_epoch=partition.current_leader_epoch,
            only_leader=request.replica_id != _DEBUGGING,
        )
    except ApiError as error:
        return _Listed(partition_index=partition.partition_index, error_code=error.code)
    if isinstance(found, OffsetSearch):
        return found
    return _listed(partition.partition_index, found)


def _finished(index: int, found: _Listed | OffsetSearch) -> _Listed:
    if not isinstance(found, OffsetSearch):
        return found
    try:
        return _listed(index, found.finish())
    except ApiError as error:
        return _Listed(partition_index=index, error_code=error.code)


def _listed(index: int, found: OffsetAnswer | None) -> _Listed:
    if found is None:
        return _Listed(partition_index=index)
    return _Listed(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _is_supported(timestamp: int, version: int) -> bool:
    """Whether `timestamp` is a time, or has a meaning in this version."""
    if timestamp >= 0:
        return True
    first = _FIRST_VERSION_OF.get(timestamp)
    return first is not None and first <= max(version, 1)  # v0 has the same two as v1


def _segment_offsets(
    broker: "BrokerParts",
    topic_partition: TopicPartition,
    asked: ListOffsetsRequest.Topic.Partition,
    replica_id: int,
) -> _Listed:
    offsets = broker.replicas.hosted.require(topic_partition).find_segment_offsets(
        asked.timestamp,
        max_count=asked.max_num_offsets,
        isolation=_isolation(replica_id, _READ_UNCOMMITTED),
        only_leader=replica_id != _DEBUGGING,
    )
    return _Listed(partition_index=asked.partition_index, old_style_offsets=offsets)


def _isolation(replica_id: int, isolation_level: int) -> FetchIsolation:
    if replica_id != CONSUMER_REPLICA_ID:
        return FetchIsolation.LOG_END
    return FetchIsolation.for_consumer(isolation_level)


def offset_for_leader_epoch(
    broker: "BrokerParts", request: OffsetForLeaderEpochRequest, context: "RequestContext"
) -> OffsetForLeaderEpochResponse:
    """The end offset of a leader epoch, or of the last one before it."""

    def answer(
        name: str, asked: OffsetForLeaderEpochRequest.Topic.Partition
    ) -> OffsetForLeaderEpochResponse.Topic.Partition:
        try:
            partition = broker.replicas.hosted.require(TopicPartition(name, asked.partition))
            end = partition.end_offset_for_epoch(
                asked.leader_epoch, current_leader_epoch=asked.current_leader_epoch
            )
        except ApiError as error:
            return OffsetForLeaderEpochResponse.Topic.Partition(
                partition=asked.partition, error_code=error.code
            )
        return OffsetForLeaderEpochResponse.Topic.Partition(
            partition=asked.partition, leader_epoch=end.epoch, end_offset=end.end_offset
        )

    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.Topic(
                topic=topic.topic, partitions=[answer(topic.topic, p) for p in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def delete_records(
    broker: "BrokerParts", request: DeleteRecordsRequest, context: "RequestContext"
) -> object:
    """Moves log starts forward; answers when all live replicas have followed."""

    @context.answering
    def on_done(results: Mapping[TopicPartition, DeletedRecords]) -> None:
        context.reply(
            DeleteRecordsResponse(
                topics=[
                    DeleteRecordsResponse.Topic(
                        name=topic,
                        partitions=[_deleted(partition, results) for partition in partitions],
                    )
                    for topic, partitions in _by_topic(offsets).items()
                ]
            )
        )

    offsets = {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    broker.replicas.writes.delete_records(offsets, on_done, timeout_ms=request.timeout_ms)
    return LATER


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        found.setdefault(partition.topic, []).append(partition)
    return found


def _deleted(
    partition: TopicPartition, results: Mapping[TopicPartition, DeletedRecords]
) -> DeleteRecordsResponse.Topic.Partition:
    result = results[partition]
    return DeleteRecordsResponse.Topic.Partition(
        partition_index=partition.partition,
        low_watermark=result.low_watermark,
        error_code=result.error,
    )


def describe_log_dirs(
    broker: "BrokerParts", request: DescribeLogDirsRequest, context: "RequestContext"
) -> DescribeLogDirsResponse:
    """Log directories, with size and lag of the requested partitions (null: all)."""
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.topic, partition)
            for topic in request.topics
            for partition in topic.partitions
        }
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResponse.LogDir(
                error_code=directory.error,
                log_dir=directory.path,
                topics=_log_dir_topics(
                    [r for r in directory.replicas if wanted is None or r.topic_partition in wanted]
                ),
                total_bytes=directory.total_bytes,
                usable_bytes=directory.usable_bytes,
            )
            for directory in log_dirs.describe_log_dirs(broker.logs, broker.replicas.hosted)
        ]
    )


def _log_dir_topics(
    replicas: Sequence[log_dirs.ReplicaInfo],
) -> list[DescribeLogDirsResponse.LogDir.Topic]:
    by_topic: dict[str, list[DescribeLogDirsResponse.LogDir.Topic.Partition]] = {}
    for topic_partition, size, lag, is_future in sorted(replicas):
        by_topic.setdefault(topic_partition.topic, []).append(
            DescribeLogDirsResponse.LogDir.Topic.Partition(
                partition_index=topic_partition.partition,
                partition_size=size,
                offset_lag=lag,
                is_future_key=is_future,
            )
        )
    return [
        DescribeLogDirsResponse.LogDir.Topic(name=name, partitions=listed)
        for name, listed in by_topic.items()
    ]


def alter_replica_log_dirs(
    broker: "BrokerParts", request: AlterReplicaLogDirsRequest, context: "RequestContext"
) -> AlterReplicaLogDirsResponse:
    """Starts to move replicas between this broker's log directories; each succeeds or fails alone.

    Behaviour: a partition without a replica here answers REPLICA_NOT_AVAILABLE, or
    UNKNOWN_TOPIC_OR_PARTITION; a later replica of it is created in that directory.
    """
    snapshot = broker.metadata.snapshot

    def move(topic_partition: TopicPartition, path: str) -> ErrorCode:
        try:
            if broker.replicas.hosted.is_offline(topic_partition):
                return ErrorCode.KAFKA_STORAGE_ERROR
            broker.logs.move(topic_partition, Path(path))
        except ApiError as error:
            missing = error.code is ErrorCode.REPLICA_NOT_AVAILABLE
            if missing and snapshot.find_partition(*topic_partition) is None:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return error.code
        return ErrorCode.NONE

    targets = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirsResponse.Topic(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirsResponse.Topic.Partition(
                        partition_index=partition.partition,
                        error_code=move(partition, targets[partition]),
                    )
                    for partition in partitions
                ],
            )
            for name, partitions in _by_topic(targets).items()
        ]
    )


APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.LIST_OFFSETS: Api(list_offsets, [Need(AclOperation.DESCRIBE, ResourceType.TOPIC)]),
    ApiKey.DELETE_RECORDS: Api(
        delete_records, [Need(AclOperation.DELETE, ResourceType.TOPIC)], merges=True
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Api(
        offset_for_leader_epoch,
        [
            Need(
                AclOperation.DESCRIBE,
                ResourceType.TOPIC,
                "or the other one",
                on_cluster=AclOperation.CLUSTER_ACTION,
            )
        ],
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Api(
        alter_replica_log_dirs, [Need(AclOperation.ALTER, ResourceType.CLUSTER, says=REASON)]
    ),
    ApiKey.DESCRIBE_LOG_DIRS: Api(
        describe_log_dirs, [Need(AclOperation.DESCRIBE, ResourceType.CLUSTER, says=REASON)]
    ),
}
