"""Turns offset requests into plain values and answers into responses, for every version."""

from collections.abc import Sequence
from itertools import islice

from embedkafka.broker.coordinator.groups.offsets.commits import FetchedOffset, OffsetToCommit
from embedkafka.runtime.ids import NO_OFFSET, TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from embedkafka.wire.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)


def offsets_to_commit(request: OffsetCommitRequest) -> list[OffsetToCommit]:
    """The request's offsets; v1 names a commit time, v2 to v4 a retention time."""
    retention_ms = request.retention_time_ms
    return [
        OffsetToCommit(
            topic_partition=TopicPartition(topic.name, partition.partition_index),
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp_ms=(
                None if partition.commit_timestamp == -1 else partition.commit_timestamp
            ),
            retention_ms=None if retention_ms == -1 else retention_ms,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]


def commit_response(
    request: OffsetCommitRequest, errors: Sequence[ErrorCode]
) -> OffsetCommitResponse:
    codes = iter(errors)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponse.Topic.Partition(
                        partition_index=partition.partition_index, error_code=next(codes)
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def txn_offsets_to_commit(request: TxnOffsetCommitRequest) -> list[OffsetToCommit]:
    return [
        OffsetToCommit(
            topic_partition=TopicPartition(topic.name, partition.partition_index),
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
        )
        for topic in request.topics
        for partition in topic.partitions
    ]


def txn_commit_response(
    request: TxnOffsetCommitRequest, errors: Sequence[ErrorCode]
) -> TxnOffsetCommitResponse:
    codes = iter(errors)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponse.Topic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponse.Topic.Partition(
                        partition_index=partition.partition_index, error_code=next(codes)
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def partitions_to_delete(request: OffsetDeleteRequest) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]


def delete_response(
    request: OffsetDeleteRequest, group_error: ErrorCode, errors: Sequence[ErrorCode]
) -> OffsetDeleteResponse:
    """An error of the whole group leaves the partitions out."""
    if group_error is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=group_error, topics=[])
    codes = iter(errors)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponse.Topic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponse.Topic.Partition(
                        partition_index=partition.partition_index, error_code=next(codes)
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.partitions
        ]
    )


def group_asked_before_v8(request: OffsetFetchRequest) -> OffsetFetchRequest.Group:
    return OffsetFetchRequest.Group(group_id=request.group_id, topics=request.topics)


def partitions_asked(asked: OffsetFetchRequest.Group) -> list[TopicPartition] | None:
    """The requested partitions; None stands for all."""
    if asked.topics is None:
        return None
    return [
        TopicPartition(topic.name, partition)
        for topic in asked.topics
        for partition in topic.partition_indexes
    ]


def fetched_group(
    asked: OffsetFetchRequest.Group, fetched: Sequence[FetchedOffset]
) -> OffsetFetchResponse.Group:
    """The answer, topic by topic as requested; or all that the group has, by topic."""
    _Topic = OffsetFetchResponse.Group.Topic
    partitions = [
        _Topic.Partition(
            partition_index=one.topic_partition.partition,
            committed_offset=one.offset,
            committed_leader_epoch=one.leader_epoch,
            metadata=one.metadata,
            error_code=one.error,
        )
        for one in fetched
    ]
    if asked.topics is not None:
        rest = iter(partitions)
        topics = [
            _Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=list(islice(rest, len(topic.partition_indexes))),
            )
            for topic in asked.topics
        ]
        return OffsetFetchResponse.Group(group_id=asked.group_id, topics=topics)
    by_topic: dict[str, list[OffsetFetchResponse.Group.Topic.Partition]] = {}
    for one, partition in zip(fetched, partitions, strict=True):
        by_topic.setdefault(one.topic_partition.topic, []).append(partition)
    return OffsetFetchResponse.Group(
        group_id=asked.group_id,
        topics=[_Topic(name=name, partitions=found) for name, found in by_topic.items()],
    )


def fetch_error(asked: OffsetFetchRequest.Group, *, error: ErrorCode) -> OffsetFetchResponse.Group:
    return OffsetFetchResponse.Group(group_id=asked.group_id, topics=[], error_code=error)


def fetch_response_before_v8(
    request: OffsetFetchRequest, group: OffsetFetchResponse.Group, version: int
) -> OffsetFetchResponse:
    """The answer for the only group; before v2 each partition carries the group's error."""
    if group.error_code == ErrorCode.NONE or version >= 2:
        return OffsetFetchResponse(error_code=group.error_code, topics=group.topics)
    topics = [
        OffsetFetchResponse.Group.Topic(
            name=topic.name,
            partitions=[
                OffsetFetchResponse.Group.Topic.Partition(
                    partition_index=index,
                    committed_offset=NO_OFFSET,
                    metadata="",
                    error_code=group.error_code,
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    return OffsetFetchResponse(topics=topics)
