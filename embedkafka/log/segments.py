"""The segments of one log, in the order of their base offsets.

Owner: `Log._lock`. Invariants: base offsets differ; the last segment is the active one.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from embedkafka.log.segment import Segment


class Segments:
    """A list of segments that can be searched by offset."""

    __slots__ = ("_bases", "_segments", "active")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]
        if self._segments:
            self.active = self._segments[-1]

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

    def find_floor(self, offset: int) -> Segment | None:
        """The segment that would hold `offset`: the last one that does not begin after it."""
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
        slot = bisect_right(self._bases, segment.base_offset)
        self._segments.insert(slot, segment)
        self._bases.insert(slot, segment.base_offset)
        self.active = self._segments[-1]

    def remove(self, segments: Iterable[Segment]) -> None:
        """Takes segments out; whoever removes all of them adds another before anything else."""
        gone = set(segments)
        self._segments = [segment for segment in self._segments if segment not in gone]
        self._bases = [segment.base_offset for segment in self._segments]
        if self._segments:
            self.active = self._segments[-1]
