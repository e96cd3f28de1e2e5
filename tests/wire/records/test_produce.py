"""Produce: writes, refusals, and the answers to both."""

import time
from collections.abc import Callable

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest, ProduceRequest
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.builder import build_batch, write_crc
from embedkafka.wire.records.compression import Compression
from embedkafka.wire.records.record import TimestampType
from tests.wire.clients import Cluster, Out, consume, create_topic, values
from tests.wire.clients import produce as deliver
from tests.wire.one_partition import (
    LATEST,
    PRODUCE_BY_NAME,
    T0,
    batch,
    describe,
    each_version,
    fetch,
    list_offset,
    produce,
    produce_request,
    records_of,
    the_partition,
    values_of,
)
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
DAY_MS = 86_400_000


@pytest.mark.both_io_modes
def test_every_version_appends_at_the_next_offset(raw: RawClient, topic: str) -> None:
    appended: list[bytes] = []
    topic_id = describe(raw, topic).topic_id

    def check(version: int) -> None:
        value = f"v{version}".encode()
        data = ProduceRequest.Topic.Partition(index=0, records=memoryview(batch(value)))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.Topic(name=topic, topic_id=topic_id, partition_data=[data])],
        )
        answer = the_partition(raw.call(request, version).responses, "partition_responses")
        assert answer.error_code == ErrorCode.NONE
        assert answer.base_offset == len(appended)
        assert answer.log_append_time_ms == -1
        if version >= 5:
            assert answer.log_start_offset == 0
        appended.append(value)

    each_version(raw, ProduceRequest, check)
    assert values_of(fetch(raw, topic, 0)) == appended


def test_a_topic_without_a_name_is_unknown(raw: RawClient) -> None:
    def check(version: int) -> None:
        if version <= PRODUCE_BY_NAME:
            answer = produce(raw, "", batch(b"a"), version=version)
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    each_version(raw, ProduceRequest, check)


@pytest.mark.both_io_modes
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_whatever_acks_are_asked_for(
    cluster: Cluster, topic: str, acks: str
) -> None:
    sent = [f"{i}".encode() for i in range(100)]
    deliver(cluster, topic, [Out(value=value) for value in sent], acks=acks)
    assert values(consume(cluster, topic, len(sent))) == sent


