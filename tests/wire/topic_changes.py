"""Changes of one topic in one line each."""

import uuid
from collections.abc import Sequence
from typing import Any

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.topics import (
    CreatePartitionsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
)
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from tests.wire.clients import Cluster, eventually
from tests.wire.one_partition import (
    Answer,
    describe,
    the_partition,
)
from tests.wire.raw_client import RawClient


def delete_by_id(raw: RawClient, topic_id: uuid.UUID) -> Answer:
    wanted = DeleteTopicsRequest.Topic(name=None, topic_id=topic_id)
    (answer,) = raw.call(DeleteTopicsRequest(topics=[wanted], timeout_ms=30_000), 6).responses
    return answer


def delete(raw: RawClient, name: str, *, version: int = 6) -> Answer:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.Topic(name=name, topic_id=ZERO_UUID)],
        topic_names=[name],
        timeout_ms=30_000,
    )
    (answer,) = raw.call(request, version).responses
    return answer


def await_gone(raw: RawClient, name: str) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    eventually(lambda: describe(raw, name).error_code == unknown, f"{name} is gone")


def grow(
    raw: RawClient,
    name: str,
    count: int,
    *,
    assignments: Sequence[Sequence[int]] | None = None,
    validate_only: bool = False,
    version: int | None = None,
) -> Answer:
    wanted = CreatePartitionsRequest.Topic(
        name=name,
        count=count,
        assignments=None
        if assignments is None
        else [CreatePartitionsRequest.Topic.Assignment(broker_ids=ids) for ids in assignments],
    )
    request = CreatePartitionsRequest(
        topics=[wanted], timeout_ms=30_000, validate_only=validate_only
    )
    (answer,) = raw.call(request, version).results
    return answer


def delete_records(
    raw: RawClient, name: str, before: int, *, partition: int = 0, version: int | None = None
) -> Answer:
    wanted = DeleteRecordsRequest.Topic.Partition(partition_index=partition, offset=before)
    topics = [DeleteRecordsRequest.Topic(name=name, partitions=[wanted])]
    response = raw.call(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), version)
    return the_partition(response.topics, "partitions")


def leader_index(cluster: Cluster, topic: str) -> int:
    """Which of the bootstrap servers leads partition 0."""
    with cluster.connect() as raw:
        partition: Any = describe(raw, topic).partitions[0]
    return int(partition.leader_id) - 1
