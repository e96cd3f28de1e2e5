"""The search for a timestamp in batches, without a log."""

import random

import pytest

from embedkafka.broker.log.timestamp_search import TimestampSearch
from embedkafka.wire.records.batch import Batch, read_batches
from embedkafka.wire.records.builder import build_batch
from embedkafka.wire.records.compression import Compression

NOISE = random.Random(0).randbytes(10_000)


def made(base_offset: int, *timestamps: int, value: bytes = b"", codec: Compression) -> Batch:
    records = [(timestamp, None, value, ()) for timestamp in timestamps]
    (batch,) = read_batches(
        memoryview(build_batch(records, base_offset=base_offset, compression=codec))
    )
    return batch


def searched(*batches: Batch, timestamp: int, start_offset: int = 0) -> TimestampSearch:
    def next_batch(offset: int) -> Batch | None:
        fitting = (b for b in batches if b.max_timestamp >= timestamp and b.last_offset >= offset)
        return next(fitting, None)

    return TimestampSearch(next_batch, timestamp, start_offset)


@pytest.mark.parametrize(
    ("value", "codec", "is_slow"),
    [
        (NOISE, Compression.GZIP, True),
        (NOISE, Compression.NONE, False),
        (b"small", Compression.GZIP, False),
    ],
)
def test_only_a_large_compressed_batch_makes_a_search_slow(
    value: bytes, codec: Compression, is_slow: bool
) -> None:
    search = searched(made(0, 100, value=value, codec=codec), timestamp=100)
    assert search.is_slow == is_slow
    found = search.finish()
    assert found is not None
    assert (found.offset, found.timestamp) == (0, 100)


def test_the_search_goes_on_when_the_fitting_record_lies_before_the_log_start() -> None:
    first = made(0, 200, 100, codec=Compression.NONE)
    second = made(2, 50, 300, codec=Compression.NONE)
    found = searched(first, second, timestamp=150, start_offset=1).finish()
    assert found is not None
    assert (found.offset, found.timestamp) == (3, 300)


def test_a_search_without_a_batch_finds_nothing() -> None:
    search = searched(timestamp=1)
    assert not search.is_slow
    assert search.finish() is None
