"""Message sets of magic 0 and 1, for clients older than 0.11. The oracle is Kafka 3.9."""

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import pytest

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.transactions import InitProducerIdRequest
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.compression import Compression, compress
from embedkafka.wire.records.legacy import build_message_set
from embedkafka.wire.records.record import Record, TimestampType
from tests.wire.clients import Cluster, create_topic
from tests.wire.one_partition import (
    T0,
    Answer,
    batch,
    fetch_request,
    produce,
    records_of,
    the_partition,
    values_of,
)
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]
NewTopic = Callable[..., str]
#: Version of Produce -> the magic it carries.
MAGIC: Final = {0: 0, 1: 0, 2: 1}
CODECS: Final = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
#: Kafka's padding after the last message when it has announced a larger response.
FILLER: Final = struct.pack(">qi", -1, 61)


@pytest.fixture
def new_topic(cluster: Cluster, raw: RawClient, unique: Unique) -> NewTopic:
    if cluster.is_apache and 0 not in raw.supported_versions(ApiKey.FETCH):
        pytest.skip("this broker has dropped the old versions (KIP-896)")

    def create(**config: str) -> str:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        return create_topic(cluster, unique("legacy"), config=settings)

    return create


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    return new_topic()


def message_set(
    *values: bytes,
    magic: int,
    compression: Compression = Compression.NONE,
    key: bytes | None = b"k",
) -> bytes:
    records = [Record(i, T0 + i if magic else -1, key, v) for i, v in enumerate(values)]
    return bytes(build_message_set(records, magic=magic, compression=compression))


def message(offset: int, body: bytes) -> bytes:
    """A message with `body`, the bytes from the magic on."""
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def wrapper(inner: bytes, *, offset: int = 0) -> bytes:
    """A compressed message of magic 1 that wraps any bytes."""
    value = bytes(compress(Compression.GZIP, inner, magic=1))
    return message(offset, struct.pack(">bbqii", 1, 1, T0, -1, len(value)) + value)


def old_fetch(raw: RawClient, topic: str, version: int, offset: int = 0, **limits: Any) -> Answer:
    response = raw.call(fetch_request(topic, offset, **limits), version)
    return the_partition(response.responses, "partitions")


def read_all(raw: RawClient, topic: str, version: int, count: int) -> list[Record]:
    """Fetches as a consumer does: a converted response may end early, so it fetches again."""
    found: list[Record] = []
    while len(found) < count:
        fetched = records_of(old_fetch(raw, topic, version, len(found)))
        assert fetched, f"no record at offset {len(found)}"
        found += fetched[len(found) - fetched[0].offset :]
    return found


