"""A leader's refusals with their error codes, and the fields it sets in accepted batches."""

import struct
from collections.abc import Callable, Sequence

import pytest

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.producers.entry import AppendOrigin
from embedkafka.broker.log.validation import (
    RecordsRejected,
    Validated,
    assign_offsets,
    read_valid_batches,
)
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.wire_types import MAX_LONG
from embedkafka.wire.records.batch import RecordBatch, read_batches
from embedkafka.wire.records.builder import NewRecord, build_batch, rebuild_batch, write_crc
from embedkafka.wire.records.compression import Compression
from embedkafka.wire.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)
from embedkafka.wire.records.legacy import build_message_set
from embedkafka.wire.records.record import Record, TimestampType

BASE_TIMESTAMP_POSITION = 27
NOW = 1_700_000_000_000
HOUR = 3_600_000
MARKER = build_end_transaction_marker(
    EndTransactionMarker(control_type=ControlType.COMMIT, coordinator_epoch=0),
    timestamp=NOW,
    producer_id=1,
    producer_epoch=0,
)


def append(
    records: bytes | bytearray, *, origin: AppendOrigin = AppendOrigin.CLIENT, **settings: object
) -> Validated:
    config = LogConfig(**settings)  # type: ignore[arg-type]  # each test knows its types
    return assign_offsets(
        read_valid_batches(records, config, origin),
        config,
        origin,
        partition=TopicPartition("orders", 0),
        first_offset=50,
        leader_epoch=3,
        now_ms=NOW,
    )


def refusal(records: bytes | bytearray, **options: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        append(records, **options)  # type: ignore[arg-type]  # passed on as they are
    return caught.value


def batch_of(*values: bytes, timestamp: int = NOW, **options: object) -> bytes:
    records: Sequence[NewRecord] = [(timestamp, b"k", value, ()) for value in values]
    return build_batch(records, **options)  # type: ignore[arg-type]  # passed on as they are


def tampered(change: Callable[[bytearray], None]) -> bytearray:
    """A batch of two records with a changed header and a matching checksum."""
    batch = bytearray(batch_of(b"a", b"b"))
    change(batch)
    write_crc(batch)
    return batch


def put(position: int, size: int, value: int) -> Callable[[bytearray], None]:
    def change(batch: bytearray) -> None:
        batch[position : position + size] = value.to_bytes(size, "big", signed=True)

    return change


# -- refusals


def test_a_wrong_checksum_is_a_corrupt_message() -> None:
    batch = bytearray(batch_of(b"a"))
    batch[-1] ^= 1
    assert refusal(batch).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size", [1, 16, 60, 68])
def test_a_truncated_batch_is_an_invalid_record(size: int) -> None:
    assert refusal(batch_of(b"a")[:size]).code is ErrorCode.INVALID_RECORD


def test_an_unknown_magic_is_a_corrupt_message() -> None:
    assert refusal(tampered(put(16, 1, 5))).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    "change",
    [
        put(23, 4, 4),
        put(23, 4, 0),
        put(23, 4, -1),
        put(23, 4, -5),
        put(57, 4, 3),
        put(57, 4, 0),
        put(57, 4, -1),
    ],
    ids=["more offsets", "fewer", "none", "negative", "more records", "none at all", "below zero"],
)
def test_a_count_that_does_not_fit_the_offsets_is_an_invalid_record(
    change: Callable[[bytearray], None],
) -> None:
    assert refusal(tampered(change)).code is ErrorCode.INVALID_RECORD


def test_a_client_must_not_number_its_records() -> None:
    assert refusal(batch_of(b"a", base_offset=4)).code is ErrorCode.INVALID_RECORD


def test_a_client_must_not_write_control_records() -> None:
    assert refusal(MARKER).code is ErrorCode.INVALID_RECORD


def test_an_idempotent_batch_needs_a_sequence() -> None:
    batch = batch_of(b"a", producer_id=4, producer_epoch=0, base_sequence=-1)
    assert refusal(batch).code is ErrorCode.INVALID_RECORD


