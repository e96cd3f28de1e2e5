"""Message sets of magic 0 and 1, for clients from before 0.11. Their oracle is Kafka 3.9."""

from collections.abc import Callable

import pytest

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.core import ListOffsetsRequest
from embedkafka.records.compression import Compression
from embedkafka.records.legacy import build_message_set
from embedkafka.records.record import Record
from tests.wire.clients import Cluster, create_topic
from tests.wire.one_partition import (
    EARLIEST,
    LATEST,
    T0,
    batch,
    fetch_request,
    produce,
    records_of,
    the_partition,
    values_of,
)
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]
#: By version of Produce, the magic that it carries.
MAGIC = {0: 0, 1: 0, 2: 1}


@pytest.fixture
def topic(cluster: Cluster, raw: RawClient, unique: Unique) -> str:
    if 0 not in raw.supported_versions(ApiKey.FETCH):
        pytest.skip("this broker has dropped the old versions (KIP-896)")
    return create_topic(cluster, unique("legacy"))


def message_set(*values: bytes, magic: int, compression: Compression = Compression.NONE) -> bytes:
    records = [Record(i, T0 + i if magic else -1, b"k", v) for i, v in enumerate(values)]
    return bytes(build_message_set(records, magic=magic, compression=compression))


def old_fetch(raw: RawClient, topic: str, version: int) -> list[tuple[int, bytes | None]]:
    response = raw.call(fetch_request(topic, 0), version)
    answer = the_partition(response.responses, "partitions")
    assert answer.error_code == ErrorCode.NONE
    return [(record.offset, record.value) for record in records_of(answer)]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP], ids=["none", "gzip"])
@pytest.mark.parametrize("version", MAGIC)
def test_old_producers_are_read_by_new_and_old_consumers(
    raw: RawClient, topic: str, version: int, compression: Compression
) -> None:
    sent = message_set(b"a", b"b", magic=MAGIC[version], compression=compression)
    answer = produce(raw, topic, sent, version=version)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    for fetch_version in (0, 2, 3, 4, 12):
        assert old_fetch(raw, topic, fetch_version) == [(0, b"a"), (1, b"b")]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_new_batches_are_converted_for_old_consumers(
    raw: RawClient, topic: str, version: int
) -> None:
    produce(raw, topic, batch(b"a", b"b"))
    produce(raw, topic, batch(b"c", compression=Compression.GZIP))
    response = raw.call(fetch_request(topic, 0), version)
    answer = the_partition(response.responses, "partitions")
    assert values_of(answer) == [b"a", b"b", b"c"]
    magic = memoryview(answer.records)[16]
    assert magic == (0 if version < 2 else 1)


def test_the_oldest_question_about_offsets_lists_segments(raw: RawClient, topic: str) -> None:
    produce(raw, topic, batch(b"a", b"b"))
    for timestamp, offsets in ((LATEST, [2, 0]), (EARLIEST, [0])):
        wanted = ListOffsetsRequest.Topic.Partition(
            partition_index=0, timestamp=timestamp, max_num_offsets=5
        )
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsRequest.Topic(name=topic, partitions=[wanted])]
        )
        answer = the_partition(raw.call(request, 0).topics, "partitions")
        assert (answer.error_code, list(answer.old_style_offsets)) == (ErrorCode.NONE, offsets)
