"""Batches of magic 2: they survive a round trip, and damage is noticed."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import RecordBatch, add_to_sequence, read_batches
from embedkafka.wire.records.builder import NewRecord, build_batch, build_batch_at, write_crc
from embedkafka.wire.records.compression import Compression
from embedkafka.wire.records.record import Record, TimestampType

MAYBE_BYTES = st.none() | st.binary(max_size=30)
HEADERS = st.lists(st.tuples(st.text(max_size=5), MAYBE_BYTES), max_size=3)
TIMESTAMPS = st.integers(min_value=0, max_value=2**41)
NEW_RECORDS = st.lists(
    st.tuples(TIMESTAMPS, MAYBE_BYTES, MAYBE_BYTES, HEADERS), min_size=1, max_size=20
)

# Written by hand from the format: one record, key "k", value "v", header "h" with 0x01; crc zeroed.
GOLDEN = (
    "0000000000000000"
    "0000003e"
    "ffffffff"
    "02"
    "00000000"
    "0000"
    "00000000"
    "0000018bcfe56800"
    "0000018bcfe56800"
    "ffffffffffffffff"
    "ffff"
    "ffffffff"
    "00000001"
    "18"
    "00"
    "00"
    "00"
    "02"
    "6b"
    "02"
    "76"
    "02"
    "02"
    "68"
    "02"
    "01"
)


def only(data: bytes | bytearray) -> RecordBatch:
    (batch,) = read_batches(data)
    assert isinstance(batch, RecordBatch)
    return batch


@pytest.mark.parametrize("compression", list(Compression))
@settings(max_examples=20)
@given(records=NEW_RECORDS, base_offset=st.integers(min_value=0, max_value=2**62))
def test_records_are_read_back_with_their_offsets(
    compression: Compression, records: Sequence[NewRecord], base_offset: int
) -> None:
    batch = only(build_batch(records, base_offset=base_offset, compression=compression))
    batch.ensure_valid()
    assert list(batch.records()) == [
        Record(base_offset + index, timestamp, key, value, tuple(headers))
        for index, (timestamp, key, value, headers) in enumerate(records)
    ]
    assert (batch.base_offset, batch.last_offset) == (base_offset, base_offset + len(records) - 1)
    assert batch.next_offset == batch.last_offset + 1
    assert batch.record_count == len(records)
    assert batch.base_timestamp == records[0][0]
    assert batch.max_timestamp == max(record[0] for record in records)
    assert batch.compression is compression


def test_the_bytes_are_those_of_the_format() -> None:
    built = bytearray(build_batch([(1_700_000_000_000, b"k", b"v", [("h", b"\x01")])]))
    built[17:21] = bytes(4)
    assert built.hex() == GOLDEN


def test_the_header_says_who_produced_the_batch() -> None:
    batch = only(
        build_batch(
            [(5, None, b"a", ()), (6, None, b"b", ())],
            leader_epoch=3,
            producer_id=17,
            producer_epoch=2,
            base_sequence=40,
            transactional=True,
        )
    )
    assert batch.partition_leader_epoch == 3
    assert (batch.producer_id, batch.producer_epoch) == (17, 2)
    assert (batch.base_sequence, batch.last_sequence) == (40, 41)
    assert batch.is_transactional
    assert not batch.is_control
    assert batch.has_producer_id


def test_a_batch_without_a_producer_says_so() -> None:
    batch = only(build_batch([(5, None, None, ())]))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert batch.last_sequence == -1
    assert not batch.has_producer_id
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert batch.delete_horizon is None


def test_with_append_time_every_record_has_the_timestamp_of_the_batch() -> None:
    batch = only(
        build_batch(
            [(5, None, b"a", ()), (9, None, b"b", ())],
            timestamp_type=TimestampType.LOG_APPEND_TIME,
        )
    )
    assert [record.timestamp for record in batch.records()] == [9, 9]


def test_compacted_batches_keep_their_range_and_their_delete_horizon() -> None:
    batch = only(
        build_batch_at(
            [Record(12, 100, b"k", None)],
            base_offset=10,
            last_offset=19,
            leader_epoch=1,
            delete_horizon=5_000,
        )
    )
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (10, 19, 1)
    assert batch.delete_horizon == 5_000
    assert list(batch.records()) == [Record(12, 100, b"k", None)]


def test_an_empty_batch_keeps_sequence_and_offsets() -> None:
    batch = only(
        build_batch_at(
            [],
            base_offset=4,
            last_offset=6,
            leader_epoch=1,
            producer_id=9,
            producer_epoch=0,
            base_sequence=7,
            max_timestamp=77,
        )
    )
    batch.ensure_valid()
    assert (batch.last_offset, batch.last_sequence, batch.max_timestamp) == (6, 9, 77)
    assert list(batch.records()) == []


@settings(max_examples=50)
@given(NEW_RECORDS, st.data())
def test_any_flipped_bit_under_the_checksum_is_noticed(
    records: Sequence[NewRecord], data: st.DataObject
) -> None:
    built = bytearray(build_batch(records))
    position = data.draw(st.integers(min_value=17, max_value=len(built) - 1))
    built[position] ^= 1 << data.draw(st.integers(min_value=0, max_value=7))
    with pytest.raises(ApiError) as caught:
        only(built).ensure_valid()
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@settings(max_examples=30)
@given(st.lists(NEW_RECORDS, min_size=1, max_size=4), st.data())
def test_a_partial_batch_at_the_end_is_left_out(
    contents: Sequence[Sequence[NewRecord]], data: st.DataObject
) -> None:
    built = [build_batch(records) for records in contents]
    whole = b"".join(built)
    cut = data.draw(st.integers(min_value=1, max_value=len(built[-1])))
    assert len(list(read_batches(whole[:-cut]))) == len(built) - 1


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_an_unknown_magic_is_corrupt(magic: int) -> None:
    built = bytearray(build_batch([(1, None, b"x", ())]))
    built[16] = magic
    with pytest.raises(ApiError) as caught:
        list(read_batches(built))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-1, 0, 13, 48])
def test_a_length_that_no_batch_can_have_is_corrupt(length: int) -> None:
    built = bytearray(build_batch([(1, None, b"x", ())]))
    built[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(ApiError) as caught:
        list(read_batches(built))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("count", [-1, 1, 3])
def test_a_wrong_count_is_an_invalid_record(count: int) -> None:
    built = bytearray(build_batch([(1, None, b"x", ()), (2, None, b"y", ())]))
    built[57:61] = count.to_bytes(4, "big", signed=True)
    write_crc(built)
    with pytest.raises(ApiError) as caught:
        list(only(built).records())
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_an_unknown_codec_is_corrupt() -> None:
    built = bytearray(build_batch([(1, None, b"x", ())]))
    built[22] |= 0x07
    write_crc(built)
    with pytest.raises(ApiError) as caught:
        list(only(built).records())
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("sequence", "increment", "expected"),
    [(0, 5, 5), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 4, 2)],
)
def test_sequences_wrap_to_zero(sequence: int, increment: int, expected: int) -> None:
    assert add_to_sequence(sequence, increment) == expected
