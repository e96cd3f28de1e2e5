"""Walks over records: the fast path and the slow path agree on any bytes."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import HEADER_SIZE, RecordBatch
from embedkafka.wire.records.builder import build_batch
from embedkafka.wire.records.compression import Compression
from embedkafka.wire.records.record import TimestampType
from embedkafka.wire.records.walk import Checked, check_records, read_heads

NEW_RECORD = st.tuples(
    st.integers(-200, 20_000),
    st.none() | st.binary(max_size=5) | st.binary(min_size=60, max_size=70),
    st.none() | st.binary(max_size=5) | st.just(b"v" * 100) | st.just(b"v" * 300),
    st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=3)), max_size=2),
)
RUN = st.builds(lambda record, count: [record] * count, NEW_RECORD, st.integers(1, 100))
RECORDS = st.lists(RUN, min_size=1, max_size=4).map(lambda runs: [r for run in runs for r in run])


def payload_of(records: Any) -> bytes:
    return build_batch(records)[HEADER_SIZE:]


def cut(payload: bytes, size: int) -> Iterator[bytes]:
    """Pieces of `size` bytes; with 1, no record arrives in one piece."""
    return (payload[start : start + size] for start in range(0, len(payload), size))


def outcome(pieces: Any, count: int, **how: bool) -> Checked | ErrorCode:
    try:
        return check_records(pieces, count, **how)
    except ApiError as error:
        return error.code


@given(records=RECORDS)
@example(records=[(0, None, b"v" * 100, [])] * 9_000)
@settings(max_examples=25, deadline=None)
def test_good_records_are_found_good(records: Any) -> None:
    base = records[0][0]
    keyless = (index for index, (_, key, _, _) in enumerate(records) if key is None)
    seen = Checked(max(time - base for time, *_ in records), next(keyless, None))
    payload = payload_of(records)
    for size in (7, len(payload)):
        for is_compressed in (False, True):
            pieces = cut(payload, size)
            assert check_records(pieces, len(records), is_compressed=is_compressed) == seen


@given(data=st.data(), records=RECORDS, is_compressed=st.booleans(), in_place=st.booleans())
@settings(max_examples=60, deadline=None)
def test_damage_is_seen_alike_by_all_ways_to_look(
    data: st.DataObject, records: Any, is_compressed: bool, in_place: bool
) -> None:
    payload = bytearray(payload_of(records))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(payload) - 1))
        if data.draw(st.booleans()):
            payload[place] = data.draw(st.integers(0, 255))
        else:
            del payload[place : place + data.draw(st.integers(1, 3))]
            payload = payload or bytearray(1)
    count = len(records) + data.draw(st.sampled_from([0, 0, 0, -1, 1]))
    how = {"is_compressed": is_compressed, "in_place": in_place}
    whole = outcome([bytes(payload)], count, **how)
    assert outcome(cut(bytes(payload), 1), count, **how) == whole
    assert outcome(cut(bytes(payload), 50), count, **how) == whole


@given(payload=st.binary(max_size=60), count=st.integers(1, 2**31 - 1))
def test_any_bytes_are_good_records_or_an_error(payload: bytes, count: int) -> None:
    for is_compressed in (False, True):
        assert outcome([payload], count, is_compressed=is_compressed) is not None


@given(records=RECORDS, size=st.integers(1, 300))
@settings(max_examples=40, deadline=None)
def test_heads_are_those_of_the_records(records: Any, size: int) -> None:
    batch = RecordBatch(memoryview(build_batch(records, base_offset=7)))
    expected = [(r.offset, r.timestamp, r.key, r.value is not None) for r in batch.records()]
    assert list(batch.heads()) == expected
    heads = read_heads(cut(payload_of(records), size), len(records))
    assert [head.key for head in heads] == [key for _, key, _, _ in records]


@pytest.mark.parametrize("codec", list(Compression))
def test_records_may_be_larger_than_a_piece(codec: Compression) -> None:
    values = [b"a", b"b" * 5_000_000, b"c" * 1_500_000, b"d"]
    batch = RecordBatch(
        memoryview(
            build_batch(
                [(5, b"k", value, ()) for value in values],
                compression=codec,
                timestamp_type=TimestampType.LOG_APPEND_TIME,
            )
        )
    )
    assert [record.value for record in batch.records()] == values
    assert [head[1:] for head in batch.heads()] == [(5, b"k", True)] * 4
    assert batch.check_records(limit=7_000_000) == Checked(0, None)
    if codec is not Compression.NONE:
        with pytest.raises(ApiError) as caught:
            batch.check_records(limit=6_000_000)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_value_that_is_not_wanted_takes_no_memory() -> None:
    value = bytes(50_000_000)
    batch = RecordBatch(
        memoryview(build_batch([(5, b"k", value, ())] * 2, compression=Compression.ZSTD))
    )
    del value
    tracemalloc.start()
    try:
        assert [head.offset for head in batch.heads()] == [0, 1]
        assert batch.check_records(limit=200_000_000) == Checked(0, None)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("width", range(1, 13))
def test_a_varint_may_have_ten_bytes(width: int) -> None:
    body = b"\0" + b"\x80" * (width - 1) + b"\x00" + b"\0" + b"\x01\x01\0"
    payload = bytes((2 * len(body),)) + body + bytes(20)
    seen = outcome([payload[:-20]], 1, is_compressed=False)
    assert seen == (Checked(0, 0) if width <= 10 else ErrorCode.INVALID_RECORD)
    assert outcome([payload], 1, is_compressed=False) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("payload", [b"\xfe" * 4 + b"\x0f" + b"\0" * 30, b"\x28" + b"\0" * 19])
def test_heads_of_what_is_no_record_are_invalid(payload: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        list(read_heads([payload], 2))
    assert caught.value.code is ErrorCode.INVALID_RECORD