@pytest.mark.parametrize("compression", CODECS, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("version", MAGIC)
def test_old_producers_are_read_by_new_and_old_consumers(
    raw: RawClient, topic: str, version: int, compression: Compression
) -> None:
    sent = message_set(b"a", b"b", magic=MAGIC[version], compression=compression)
    answer = produce(raw, topic, sent, version=version)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    assert produce(raw, topic, sent, version=version).base_offset == 2
    for fetch_version in (0, 2, 3, 4, 12):
        found = read_all(raw, topic, fetch_version, 4)
        assert [record.value for record in found] == [b"a", b"b", b"a", b"b"]
        assert [record.offset for record in found] == [0, 1, 2, 3]
        assert {record.key for record in found} == {b"k"}


def test_old_messages_are_stored_as_one_batch_of_today(raw: RawClient, topic: str) -> None:
    produce(raw, topic, message_set(b"a", b"b", magic=1), version=2)
    produce(raw, topic, message_set(b"c", magic=0), version=1)
    answer = old_fetch(raw, topic, 12)
    first, second = read_batches(memoryview(answer.records))
    assert (first.magic, first.record_count, first.last_offset) == (2, 2, 1)
    assert (first.base_timestamp, first.max_timestamp) == (T0, T0 + 1)
    assert (second.base_timestamp, second.max_timestamp) == (-1, -1)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_new_batches_are_converted_for_old_consumers(
    raw: RawClient, topic: str, version: int
) -> None:
    produce(raw, topic, batch(b"a", b"b"))
    produce(raw, topic, batch(b"c", compression=Compression.GZIP))
    assert [record.value for record in read_all(raw, topic, version, 3)] == [b"a", b"b", b"c"]
    magic = memoryview(old_fetch(raw, topic, version).records)[16]
    assert magic == (0 if version < 2 else 1)


def test_a_converted_answer_has_its_known_bytes(raw: RawClient, topic: str) -> None:
    produce(raw, topic, batch(b"a", b"bc"))
    stored = len(bytes(old_fetch(raw, topic, 12).records))
    magic_0 = [
        message(0, struct.pack(">bbii", 0, 0, -1, 1) + b"a"),
        message(1, struct.pack(">bbii", 0, 0, -1, 2) + b"bc"),
    ]
    filled = b"".join(magic_0) + FILLER
    assert bytes(old_fetch(raw, topic, 1).records) == filled.ljust(stored, b"\0")
    magic_1 = [
        message(0, struct.pack(">bbqii", 1, 0, T0, -1, 1) + b"a"),
        message(1, struct.pack(">bbqii", 1, 0, T0, -1, 2) + b"bc"),
    ]
    filled = b"".join(magic_1) + FILLER
    assert bytes(old_fetch(raw, topic, 3).records) == filled[:stored]


def test_a_fetch_from_within_a_batch_begins_there(raw: RawClient, topic: str) -> None:
    produce(raw, topic, batch(b"a", b"b", b"c"))
    produce(raw, topic, batch(b"d", b"e", compression=Compression.GZIP))
    assert values_of(old_fetch(raw, topic, 3, 1))[:2] == [b"b", b"c"]
    assert values_of(old_fetch(raw, topic, 3, 4)) == [b"d", b"e"], (
        "compressed batches are returned whole"
    )


def test_the_first_batch_comes_whole_only_from_v3_on(raw: RawClient, topic: str) -> None:
    produce(raw, topic, batch(b"a", b"b"))
    too_little = {"partition_max_bytes": 20}
    for version in (0, 1, 2):
        answer = old_fetch(raw, topic, version, **too_little)
        assert (answer.error_code, bytes(answer.records)) == (ErrorCode.NONE, b"")
    assert values_of(old_fetch(raw, topic, 3, **too_little)) == [b"a", b"b"]


def test_log_append_time_is_told_to_old_clients(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    sent = message_set(b"a", b"b", magic=1, compression=Compression.GZIP)
    append_time = produce(raw, topic, sent, version=2).log_append_time_ms
    assert append_time > T0 + 1
    produce(raw, topic, message_set(b"c", magic=0), version=0)
    first, second = read_batches(memoryview(old_fetch(raw, topic, 3).records))
    assert first.timestamp_type is second.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in first.records()] == [append_time, append_time]


def test_control_batches_are_left_out_for_old_consumers(
    cluster: Cluster, raw: RawClient, topic: str, unique: Unique
) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": unique("legacy-txn")}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"in a transaction")
    producer.commit_transaction(30)
    assert values_of(old_fetch(raw, topic, 3)) == [b"in a transaction"]
    marker_only = old_fetch(raw, topic, 3, 1, max_wait_ms=10_000)
    assert bytes(marker_only.records) == FILLER, "the consumer must see that there is data"


def test_zstd_cannot_be_converted(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    produce(raw, topic, batch(b"a"))
    produce(raw, topic, batch(b"z", compression=Compression.ZSTD))
    assert values_of(old_fetch(raw, topic, 3)) == [b"a"]
    refused = old_fetch(raw, topic, 3, 1)
    assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert refused.records is None
    whole_topic = new_topic(compression_type="zstd")
    answer = old_fetch(raw, whole_topic, 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_conversion_can_be_forbidden(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic(message_downconversion_enable="false")
    produce(raw, topic, batch(b"a"))
    for version in (0, 3):
        refused = old_fetch(raw, topic, version)
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (refused.high_watermark, refused.records) == (-1, None)
    assert values_of(old_fetch(raw, topic, 4)) == [b"a"]


def test_a_batch_of_today_may_travel_in_an_old_request(raw: RawClient, topic: str) -> None:
    assert produce(raw, topic, batch(b"a"), version=2).error_code == ErrorCode.NONE
    assert values_of(old_fetch(raw, topic, 12)) == [b"a"]


def test_a_message_set_may_not_travel_in_a_request_of_today(raw: RawClient, topic: str) -> None:
    answer = produce(raw, topic, message_set(b"a", magic=1), version=3)
    assert answer.error_code == ErrorCode.INVALID_RECORD


def test_a_partial_message_is_dropped_without_a_word(raw: RawClient, topic: str) -> None:
    whole = message_set(b"abc", magic=1)
    for sent in (b"", b"\0" * 5, whole[:-1]):
        answer = produce(raw, topic, sent, version=2)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, -1)
    assert produce(raw, topic, whole + whole[:-1], version=2).base_offset == 0
    assert values_of(old_fetch(raw, topic, 12)) == [b"abc"]


def broken_message_sets() -> dict[str, tuple[bytes, ErrorCode]]:
    flipped = bytearray(message_set(b"abc", magic=1))
    flipped[-1] ^= 1
    gzip = Compression.GZIP
    return {
        "crc": (bytes(flipped), ErrorCode.CORRUPT_MESSAGE),
        "inner crc": (wrapper(bytes(flipped)), ErrorCode.CORRUPT_MESSAGE),
        "size": (struct.pack(">qi", 0, 5) + b"12345", ErrorCode.CORRUPT_MESSAGE),
        "magic": (message(0, b"\7" + bytes(32)), ErrorCode.CORRUPT_MESSAGE),
        "codec": (message(0, b"\1\4" + bytes(20)), ErrorCode.INVALID_RECORD),
        "inner magic": (wrapper(message_set(b"a", magic=0)), ErrorCode.INVALID_RECORD),
        "inner wrapper": (wrapper(wrapper(b"")), ErrorCode.INVALID_RECORD),
        "nothing inside": (wrapper(b""), ErrorCode.INVALID_RECORD),
        "inner offsets": (
            wrapper(message_set(b"a", b"b", b"c", magic=1), offset=1),
            ErrorCode.INVALID_RECORD,
        ),
        "two wrappers": (
            2 * message_set(b"a", magic=1, compression=gzip),
            ErrorCode.INVALID_RECORD,
        ),
        "two magics": (
            message_set(b"a", magic=0) + message_set(b"b", magic=1),
            ErrorCode.INVALID_RECORD,
        ),
    }


@pytest.mark.parametrize("fault", broken_message_sets())
def test_a_broken_message_set_is_refused_whole(raw: RawClient, topic: str, fault: str) -> None:
    sent, error = broken_message_sets()[fault]
    answer = produce(raw, topic, sent, version=2)
    assert (answer.error_code, answer.base_offset) == (error, -1)
    assert values_of(old_fetch(raw, topic, 12)) == []


def test_the_wrapper_of_an_old_librdkafka_has_no_offset(raw: RawClient, topic: str) -> None:
    sent = wrapper(message_set(b"a", b"b", magic=1), offset=0)
    assert produce(raw, topic, sent, version=2).error_code == ErrorCode.NONE
    assert values_of(old_fetch(raw, topic, 3)) == [b"a", b"b"]


@pytest.mark.parametrize("version", MAGIC)
def test_compacted_topics_want_keys_of_old_producers_too(
    raw: RawClient, new_topic: NewTopic, version: int
) -> None:
    topic = new_topic(cleanup_policy="compact")
    sent = message_set(b"a", magic=MAGIC[version], key=None)
    assert produce(raw, topic, sent, version=version).error_code == ErrorCode.INVALID_RECORD


def test_a_message_may_grow_too_large_by_its_conversion(
    raw: RawClient, new_topic: NewTopic
) -> None:
    topic = new_topic(max_message_bytes="100")
    sent = message_set(b"x" * 60, magic=1)
    assert len(sent) < 100
    assert produce(raw, topic, sent, version=2).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_an_old_producer_may_want_no_answer(raw: RawClient, topic: str) -> None:
    from tests.wire.one_partition import produce_request

    raw.send(produce_request(topic, message_set(b"a", magic=0), acks=0), 0)
    raw.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 0)
    assert values_of(old_fetch(raw, topic, 12)) == [b"a"]
