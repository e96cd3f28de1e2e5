"""Where audited records come from: a topic between fixed offsets, or a DataFrame."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from embedkafka.spark.delivery.offsets import OffsetRange
from embedkafka.spark.delivery.tally import RecordPlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Examples that are no farther apart than this are read in one go.
_ONE_READ: Final = 10_000


class Origin(Protocol):
    """Where the records of one side come from."""

    @property
    def name(self) -> str:
        """What reports call it."""

    @property
    def is_topic(self) -> bool:
        """Whether all records are of the one topic that the name says."""

    @property
    def ranges(self) -> Mapping[int, OffsetRange]:
        """The offsets of each partition that are read, if they are known."""

    def frame(self) -> "DataFrame":
        """All records."""

    def frame_with(self, places: Iterable[RecordPlace]) -> "DataFrame":
        """As few records as possible, those at `places` among them."""


class TopicOrigin:
    """A topic between the offsets that it had at the start of the audit."""

    def __init__(
        self,
        spark: "SparkSession",
        topic: str,
        options: Mapping[str, str],
        ranges: Mapping[int, OffsetRange],
    ) -> None:
        self._spark = spark
        self.name = topic
        self.is_topic = True
        self.ranges = ranges
        self._options = options

    def frame(self) -> "DataFrame":
        return self._read({**self._bounds(self.ranges), **self._options})

    def frame_with(self, places: Iterable[RecordPlace]) -> "DataFrame":
        offsets: dict[int, set[int]] = {}
        for place in places:
            if place.partition is None or place.offset is None:
                return self.frame()
            offsets.setdefault(place.partition, set()).add(place.offset)
        runs = {partition: close_runs(numbers) for partition, numbers in offsets.items()}
        reads = [
            self._read({**self._without_bounds(), **self._bounds(bounds)})
            for turn in range(max((len(each) for each in runs.values()), default=0))
            if (bounds := {number: each[turn] for number, each in runs.items() if turn < len(each)})
        ]
        frame, *others = reads
        for other in others:
            frame = frame.unionByName(other)
        return frame

    def _bounds(self, ranges: Mapping[int, OffsetRange]) -> dict[str, str]:
        """Only these partitions: one that is added later has no place in the options."""
        starts = {str(number): each.start for number, each in ranges.items()}
        ends = {str(number): each.end for number, each in ranges.items()}
        return {
            "assign": json.dumps({self.name: sorted(ranges)}),
            "startingOffsets": json.dumps({self.name: starts}),
            "endingOffsets": json.dumps({self.name: ends}),
        }

    def _without_bounds(self) -> dict[str, str]:
        """The options without the user's bounds: times take precedence over offsets."""
        return {
            name: value
            for name, value in self._options.items()
            if not name.lower().startswith(("starting", "ending"))
        }

    def _read(self, options: Mapping[str, str]) -> "DataFrame":
        return self._spark.read.format("kafka").options(**options).load()


class FrameOrigin:
    """A DataFrame, as it was given."""

    def __init__(self, frame: "DataFrame", name: str) -> None:
        self._frame = frame
        self.name = name
        self.is_topic = False
        self.ranges: Mapping[int, OffsetRange] = {}

    def frame(self) -> "DataFrame":
        return self._frame

    def frame_with(self, places: Iterable[RecordPlace]) -> "DataFrame":
        return self._frame


def close_runs(offsets: Iterable[int]) -> list[OffsetRange]:
    """Ranges that hold the offsets, each at most `_ONE_READ` from the next in its range."""
    runs: list[OffsetRange] = []
    for offset in sorted(offsets):
        if runs and offset - runs[-1].end < _ONE_READ:
            runs[-1] = OffsetRange(start=runs[-1].start, end=offset + 1)
        else:
            runs.append(OffsetRange(start=offset, end=offset + 1))
    return runs
