"""Committed offsets in one line each."""

from typing import Any

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import (
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from tests.wire.one_partition import Answer, the_partition
from tests.wire.raw_client import RawClient


def commit(
    raw: RawClient,
    group: str,
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
    metadata: str | None = "note",
    topic_id: Any = None,
    version: int = 9,
) -> ErrorCode:
    committed = OffsetCommitRequest.Topic.Partition(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=0,
        committed_metadata=metadata,
    )
    named: dict[str, Any] = {"name": topic} if topic_id is None else {"topic_id": topic_id}
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        topics=[OffsetCommitRequest.Topic(**named, partitions=[committed])],
    )
    answer = the_partition(raw.call(request, version).topics, "partitions")
    return ErrorCode(answer.error_code)


def fetch_all(raw: RawClient, group: str) -> Answer:
    """Every offset that a group has committed."""
    wanted = OffsetFetchRequest.Group(group_id=group, topics=None)
    (answer,) = raw.call(OffsetFetchRequest(groups=[wanted]), 9).groups
    return answer


def committed(raw: RawClient, group: str) -> dict[tuple[str, int], int]:
    answer = fetch_all(raw, group)
    assert answer.error_code == ErrorCode.NONE
    return {
        (topic.name, p.partition_index): p.committed_offset
        for topic in answer.topics
        for p in topic.partitions
    }
