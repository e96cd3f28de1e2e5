"""Requests about a single partition in one line each, as most raw tests need them."""

import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.core import (
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.builder import build_batch
from embedkafka.wire.records.record import Record
from tests.wire.raw_client import TIMEOUT_SECONDS, RawClient

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
#: The last version of Produce and Fetch that identifies topics by name instead of id.
PRODUCE_BY_NAME: Final = 12
FETCH_BY_NAME: Final = 12
#: Longer than a raw client waits for an answer: a broker that lets it wait so long fails the test.
TOO_LONG_MS: Final = int(2 * TIMEOUT_SECONDS * 1000)

#: The base timestamp of a run, recent enough to escape retention.
T0: Final = int(time.time() * 1000) - 3_600_000

Answer = Any  # the partition part of a response class


def batch(*values: bytes | None, timestamp: int = T0, **fields: Any) -> bytes:
    """A batch of records without keys; `fields` go to `build_batch`."""
    return build_batch([(timestamp, None, value, ()) for value in values], **fields)


def produce(
    client: RawClient,
    topic: str,
    records: bytes,
    *,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 10_000,
    transactional_id: str | None = None,
    version: int = 9,
) -> Answer:
    """Appends to one partition and returns that partition's answer."""
    request = produce_request(
        topic,
        records,
        partition=partition,
        acks=acks,
        timeout_ms=timeout_ms,
        transactional_id=transactional_id,
    )
    return the_partition(client.call(request, version).responses, "partition_responses")


def produce_request(
    topic: str,
    records: bytes,
    *,
    partition: int = 0,
    topic_id: uuid.UUID = ZERO_UUID,
    acks: int = -1,
    timeout_ms: int = 10_000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    data = ProduceRequest.Topic.Partition(index=partition, records=memoryview(records))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[ProduceRequest.Topic(name=topic, topic_id=topic_id, partition_data=[data])],
    )


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    topic_id: uuid.UUID = ZERO_UUID,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> FetchRequest:
    wanted = FetchRequest.Topic.Partition(
        partition=partition,
        current_leader_epoch=current_leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_fetched_epoch,
        partition_max_bytes=partition_max_bytes,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=[FetchRequest.Topic(topic=topic, topic_id=topic_id, partitions=[wanted])],
    )


def fetch(
    client: RawClient, topic: str, offset: int, *, version: int = FETCH_BY_NAME, **fields: Any
) -> Answer:
    """Fetches one partition without a session and returns that partition's answer."""
    response = client.call(fetch_request(topic, offset, **fields), version)
    assert response.error_code == 0
    return the_partition(response.responses, "partitions")


def records_of(partition: Answer) -> list[Record]:
    """The records of a fetched partition, in whole batches."""
    if partition.records is None:
        return []
    return [
        record for each in read_batches(memoryview(partition.records)) for record in each.records()
    ]


def values_of(partition: Answer) -> list[bytes | None]:
    return [record.value for record in records_of(partition)]


def list_offset(
    client: RawClient,
    topic: str,
    timestamp: int,
    *,
    partition: int = 0,
    isolation_level: int = 0,
    current_leader_epoch: int = -1,
    version: int | None = None,
) -> Answer:
    """Asks for one offset by timestamp, or by EARLIEST, LATEST or MAX_TIMESTAMP."""
    wanted = ListOffsetsRequest.Topic.Partition(
        partition_index=partition, current_leader_epoch=current_leader_epoch, timestamp=timestamp
    )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsRequest.Topic(name=topic, partitions=[wanted])],
    )
    return the_partition(client.call(request, version).topics, "partitions")


def describe(client: RawClient, topic: str) -> Answer:
    """The topic's entry in a Metadata response."""
    wanted = MetadataRequest.Topic(name=topic)
    request = MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
    (found,) = client.call(request).topics
    return found


def the_partition(topics: Any, attribute: str) -> Answer:
    """The only partition of the only topic in a response."""
    (topic,) = topics
    (partition,) = getattr(topic, attribute)
    return partition


def each_version(
    client: RawClient, request: type[Any], use: Callable[[int], None], *, first: int = 0
) -> None:
    """Calls `use` with every version of a request that the broker speaks, from `first` on."""
    api_key = schema_of(request).api
    assert api_key is not None
    versions = client.supported_versions(api_key)
    assert versions, f"the broker speaks no version of {request.__qualname__}"
    for version in versions:
        if version >= first:
            use(version)
