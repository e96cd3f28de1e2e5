"""Maps timestamps to offsets: entries whose timestamps and offsets both rise.

An entry (T, O) is 12 bytes and means that no record up to offset O has a timestamp above T.

Owner: the segment, under its `Log._lock`.
"""

from array import array
from bisect import bisect_left, bisect_right
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import Final

from embedkafka.broker.log.files.index_file import CorruptIndex, IndexFile
from embedkafka.runtime.files import Files
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.records.record import NO_TIMESTAMP

ENTRY_SIZE: Final = 12
_ENTRY: Final = Struct(">qi")


class TimestampOffset(NamedTuple):
    """The greatest timestamp so far and the last offset of its batch."""

    timestamp: int
    offset: int


class TimeIndex:
    """The sparse time index of one segment."""

    __slots__ = ("_max_entries", "_offsets", "_timestamps", "base_offset", "file")

    def __init__(self, files: Files, path: Path, *, base_offset: int, max_bytes: int) -> None:
        self.file = IndexFile(files, path, entry_size=ENTRY_SIZE)
        self.base_offset = base_offset
        self._max_entries = max_bytes // ENTRY_SIZE
        self._timestamps: array[int] | None = None
        self._offsets: array[int] = array("i")

    def create(self) -> None:
        """Starts empty, even if a file of that name has entries."""
        self._timestamps, self._offsets = array("q"), array("i")
        self.file.touch()

    def __len__(self) -> int:
        return len(self._loaded())

    @property
    def is_full(self) -> bool:
        # One slot is reserved for the entry added when the segment is rolled.
        return len(self._loaded()) >= self._max_entries - 1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Adds an entry if its timestamp is above all earlier ones."""
        timestamps = self._loaded()
        if timestamps and timestamp <= timestamps[-1]:
            return
        assert not timestamps or offset - self.base_offset >= self._offsets[-1], (
            f"offset {offset} is before the last one in {self.file.path}"
        )
        timestamps.append(timestamp)
        self._offsets.append(offset - self.base_offset)
        self.file.touch()

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or before `timestamp`; the start of the segment if there is none."""
        return self._entry(bisect_right(self._loaded(), timestamp) - 1)

    def last(self) -> TimestampOffset:
        return self._entry(len(self._loaded()) - 1)

    def truncate_to(self, offset: int) -> None:
        """Drops the entries at or past `offset`."""
        timestamps = self._loaded()
        slot = bisect_left(self._offsets, offset - self.base_offset)
        del timestamps[slot:]
        del self._offsets[slot:]
        self.file.touch()

    def check(self) -> None:
        """Raises `CorruptIndex` if the stored entries cannot be right."""
        timestamps = self._loaded()
        if not timestamps:
            return
        if timestamps[-1] < timestamps[0] or (len(timestamps) > 1 and timestamps[-1] == 0):
            raise CorruptIndex(f"{self.file.path}: the last timestamp is not the greatest")
        if self._offsets[-1] < 0:
            raise CorruptIndex(f"{self.file.path}: the last offset is before the segment's base")

    def save(self) -> None:
        """Writes the file if it is out of date."""
        if self._timestamps is not None:
            entries = zip(self._timestamps, self._offsets, strict=True)
            count = len(self._timestamps)
            self.file.save(Struct(">" + "qi" * count).pack(*chain.from_iterable(entries)))

    def _entry(self, slot: int) -> TimestampOffset:
        if slot < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(self._loaded()[slot], self.base_offset + self._offsets[slot])

    def _loaded(self) -> "array[int]":
        if self._timestamps is None:
            timestamps, offsets = array("q"), array("i")
            for timestamp, offset in _ENTRY.iter_unpack(self.file.load()):
                timestamps.append(timestamp)
                offsets.append(offset)
            self._timestamps, self._offsets = timestamps, offsets
        return self._timestamps
