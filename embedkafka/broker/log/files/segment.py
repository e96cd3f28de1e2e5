"""One segment of a log: a file of batches and its three indexes.

Owner: `Log._lock`.
Invariants: batches are in the order of their offsets; `size` counts only complete batches, and
bytes beyond it (from a failed write) are not part of the log.
Not here: choosing and rolling segments (`log`), repairs after a crash (`loader`).
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.files.offset_index import OffsetIndex, OffsetPosition
from embedkafka.broker.log.files.record_ages import PartitionAges
from embedkafka.broker.log.files.time_index import TimeIndex, TimestampOffset
from embedkafka.broker.log.files.txn_index import TransactionIndex
from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.files import File, FileRegion, Files, sync_all
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.records.batch import Batch, next_batch_size, read_batches
from embedkafka.wire.records.record import NO_TIMESTAMP

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

_MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF
_READ_SIZE: Final = 1024 * 1024
_SEARCH_READ_SIZE: Final = 8 * 1024
_RECENT_BATCHES: Final = 1024

# Base offset (in a message set the last), length, epoch, magic; in magic 2 also the delta.
_HEADER_TO_MAGIC: Final = Struct(">qi4xb")
_INT32: Final = Struct(">i")
_DELTA_POSITION: Final = 23
_SEARCHED_BYTES: Final = _DELTA_POSITION + 4


class BatchPosition(NamedTuple):
    """A batch's position and last offset."""

    last_offset: int
    position: int
    size: int


