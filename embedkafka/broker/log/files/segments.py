"""The segments of one log, in the order of their base offsets.

Owner: `Log._lock`.
Invariants: base offsets differ; the last segment is the active one; only a few others have their
file open, so that many small segments do not use up the process's descriptors.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from embedkafka.broker.log.files.segment import Segment

_OPEN_FILES_KEPT: Final = 4


class Segments:
    """A list of segments that can be searched by offset."""

    __slots__ = ("_bases", "_open_inactive", "_segments", "active")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._open_inactive: deque[Segment] = deque()
        self._hold(sorted(segments, key=lambda segment: segment.base_offset))

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(tuple(self._segments))

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def has_all(self, segments: Iterable[Segment]) -> bool:
        return set(self._segments).issuperset(segments)

    def find_floor(self, offset: int) -> Segment | None:
        """The segment for `offset`: the last one that does not start after it."""
        if offset >= self._bases[-1]:
            return self.active
        slot = bisect_right(self._bases, offset) - 1
        return self._segments[slot] if slot >= 0 else None

    def find_next(self, segment: Segment) -> Segment | None:
        slot = bisect_right(self._bases, segment.base_offset)
        return self._segments[slot] if slot < len(self._segments) else None

    def since(self, offset: int) -> Sequence[Segment]:
        """The segments that may hold `offset` or later ones."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def add(self, segment: Segment) -> None:
        self._hold(sorted([*self._segments, segment], key=lambda segment: segment.base_offset))

    def remove(self, segments: Iterable[Segment]) -> None:
        """Removes segments; after removing all of them, the caller must add another at once."""
        gone = set(segments)
        self._hold([segment for segment in self._segments if segment not in gone])

    def keep_open(self, segment: Segment) -> None:
        """Keeps the file of a closed segment open, and closes another one's."""
        if segment is self.active or segment in self._open_inactive:
            return
        self._open_inactive.append(segment)
        if len(self._open_inactive) > _OPEN_FILES_KEPT:
            oldest = self._open_inactive.popleft()
            if oldest is not self.active:
                oldest.release()

    def release(self) -> None:
        """Closes every file."""
        self._open_inactive.clear()
        for segment in self._segments:
            segment.release()

    def _hold(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        if segments:
            self.active = segments[-1]