def test_acks_0_is_never_answered(raw: RawClient, topic: str) -> None:
    raw.send(produce_request(topic, batch(b"a"), acks=0), 9)
    # The next answer on this connection belongs to the next request.
    assert raw.call(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE
    assert values_of(fetch(raw, topic, 0, max_wait_ms=5_000)) == [b"a"]


def test_an_error_with_acks_0_ends_the_connection(raw: RawClient, unique: Unique) -> None:
    raw.send(produce_request(unique("unknown"), batch(b"a"), acks=0), 9)
    with pytest.raises(ConnectionError):
        raw.receive_frame()


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_stored_as_sent_and_read_back(
    cluster: Cluster, raw: RawClient, topic: str, codec: str
) -> None:
    sent = [b"x" * 1000 + str(i).encode() for i in range(50)]
    deliver(cluster, topic, [Out(value=v) for v in sent], compression_type=codec, linger_ms=50)
    assert values(consume(cluster, topic, len(sent))) == sent
    stored = fetch(raw, topic, 0)
    first = next(read_batches(memoryview(stored.records)))
    assert first.compression == Compression[codec.upper()]
    assert records_of(stored)[0].value == sent[0]


def test_a_topic_may_insist_on_its_own_codec(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("gzip"), config={"compression.type": "gzip"})
    for codec in (Compression.NONE, Compression.LZ4, Compression.GZIP):
        answer = produce(raw, name, batch(b"a" * 100, b"b" * 100, compression=codec))
        assert answer.error_code == ErrorCode.NONE
    stored = fetch(raw, name, 0)
    assert {b.compression for b in read_batches(memoryview(stored.records))} == {Compression.GZIP}
    assert values_of(stored) == [b"a" * 100, b"b" * 100] * 3


def test_a_batch_above_the_topics_limit_is_too_large(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("small"), config={"max.message.bytes": "1000"})
    answer = produce(raw, name, batch(b"x" * 1000))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert answer.base_offset == -1
    assert produce(raw, name, batch(b"x" * 900)).base_offset == 0


def test_a_batch_with_a_wrong_checksum_is_corrupt(raw: RawClient, topic: str) -> None:
    damaged = bytearray(batch(b"abcdef"))
    damaged[-2] ^= 0xFF
    assert produce(raw, topic, bytes(damaged)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert list_offset(raw, topic, LATEST).offset == 0


@pytest.mark.parametrize(
    ("magic", "error"), [(1, ErrorCode.INVALID_RECORD), (3, ErrorCode.CORRUPT_MESSAGE)]
)
def test_an_old_magic_is_invalid_and_an_unknown_one_corrupt(
    raw: RawClient, topic: str, magic: int, error: ErrorCode
) -> None:
    wrong = bytearray(batch(b"a" * 100))
    wrong[16] = magic
    assert produce(raw, topic, bytes(wrong)).error_code == error


def test_a_record_count_that_does_not_fit_the_offsets_is_invalid(
    raw: RawClient, topic: str
) -> None:
    wrong = bytearray(batch(b"a", b"b"))
    wrong[23:27] = (5).to_bytes(4, "big")  # the last offset delta
    write_crc(wrong)
    assert produce(raw, topic, bytes(wrong)).error_code == ErrorCode.INVALID_RECORD


def test_a_control_batch_from_a_client_is_invalid(raw: RawClient, topic: str) -> None:
    control = batch(b"\0\0\0\0\0\0", control=True)
    assert produce(raw, topic, control).error_code == ErrorCode.INVALID_RECORD


def test_zstd_needs_version_7(raw: RawClient, topic: str) -> None:
    packed = batch(b"a" * 100, compression=Compression.ZSTD)
    old = produce(raw, topic, packed, version=6)
    assert old.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(raw, topic, packed, version=7).error_code == ErrorCode.NONE


def test_produce_does_not_create_topics(raw: RawClient, unique: Unique) -> None:
    name = unique("unknown")
    produce(raw, name, batch(b"a"))
    assert describe(raw, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_timestamps_too_far_from_now_are_invalid(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    limits = {"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}
    name = create_topic(cluster, unique("strict"), config=limits)
    now = int(time.time() * 1000)
    for wrong in (now - DAY_MS, now + DAY_MS):
        answer = produce(raw, name, batch(b"a", b"b", timestamp=wrong))
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in answer.record_errors] == [0, 1]
        assert answer.error_message
    assert list_offset(raw, name, LATEST).offset == 0


def test_the_future_is_invalid_by_default_and_the_past_is_not(raw: RawClient, topic: str) -> None:
    now = int(time.time() * 1000)
    assert produce(raw, topic, batch(b"a", timestamp=now - 365 * DAY_MS)).error_code == 0
    future = produce(raw, topic, batch(b"a", timestamp=now + 2 * DAY_MS))
    assert future.error_code == ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_replaces_the_clients_timestamps(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    config = {"message.timestamp.type": "LogAppendTime"}
    name = create_topic(cluster, unique("append-time"), config=config)
    before = int(time.time() * 1000)
    answer = produce(raw, name, batch(b"a", b"b", timestamp=1000))
    assert before <= answer.log_append_time_ms <= int(time.time() * 1000)
    stored = fetch(raw, name, 0)
    (kept,) = read_batches(memoryview(stored.records))
    assert kept.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {r.timestamp for r in records_of(stored)} == {answer.log_append_time_ms}


def test_a_compacted_topic_needs_keys(cluster: Cluster, raw: RawClient, unique: Unique) -> None:
    name = create_topic(cluster, unique("compacted"), config={"cleanup.policy": "compact"})
    now = int(time.time() * 1000)
    mixed = build_batch([(now, b"k", b"1", ()), (now, None, b"2", ()), (now, b"k", b"3", ())])
    answer = produce(raw, name, mixed)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert list_offset(raw, name, LATEST).offset == 0


def test_one_bad_partition_does_not_stop_the_others(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("mixed"), partitions=2)
    damaged = bytearray(batch(b"bad"))
    damaged[-1] ^= 1
    parts = [
        ProduceRequest.Topic.Partition(index=0, records=memoryview(bytes(damaged))),
        ProduceRequest.Topic.Partition(index=1, records=memoryview(batch(b"good"))),
        ProduceRequest.Topic.Partition(index=2, records=memoryview(batch(b"nowhere"))),
    ]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.Topic(name=name, partition_data=parts)],
    )
    errors = {
        answer.index: answer.error_code
        for topic in raw.call(request, PRODUCE_BY_NAME).responses
        for answer in topic.partition_responses
    }
    assert errors == {
        0: ErrorCode.CORRUPT_MESSAGE,
        1: ErrorCode.NONE,
        2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert values_of(fetch(raw, name, 0, partition=1)) == [b"good"]


def test_the_broker_numbers_records_and_stamps_its_epoch(raw: RawClient, topic: str) -> None:
    for _ in range(2):
        produce(raw, topic, batch(b"a", leader_epoch=7))
    stored = fetch(raw, topic, 0)
    kept = read_batches(memoryview(stored.records))
    assert [(each.base_offset, each.partition_leader_epoch) for each in kept] == [(0, 0), (1, 0)]


def test_a_batch_that_does_not_count_from_0_is_invalid(raw: RawClient, topic: str) -> None:
    answer = produce(raw, topic, batch(b"a", base_offset=500))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.INVALID_RECORD, 0)


def test_keys_values_and_headers_come_back_as_sent(cluster: Cluster, topic: str) -> None:
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None)]
    sent = [
        Out(key=b"k", value=b"v", headers=headers, timestamp=T0),
        Out(key=None, value=b"no key", timestamp=T0 + 1),
        Out(key=b"tombstone", value=None, timestamp=T0 + 2),
        Out(key=b"", value=b"", timestamp=T0 + 3),
        Out(key=None, value=None, timestamp=T0 + 4),
    ]
    deliver(cluster, topic, sent)
    got = consume(cluster, topic, len(sent))
    assert [(m.key(), m.value(), m.timestamp()[1]) for m in got] == [
        (out.key, out.value, out.timestamp) for out in sent
    ]
    assert got[0].headers() == headers
    assert got[1].headers() is None


def test_a_message_of_many_megabytes_goes_through(cluster: Cluster, unique: Unique) -> None:
    size = 8 * 1024 * 1024
    config = {"max.message.bytes": str(2 * size)}
    name = create_topic(cluster, unique("big"), config=config)
    big = bytes(range(256)) * (size // 256)
    deliver(cluster, name, [Out(value=big)], message_max_bytes=2 * size)
    limits = {
        "max_partition_fetch_bytes": 1024,
        "fetch_max_bytes": 2 * size,
        "receive_message_max_bytes": 4 * size,
    }
    (got,) = consume(cluster, name, 1, **limits)
    assert got.value() == big