class Segment:
    """The batches from `base_offset` up to the next segment's."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        *,
        now_ms: int,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> None:
        self.base_offset = base_offset
        self.created_ms = now_ms
        self.size = 0
        self._files = files
        self._jitter_ms = jitter_ms
        self._index_interval_bytes = config.index_interval_bytes
        self._bytes_since_index_entry = 0
        self._preallocated_bytes = config.segment_bytes if config.preallocate else 0
        self._is_preallocated = False
        self._file: File | None = None
        self.path = segment_path(directory, base_offset, LOG_SUFFIX + suffix)
        self.offset_index = OffsetIndex(
            files,
            segment_path(directory, base_offset, INDEX_SUFFIX + suffix),
            base_offset=base_offset,
            max_bytes=config.segment_index_bytes,
        )
        self.time_index = TimeIndex(
            files,
            segment_path(directory, base_offset, TIME_INDEX_SUFFIX + suffix),
            base_offset=base_offset,
            max_bytes=config.segment_index_bytes,
        )
        self.txn_index = TransactionIndex(
            files,
            segment_path(directory, base_offset, TXN_INDEX_SUFFIX + suffix),
            base_offset=base_offset,
        )
        self._max_timestamp: TimestampOffset | None = None
        self._first_timestamp: int | None = None
        self._indexes_are_full: bool | None = None
        # The last appended batches, so that readers at the end of the log need no search on disk:
        # every batch past `_recent_after`.
        self._recent_after: int | None = None
        self._recent_offsets: array[int] = array("q")
        self._recent_positions: array[int] = array("q")

    def __repr__(self) -> str:
        return f"Segment({self.path.name}, size={self.size})"

    # -- life

    def create(self) -> None:
        """Creates empty files, and replaces any of the same names.

        The indexes come first, so that no log file is ever without them.
        """
        self.begin()
        self.offset_index.file.create()
        self.time_index.file.create()
        try:
            self._file = self._files.create(self.path)
        except FileExistsError:
            self._files.remove(self.path)
            self.txn_index.remove()
            self._file = self._files.create(self.path)
        if self._preallocated_bytes:
            self._file.truncate(self._preallocated_bytes)
            self._is_preallocated = True

    def begin(self) -> None:
        """Starts empty in memory; there are no files until `create`."""
        self.offset_index.create()
        self.time_index.create()
        self.txn_index.create()
        self._max_timestamp = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self._recent_after = self.base_offset - 1

    def load(self) -> None:
        """Takes over an existing file; reads its indexes when needed."""
        self.size = self._files.size(self.path)

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._files.open(self.path)
        return self._file

    def release(self) -> None:
        """Closes the file until it is needed again; current readers keep it open."""
        self._file = None

    def _own_file(self) -> None:
        """Leaves a shared file to the copy of the log, and continues with a private one."""
        if self._files.unshare(self.path):
            self.release()

    def retire(self) -> None:
        """Completes the indexes when the last batch has been appended."""
        if self.size:
            largest = self.max_timestamp
            if largest.timestamp >= 0:
                self.time_index.maybe_append(largest.timestamp, largest.offset)
        self.save_indexes()
        self.trim()

    def trim(self) -> None:
        """Frees the space that `preallocate` reserved beyond the batches."""
        if self._is_preallocated:
            self.file.truncate(self.size)
            self._is_preallocated = False

    def save_indexes(self) -> None:
        self.offset_index.save()
        self.time_index.save()

    @property
    def paths(self) -> Sequence[Path]:
        """All files of the segment; the last, the transaction index, may be missing."""
        indexes = (self.offset_index.file, self.time_index.file, self.txn_index)
        return [self.path, *(index.path for index in indexes)]

    def sync(self) -> None:
        """Waits until all files are on disk."""
        sync_all(self._files, self.paths)

    def remove(self) -> None:
        """Removes all files of the segment."""
        self.release()
        self._files.remove(self.path)
        self.offset_index.file.remove()
        self.time_index.file.remove()
        self.txn_index.remove()

    def move(self, directory: Path) -> None:
        """Notes that the directory has been renamed."""
        self.path = directory / self.path.name
        for index in (self.offset_index.file, self.time_index.file, self.txn_index):
            index.path = directory / index.path.name

    def change_suffix(self, old: str, new: str) -> None:
        """Renames all files, from `00.log<old>` to `00.log<new>` and so on."""
        self.save_indexes()
        for index in (self.offset_index.file, self.time_index.file, self.txn_index):
            index.move(_with_suffix(index.path, old, new))
        renamed = _with_suffix(self.path, old, new)
        self._files.rename(self.path, renamed)
        self.path = renamed

    # -- appending

    def append(self, data: BytesLike, batches: Sequence[Batch]) -> None:
        """Appends `batches`, whose bytes are `data`. After an OSError, none of them counts."""
        position = self.size
        largest = self.max_timestamp
        self.file.write(data, position)
        if position == 0:
            self._first_timestamp = batches[0].max_timestamp
        if self._recent_after is None:
            self._recent_after = batches[0].base_offset - 1
        for batch in batches:
            last_offset = batch.last_offset
            if batch.max_timestamp > largest.timestamp:
                largest = self._max_timestamp = TimestampOffset(batch.max_timestamp, last_offset)
            if self._bytes_since_index_entry > self._index_interval_bytes:
                self._add_index_entries(last_offset, position, largest)
            self._recent_offsets.append(last_offset)
            self._recent_positions.append(position)
            position += batch.size_in_bytes
            self._bytes_since_index_entry += batch.size_in_bytes
        self.size = position
        if len(self._recent_offsets) > 2 * _RECENT_BATCHES:
            self._forget_oldest()

    def _add_index_entries(self, last_offset: int, position: int, largest: TimestampOffset) -> None:
        self.offset_index.append(last_offset, position)
        self.time_index.maybe_append(largest.timestamp, largest.offset)
        self._bytes_since_index_entry = 0
        self._indexes_are_full = None

    def _forget_oldest(self) -> None:
        self._recent_after = self._recent_offsets[_RECENT_BATCHES - 1]
        del self._recent_offsets[:_RECENT_BATCHES]
        del self._recent_positions[:_RECENT_BATCHES]

    def drop_tail(self) -> None:
        """Cuts off the remains of a failed write after the last complete batch."""
        self.file.truncate(self.size)

    def fits(self, last_offset: int) -> bool:
        """Whether an offset fits as a delta from this segment's base."""
        return 0 <= last_offset - self.base_offset <= _MAX_RELATIVE_OFFSET

    def should_roll(
        self, config: LogConfig, *, size: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> bool:
        """Whether batches of `size` bytes belong to a new segment."""
        if self._indexes_are_full is None:
            self._indexes_are_full = self.offset_index.is_full or self.time_index.is_full
        if (
            self.size > config.segment_bytes - size
            or self._indexes_are_full
            or last_offset - self.base_offset > _MAX_RELATIVE_OFFSET
        ):
            return True
        if not self.size:
            return False
        waited_ms = self._waited_for_roll(max_timestamp, now_ms)
        return waited_ms > config.max_segment_ms - self._jitter_ms

    def _waited_for_roll(self, max_timestamp: int, now_ms: int) -> int:
        """The segment's age by its records' timestamps, or by the clock if they have none."""
        first_timestamp = self.first_timestamp
        if first_timestamp >= 0:
            return max_timestamp - first_timestamp
        return now_ms - self.created_ms

    # -- timestamps

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, or -1."""
        if self._first_timestamp is None:
            first = next(self.batches(), None)
            self._first_timestamp = NO_TIMESTAMP if first is None else first.max_timestamp
        return self._first_timestamp

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp, and the last offset of its batch."""
        if self._max_timestamp is None:
            self._max_timestamp = self._read_max_timestamp()
        return self._max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """`max_timestamp`, or the time of opening if the records have none."""
        timestamp = self.max_timestamp.timestamp
        return timestamp if timestamp >= 0 else self.created_ms

    def first_ms(self, ages: PartitionAges) -> int:
        """The time of its first batch on the brokers' clock, or -1."""
        timestamp = self.first_timestamp
        return timestamp if timestamp < 0 else timestamp + ages.shift_at(self.base_offset)

    def latest_ms(self, end_offset: int, ages: PartitionAges) -> int:
        """The time of its latest record on the brokers' clock, or that of opening if none has one.

        `end_offset` is where the next segment begins.
        """
        largest = self.max_timestamp
        if largest.timestamp < 0:
            return self.created_ms
        return ages.latest(largest, self.base_offset, end_offset)

    def _read_max_timestamp(self) -> TimestampOffset:
        largest = self.time_index.last()
        start = self.offset_index.lookup(largest.offset).position
        for batch in self.batches(start):
            if batch.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
        return largest

    # -- reading

    def batches(self, position: int = 0, end: int | None = None) -> Iterator[Batch]:
        """The batches from `position`, which must be the start of one, up to `end`.

        Holds the file until the end, even if the segment is closed or deleted.
        """
        end = self.size if end is None else end
        if position >= end:
            return iter(())
        return _read_batches(self._file or self._files.open(self.path), position, end)

    def find_batch(self, offset: int) -> BatchPosition | None:
        """The first batch that ends at or past `offset`."""
        if self._recent_after is not None and offset > self._recent_after:
            slot = bisect_left(self._recent_offsets, offset)
            if slot == len(self._recent_offsets):
                return None
            position = self._recent_positions[slot]
            is_last = slot + 1 == len(self._recent_positions)
            end = self.size if is_last else self._recent_positions[slot + 1]
            return BatchPosition(self._recent_offsets[slot], position, end - position)
        return self._search(offset, self.offset_index.lookup(offset).position)

    def _search(self, offset: int, position: int) -> BatchPosition | None:
        """Walks the headers in the file from `position` on."""
        data, start = b"", 0
        while position < self.size:
            if position + _SEARCHED_BYTES > start + len(data):
                data, start = self.file.read(position, _SEARCH_READ_SIZE), position
                if len(data) < _HEADER_TO_MAGIC.size:
                    return None
            base_offset, length, magic = _HEADER_TO_MAGIC.unpack_from(data, position - start)
            last_offset = base_offset
            if magic == 2:
                last_offset += _INT32.unpack_from(data, position - start + _DELTA_POSITION)[0]
            if last_offset >= offset:
                return BatchPosition(last_offset, position, length + 12)
            position += length + 12
        return None

    def read(
        self, start: BatchPosition, *, max_bytes: int, max_position: int, min_one_message: bool
    ) -> FileRegion | None:
        """The bytes from `start` on, within both limits, but never only a part of the first batch.

        With `min_one_message`, a first batch that is too large comes whole; otherwise nothing.
        """
        if max_bytes < start.size:
            if not min_one_message:
                return None
            max_bytes = start.size
        size = min(max_bytes, max_position - start.position)
        return FileRegion(self.file, start.position, size) if size > 0 else None

    def find_upper_bound_offset(self, start: OffsetPosition, size: int) -> int | None:
        """An offset past all batches in the `size` bytes from `start`, or None for the end."""
        found = self.offset_index.find_upper_bound(start, size)
        return None if found is None else found.offset

    # -- truncation

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drops every batch that ends at or past `offset`."""
        found = self.find_batch(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        slot = bisect_left(self._recent_offsets, offset)
        del self._recent_offsets[slot:]
        del self._recent_positions[slot:]
        if self._recent_after is not None:
            self._recent_after = min(self._recent_after, offset - 1)
        self._bytes_since_index_entry = 0
        self._indexes_are_full = None
        self._max_timestamp = None
        if found is None:
            return
        self.size = found.position
        if self.size == 0:
            self.created_ms = now_ms
            self._first_timestamp = None
        self._own_file()
        self.file.truncate(self.size)

    # -- rebuilding

    def reset_indexes(self) -> None:
        self.offset_index.create()
        self.time_index.create()
        self.txn_index.reset()
        self._bytes_since_index_entry = 0
        self._indexes_are_full = None
        self._max_timestamp = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self._recent_after = None
        del self._recent_offsets[:]
        del self._recent_positions[:]

    def index_batch(self, batch: Batch, position: int) -> None:
        """Indexes a batch that is already in the file."""
        last_offset = batch.last_offset
        largest = self.max_timestamp
        if batch.max_timestamp > largest.timestamp:
            largest = self._max_timestamp = TimestampOffset(batch.max_timestamp, last_offset)
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self._add_index_entries(last_offset, position, largest)
        self._bytes_since_index_entry += batch.size_in_bytes

    def cut(self, size: int) -> None:
        """Keeps only the first `size` bytes."""
        self._own_file()
        self.file.truncate(size)
        self.size = size


def segment_path(directory: Path, base_offset: int, suffix: str) -> Path:
    """`<20 digits><suffix>` in `directory`."""
    return directory / f"{base_offset:020d}{suffix}"


def _read_batches(file: File, position: int, end: int) -> Iterator[Batch]:
    while position < end:
        data = memoryview(file.read(position, min(_READ_SIZE, end - position)))
        size = next_batch_size(data, 0, len(data))
        if size is None:
            return
        if size > len(data):
            if position + size > end:
                return
            data = memoryview(file.read(position, size))
        for batch in read_batches(data):
            yield batch
            position += batch.size_in_bytes


def _with_suffix(path: Path, old: str, new: str) -> Path:
    return path.with_name(path.name.removesuffix(old) + new)
