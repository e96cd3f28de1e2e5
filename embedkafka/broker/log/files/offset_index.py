"""Maps offsets to file positions: about one entry for every `index.interval.bytes` of log.

An entry is 8 bytes: the offset relative to the segment's base, and the position of the batch that
ends with that offset. Both fit into one 64-bit integer, so the file is a plain array of those.

Owner: the segment, under its `Log._lock`.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Final

from embedkafka.broker.log.files.index_file import CorruptIndex, IndexFile
from embedkafka.runtime.files import Files
from embedkafka.runtime.values import NamedTuple

ENTRY_SIZE: Final = 8
_POSITION_MASK: Final = 0xFFFFFFFF


class OffsetPosition(NamedTuple):
    """A batch's last offset and position."""

    offset: int
    position: int


class OffsetIndex:
    """The sparse index of one segment."""

    __slots__ = ("_entries", "_max_entries", "base_offset", "file")

    def __init__(self, files: Files, path: Path, *, base_offset: int, max_bytes: int) -> None:
        self.file = IndexFile(files, path, entry_size=ENTRY_SIZE)
        self.base_offset = base_offset
        self._max_entries = max_bytes // ENTRY_SIZE
        self._entries: array[int] | None = None

    def create(self) -> None:
        """Starts empty, even if a file of that name has entries."""
        self._entries = array("q")
        self.file.touch()

    def __len__(self) -> int:
        return len(self._loaded())

    @property
    def is_full(self) -> bool:
        return len(self._loaded()) >= self._max_entries

    def append(self, offset: int, position: int) -> None:
        entries = self._loaded()
        entry = (offset - self.base_offset) << 32 | position
        assert not entries or entry >> 32 > entries[-1] >> 32, (
            f"offset {offset} is not past the last one in {self.file.path}"
        )
        entries.append(entry)
        self.file.touch()

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or before `offset`; the start of the segment if there is none."""
        # Search all entries. Kafka searches the last 8 KiB first, the warm pages of its memory
        # map. With 100,000 entries in memory that saves 4 % near the end and costs 50 % elsewhere
        # (0.75 and 1.1 us, `benchmarks/index_search.py`), and near the end a segment finds
        # batches without its index.
        entries = self._loaded()
        slot = bisect_right(entries, (offset - self.base_offset) << 32 | _POSITION_MASK) - 1
        return self._entry(slot) if slot >= 0 else OffsetPosition(self.base_offset, 0)

    def find_upper_bound(self, start: OffsetPosition, size: int) -> OffsetPosition | None:
        """The first entry at or beyond `size` bytes after `start`, if any."""
        entries = self._loaded()
        slot = bisect_right(entries, (start.offset - self.base_offset) << 32 | _POSITION_MASK)
        limit = start.position + size
        while slot < len(entries):
            if entries[slot] & _POSITION_MASK >= limit:
                return self._entry(slot)
            slot += 1
        return None

    def last(self) -> OffsetPosition:
        entries = self._loaded()
        return self._entry(-1) if entries else OffsetPosition(self.base_offset, 0)

    def truncate_to(self, offset: int) -> None:
        """Drops the entries at or past `offset`."""
        entries = self._loaded()
        del entries[bisect_left(entries, (offset - self.base_offset) << 32) :]
        self.file.touch()

    def check(self) -> None:
        """Raises `CorruptIndex` if the stored entries cannot be right."""
        entries = self._loaded()
        if entries and (entries[-1] < 0 or (len(entries) > 1 and entries[-1] <= entries[-2])):
            raise CorruptIndex(f"{self.file.path}: the last entry is not the greatest")

    def save(self) -> None:
        """Writes the file if it is out of date."""
        if self._entries is not None:
            self.file.save(_swapped(self._entries).tobytes())

    def _entry(self, slot: int) -> OffsetPosition:
        entry = self._loaded()[slot]
        return OffsetPosition(self.base_offset + (entry >> 32), entry & _POSITION_MASK)

    def _loaded(self) -> "array[int]":
        if self._entries is None:
            entries = array("q")
            entries.frombytes(self.file.load())
            self._entries = _swapped(entries)
        return self._entries


def _swapped(entries: "array[int]") -> "array[int]":
    """A copy of `entries`, converted between big-endian and the machine's byte order."""
    copy = entries[:]
    if sys.byteorder == "little":
        copy.byteswap()
    return copy