def test_a_client_sends_one_batch_at_a_time() -> None:
    assert refusal(batch_of(b"a") + batch_of(b"b")).code is ErrorCode.INVALID_RECORD


def test_magics_must_not_be_mixed() -> None:
    records = batch_of(b"a") + build_message_set([Record(0, NOW, b"k", b"b")], magic=1)
    assert refusal(records, origin=AppendOrigin.COORDINATOR).code is ErrorCode.INVALID_RECORD


def test_a_batch_above_max_message_bytes_is_too_large() -> None:
    batch = batch_of(b"a" * 100)
    assert refusal(batch, max_message_bytes=len(batch) - 1).code is ErrorCode.MESSAGE_TOO_LARGE
    append(batch, max_message_bytes=len(batch))


def test_a_batch_that_grows_too_large_by_another_codec_is_refused() -> None:
    batch = batch_of(b"a" * 5000, compression=Compression.GZIP)
    error = refusal(batch, compression_type="uncompressed", max_message_bytes=1000)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD])
def test_a_batch_that_inflates_too_far_is_refused(codec: Compression) -> None:
    batch = batch_of(bytes(65 * 1024 * 1024), compression=codec)
    assert refusal(batch).code is ErrorCode.MESSAGE_TOO_LARGE
    append(batch, max_message_bytes=5 * 1024 * 1024)
    wrapped = build_message_set(
        [Record(0, NOW, b"k", bytes(65 * 1024 * 1024))], magic=1, compression=Compression.GZIP
    )
    assert refusal(wrapped).code is ErrorCode.MESSAGE_TOO_LARGE


def test_compacted_topics_need_keys_and_say_which_records_have_none() -> None:
    batch = build_batch([(NOW, b"k", b"a", ()), (NOW, None, b"b", ()), (NOW, None, b"c", ())])
    error = refusal(batch, cleanup_policy=frozenset({"compact"}))
    assert error.code is ErrorCode.INVALID_RECORD
    assert isinstance(error, RecordsRejected)
    assert [record.batch_index for record in error.record_errors] == [1, 2]
    assert all("key" in (record.message or "") for record in error.record_errors)


@pytest.mark.parametrize(
    ("timestamp", "settings"),
    [
        (NOW + HOUR + 1, {}),
        (NOW + 11, {"message_timestamp_after_max_ms": 10}),
        (NOW - 11, {"message_timestamp_before_max_ms": 10}),
    ],
)
def test_a_timestamp_out_of_bounds_is_invalid(timestamp: int, settings: dict[str, object]) -> None:
    good: NewRecord = (NOW, b"k", b"a", ())
    error = refusal(build_batch([good, (timestamp, b"k", b"b", ())]), **settings)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, RecordsRejected)
    assert [record.batch_index for record in error.record_errors] == [1]


@pytest.mark.parametrize("timestamp", [NOW + HOUR, NOW, 0, -1])
def test_timestamps_within_bounds_and_none_at_all_are_fine(timestamp: int) -> None:
    append(batch_of(b"a", timestamp=timestamp))


@pytest.mark.parametrize(
    ("base", "delta", "read"),
    [(MAX_LONG, 5, -(2**63) + 4), (-(2**63), -5, MAX_LONG - 4), (-1, -(2**63), MAX_LONG)],
)
def test_timestamps_beyond_64_bits_are_what_java_reads(base: int, delta: int, read: int) -> None:
    """Without that, encoding one fails: in the leader, in compaction, for an old consumer."""
    sent = bytearray(build_batch([(NOW, b"k", b"a", ()), (NOW + delta, b"k", b"b", ())]))
    struct.pack_into(">q", sent, BASE_TIMESTAMP_POSITION, base)
    write_crc(sent)
    assert refusal(bytearray(sent)).code is ErrorCode.INVALID_TIMESTAMP
    (batch,) = append(sent, message_timestamp_after_max_ms=MAX_LONG).batches
    assert batch.max_timestamp == max(base, read)
    assert [head.timestamp for head in batch.heads()] == [base, read]
    records = list(batch.records())
    assert [record.timestamp for record in records] == [base, read]
    (rebuilt,) = read_batches(rebuild_batch(batch, records, delete_horizon=None))
    assert [record.timestamp for record in rebuilt.records()] == [base, read]
    assert len(build_message_set(records, magic=1)) > 0


