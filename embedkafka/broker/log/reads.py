"""Reads a log by offset, within the reader's limit, and by timestamp.

Owner: none; callers hold `Log._lock`, and the functions change nothing but which files are open.
Not here: the offsets that a reader may request (`log`).
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from embedkafka.broker.log.files.offset_index import OffsetPosition
from embedkafka.broker.log.files.segment import BatchPosition, Segment
from embedkafka.broker.log.files.segments import Segments
from embedkafka.broker.log.files.txn_index import AbortedTransaction
from embedkafka.runtime.files import FileRegion
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.records.batch import Batch

Records = FileRegion | memoryview

NO_RECORDS: Final = memoryview(b"")
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1


class FetchIsolation(Enum):
    """How far a reader may see: a follower, a consumer, a consumer of committed records."""

    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    TXN_COMMITTED = "txn_committed"

    @classmethod
    def for_consumer(cls, isolation_level: int) -> "FetchIsolation":
        """A consumer's `isolation.level` in requests."""
        return cls.TXN_COMMITTED if isolation_level == _READ_COMMITTED else cls.HIGH_WATERMARK

    @classmethod
    def is_known(cls, isolation_level: int) -> bool:
        """Whether `isolation.level` in requests has a meaning."""
        return isolation_level in (_READ_UNCOMMITTED, _READ_COMMITTED)


class LogOffsetMetadata(NamedTuple):
    """An offset and its position: two in one segment give the bytes between them."""

    offset: int
    segment_base_offset: int
    position: int


class FetchDataInfo(NamedTuple):
    """The result of a read; aborted transactions only for readers of committed records."""

    records: Records
    fetch_offset: LogOffsetMetadata
    aborted_transactions: Sequence[AbortedTransaction] | None = None

    @property
    def size(self) -> int:
        records = self.records
        return records.size if isinstance(records, FileRegion) else records.nbytes

    @property
    def first_offset(self) -> int:
        return self.fetch_offset.offset


def read_segments(
    segments: Segments,
    start_offset: int,
    *,
    limit: int,
    end_offset: int,
    max_bytes: int,
    min_one_message: bool,
    isolation: FetchIsolation,
) -> FetchDataInfo:
    """The batches of one segment, from the one with `start_offset` up to `limit`."""
    is_committed = isolation is FetchIsolation.TXN_COMMITTED
    nothing_aborted: Sequence[AbortedTransaction] | None = () if is_committed else None
    segment = segments.find_floor(start_offset) if start_offset < limit else None
    found = None if segment is None else segment.find_batch(start_offset)
    while segment is not None and found is None:
        # Compaction has removed the rest of this segment.
        segment = segments.find_next(segment)
        found = None if segment is None else segment.find_batch(start_offset)
    if segment is None or found is None:
        metadata = locate(segments, start_offset, end_offset)
        return FetchDataInfo(NO_RECORDS, metadata, nothing_aborted)
    metadata = LogOffsetMetadata(start_offset, segment.base_offset, found.position)
    region = segment.read(
        found,
        max_bytes=max_bytes,
        max_position=_position_limit(segment, limit, end_offset),
        min_one_message=min_one_message,
    )
    segments.keep_open(segment)
    if region is None:
        # Kafka forgets the list where it drops a part of a batch.
        is_partial = 0 < max_bytes < found.size
        return FetchDataInfo(NO_RECORDS, metadata, None if is_partial else nothing_aborted)
    if not is_committed:
        return FetchDataInfo(region, metadata)
    aborted = _collect_aborted(segments, segment, start_offset, found, region.size, end_offset)
    return FetchDataInfo(region, metadata, aborted)


def locate(segments: Segments, offset: int, end_offset: int) -> LogOffsetMetadata:
    """The position of `offset`, or where it would be."""
    segment = segments.find_floor(offset)
    assert segment is not None, f"{offset} is before the first segment"
    found = None if offset >= end_offset else segment.find_batch(offset)
    position = segment.size if found is None else found.position
    return LogOffsetMetadata(offset, segment.base_offset, position)


def find_batch_by_timestamp(segments: Segments, timestamp: int, start_offset: int) -> Batch | None:
    """The first batch from `start_offset` on whose largest timestamp is at least `timestamp`.

    Kafka looks only into the first segment with such a timestamp, though it may be that of a record
    before `start_offset`.
    """
    for segment in segments:
        if segment.max_timestamp.timestamp >= timestamp:
            earlier = segment.time_index.lookup(timestamp - 1).offset
            start = segment.offset_index.lookup(max(earlier, start_offset)).position
            for batch in segment.batches(start):
                if batch.max_timestamp >= timestamp and batch.last_offset >= start_offset:
                    return batch
            return None
    return None


def largest_timestamp(segments: Segments) -> int:
    return max(segment.max_timestamp.timestamp for segment in segments)


def find_segment_offsets(
    segments: Segments, timestamp: int, *, log_start_offset: int, end_offset: int, now_ms: int
) -> list[int]:
    """The base offsets of segments up to `timestamp`, and the log end; newest first.

    We take the age of a segment from its latest record; Kafka takes it from the file.
    """
    starts = [
        (max(segment.base_offset, log_start_offset), segment.largest_timestamp)
        for segment in segments
    ]
    if segments.active.size:
        starts.append((end_offset, now_ms))
    while starts and starts[-1][1] > timestamp:
        starts.pop()
    return sorted((offset for offset, _ in starts), reverse=True)


def _position_limit(segment: Segment, limit: int, end_offset: int) -> int:
    """The position of offset `limit` in `segment`."""
    found = None if limit >= end_offset else segment.find_batch(limit)
    return segment.size if found is None else found.position


def _collect_aborted(
    segments: Segments,
    segment: Segment,
    start_offset: int,
    start: BatchPosition,
    size: int,
    end_offset: int,
) -> Sequence[AbortedTransaction]:
    """The aborted transactions that overlap the `size` bytes from `start`."""
    upper_bound = segment.find_upper_bound_offset(
        OffsetPosition(start_offset, start.position), size
    )
    following = segments.find_next(segment)
    if upper_bound is None:
        upper_bound = end_offset if following is None else following.base_offset
    found, is_complete = segment.txn_index.collect(start_offset, upper_bound)
    collected = list(found)
    while not is_complete and following is not None:
        found, is_complete = following.txn_index.collect(start_offset, upper_bound)
        collected.extend(found)
        following = segments.find_next(following)
    return collected
