"""Where in the author's function for `foreachBatch` a driver may die, or a write may fail. Pure."""

from collections.abc import Sequence
from typing import Final

from embedkafka.runtime.values import dataclass

MOST_PASSES: Final = 2
"""On its second pass through a loop, the function has written one row and not the next."""
_LONGEST: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line of the author's that the function reaches for the `nth` time in a batch."""

    file: str
    line: int
    nth: int = 1
    text: str = ""

    def __str__(self) -> str:
        text = self.text if len(self.text) <= _LONGEST else f"{self.text[:_LONGEST]}…"
        return (
            f"line {self.line} of {self.file.rpartition('/')[2]}"
            f"{f' (`{text}`)' if text else ''}{' in the second turn' if self.nth > 1 else ''}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCall:
    """A call that writes, such as `DataFrameWriter.save`, and the line that makes it."""

    name: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What the functions for `foreachBatch` did in one run: their lines and writes, in order.

    The first line of a batch is left out: before it, nothing has happened.
    """

    functions: int = 0
    """How many functions the job has given to `foreachBatch`."""
    lines: tuple[Place, ...] = ()
    writes: tuple[SinkCall, ...] = ()
    is_unflushed: bool = False
    """Whether one of them has ended before its producer had sent everything."""
    tasks: int = 0
    """How many functions the job has given to `foreachPartition` and `foreach`."""


NOTHING_PASSED: Final = Passed()


def kill_places(passed: Passed) -> tuple[Place, ...]:
    """The lines before which a driver may die, those that write first.

    What a sink notes before it writes the data, and the first of its two tables, it has done when
    it comes to a line that writes.
    """
    writing = {(write.place.file, write.place.line) for write in passed.writes}
    return tuple(sorted(passed.lines, key=lambda place: (place.file, place.line) not in writing))


def in_turn(parts: Sequence[object], turn: int, most: int) -> range:
    """Which of the parts have their turn: `most` of them at a time, then the next ones."""
    batches = max(1, -(-len(parts) // most))
    first = turn % batches * most
    return range(first, min(first + most, len(parts)))