def test_records_without_time_pass_every_bound() -> None:
    append(batch_of(b"a", timestamp=-1), message_timestamp_before_max_ms=10)


def test_append_time_topics_have_no_bounds_but_clients_must_not_claim_append_time() -> None:
    append(batch_of(b"a", timestamp=5), message_timestamp_type="LogAppendTime")
    claimed = batch_of(b"a", timestamp_type=TimestampType.LOG_APPEND_TIME)
    error = refusal(claimed, message_timestamp_type="LogAppendTime")
    assert error.code is ErrorCode.INVALID_TIMESTAMP


# -- stored batches


def test_a_batch_is_patched_where_it_is() -> None:
    sent = bytearray(batch_of(b"a", b"b"))
    validated = append(sent)
    (batch,) = validated.batches
    batch.ensure_valid()
    assert isinstance(validated.buffer, memoryview)
    assert validated.buffer.obj is sent
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (50, 51, 3)
    assert validated.append_time == -1


def test_append_time_is_stamped_and_the_checksum_renewed() -> None:
    validated = append(batch_of(b"a", timestamp=5), message_timestamp_type="LogAppendTime")
    (batch,) = validated.batches
    batch.ensure_valid()
    assert validated.append_time == NOW
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in batch.records()] == [NOW]
    assert RecordBatch(memoryview(validated.buffer)).crc == batch.crc


def test_a_claim_of_append_time_is_taken_back_on_a_create_time_topic() -> None:
    validated = append(batch_of(b"a", timestamp_type=TimestampType.LOG_APPEND_TIME))
    (batch,) = validated.batches
    batch.ensure_valid()
    assert batch.timestamp_type is TimestampType.CREATE_TIME


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize("target", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_the_topic_decides_about_the_codec(source: Compression, target: str) -> None:
    sent = batch_of(
        b"a" * 100,
        b"b",
        compression=source,
        producer_id=8,
        producer_epoch=1,
        base_sequence=5,
        transactional=True,
    )
    validated = append(sent, compression_type=target)
    (batch,) = validated.batches
    batch.ensure_valid()
    expected = {"producer": source, "uncompressed": Compression.NONE}.get(target)
    assert batch.compression is (expected if expected is not None else Compression[target.upper()])
    assert [(record.offset, record.value) for record in batch.records()] == [
        (50, b"a" * 100),
        (51, b"b"),
    ]
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (8, 1, 5)
    assert batch.is_transactional


def test_markers_keep_their_codec() -> None:
    validated = append(MARKER, origin=AppendOrigin.COORDINATOR, compression_type="gzip")
    (batch,) = validated.batches
    assert batch.compression is Compression.NONE
    assert batch.is_control


def test_a_coordinator_may_append_several_batches() -> None:
    records = batch_of(b"a", b"b") + batch_of(b"c")
    validated = append(records, origin=AppendOrigin.COORDINATOR)
    assert [batch.base_offset for batch in validated.batches] == [50, 52]
    assert len(validated.buffer) == len(records)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_are_stored_as_one_batch_of_magic_2(magic: int, codec: Compression) -> None:
    records = [Record(offset, NOW, b"k", b"%d" % offset) for offset in range(3)]
    validated = append(build_message_set(records, magic=magic, compression=codec))
    (batch,) = validated.batches
    assert (batch.magic, batch.compression, batch.partition_leader_epoch) == (2, codec, 3)
    assert [(record.offset, record.value) for record in batch.records()] == [
        (50, b"0"),
        (51, b"1"),
        (52, b"2"),
    ]
    assert batch.max_timestamp == (NOW if magic else -1)
