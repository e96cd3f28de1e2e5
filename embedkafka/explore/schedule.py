"""`Schedule`: in which order the records arrive, and what happens in between, as a value.

A schedule is an order of arrivals and a list of events, each at a position: after so many arrivals.
The plain schedule has no events: all records arrive, then the queries take them. Everything that a
run does follows from the schedule. Two schedules of the same records differ only in what a correct
job must not depend on.

Not here: how a schedule is chosen (`generation`), shortened (`shrink`) and carried out (`runner`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from itertools import accumulate, compress, groupby

from embedkafka.explore.places import Place, SinkCall
from embedkafka.runtime.values import NamedTuple, dataclass, replace


class Arrival(NamedTuple):
    """One record on its way: the `nth` of an input, from 0 on."""

    source: str
    nth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """The queries process everything that has arrived: a boundary between batches."""

    def __str__(self) -> str:
        return "the queries take what is there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """From here on, each batch takes at most `records` records of each input."""

    records: int

    def __str__(self) -> str:
        return f"batches take at most {self.records} of each input (maxOffsetsPerTrigger)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The queries stop between batches and start again from their checkpoints."""

    def __str__(self) -> str:
        return "the queries stop and start again from their checkpoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """The driver dies after the sink has written the last batch and before that is committed."""

    before_closing: bool = False
    """Whether it dies before the batch without records that a moved watermark calls for."""

    def __str__(self) -> str:
        which = " with records" if self.before_closing else ""
        return (
            "the queries take what is there; the driver dies after the sink's write and before the "
            f"commit of the last batch{which}, and starts again"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """The job starts over on its old outputs, with new checkpoints and batch numbers from 0."""

    def __str__(self) -> str:
        return (
            "the queries take what is there; their checkpoints are removed, and they start over "
            "from the first records"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashInside:
    """The driver dies in the middle of the author's function for `foreachBatch`."""

    place: Place

    def __str__(self) -> str:
        return (
            "the queries take what is there; the driver dies in foreachBatch, before "
            f"{self.place}, and starts again"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailWrite:
    """A call in `foreachBatch` that writes raises once, as if its database were away."""

    write: SinkCall
    has_written: bool = False
    """Whether it has written before it raises: only the reply was lost."""

    def __str__(self) -> str:
        how = "raises once, after it has written," if self.has_written else "raises once,"
        return (
            f"the queries take what is there; {self.write.name} {how} in {self.write.place}; then "
            "the queries start again"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailTask:
    """A task of `foreachPartition` or `foreach` fails after it has written, and runs again."""

    def __str__(self) -> str:
        return (
            "the queries take what is there; a task fails after it has written rows "
            "(foreachPartition, foreach), and runs again"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseUnsent:
    """The driver dies between batches, and what its own producers had not sent never arrives."""

    def __str__(self) -> str:
        return (
            "the queries take what is there; the driver dies after the commit, so that what its "
            "own producers have not flushed never arrives, and starts again"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """The queries are down for so long that the records of an input that came since expire."""

    source: str

    def __str__(self) -> str:
        return (
            f"the queries are down until what they have not taken of {self.source} has expired, "
            "and start again"
        )


class Moment(Enum):
    """Where in a batch a driver dies."""

    WRITING = "in the middle of the sink's write"
    WRITTEN = "between the sink's write and the commit"
    PLANNED = "after it was planned and before the sink's write"
    COMMITTED = "after the commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class KillJvm:
    """The job runs in a separate process, which is killed at a moment of the first batch."""

    moment: Moment

    def __str__(self) -> str:
        return (
            "a driver in a separate process takes what is there, and is killed in its first batch "
            f"{self.moment.value}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resend:
    """A producer writes a record again: it retries, or restarts from an earlier position."""

    arrival: Arrival

    def __str__(self) -> str:
        return f"{_numbers([self.arrival])} arrives again, from a producer that retries or restarts"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseReply:
    """The broker handles the next request for a topic, and its reply never arrives."""

    topic: str
    api: str

    def __str__(self) -> str:
        return f"the reply to the next {self.api} request for {self.topic} is lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLeaders:
    """The broker that leads a topic's first partition restarts cleanly; its leaders move."""

    topic: str

    def __str__(self) -> str:
        return f"the broker that leads {self.topic} restarts, and its leaders move"


@dataclass(frozen=True, slots=True, kw_only=True)
class KillLeader:
    """The broker that leads a topic's first partition dies, and comes back after the next batch."""

    topic: str

    def __str__(self) -> str:
        return f"the broker that leads {self.topic} dies, and returns after the next batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grow:
    """An input's topic gets one more partition, once the queries have taken what is there.

    Keys change their partition. A record that waits in the old one would lose its order with the
    next of its key, which no job can mend.
    """

    source: str

    def __str__(self) -> str:
        return f"the queries take what is there; {self.source} gets one more partition"


Event = (
    Take
    | Limit
    | Restart
    | Crash
    | CrashInside
    | FailTask
    | FailWrite
    | LoseUnsent
    | Expire
    | KillJvm
    | Rebuild
    | Resend
    | LoseReply
    | MoveLeaders
    | KillLeader
    | Grow
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Records arrive, in this order."""

    arrivals: tuple[Arrival, ...]

    def __str__(self) -> str:
        return f"{_numbers(self.arrivals)} arrive{'s' if len(self.arrivals) == 1 else ''}"


Step = Send | Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An event, and how many records arrive before it."""

    position: int
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """An order of records, and events in the order of their positions."""

    arrivals: tuple[Arrival, ...]
    events: tuple[Placed, ...] = ()

    def __str__(self) -> str:
        return "\n".join(f"{number}. {step}" for number, step in enumerate(self.steps(), start=1))

    def steps(self) -> list[Step]:
        """What happens, one thing after the other. The last step always takes what is there."""
        steps: list[Step] = []
        sent = 0
        for placed in self.events:
            if placed.position > sent:
                steps.append(Send(arrivals=self.arrivals[sent : placed.position]))
                sent = placed.position
            steps.append(placed.event)
        if sent < len(self.arrivals):
            steps.append(Send(arrivals=self.arrivals[sent:]))
        return steps if steps and isinstance(steps[-1], Take) else [*steps, Take()]

    def having(self, events: Sequence[Placed]) -> "Schedule":
        """The same arrivals with other events."""
        return replace(self, events=tuple(sorted(events, key=lambda placed: placed.position)))

    def keeping(self, arrivals: Collection[Arrival]) -> "Schedule":
        """The same with fewer records; events stay between the records that are left."""
        is_kept = [arrival in arrivals for arrival in self.arrivals]
        positions = list(accumulate(is_kept, initial=0))
        events = [
            replace(placed, position=positions[placed.position])
            for placed in self.events
            if not isinstance(placed.event, Resend) or placed.event.arrival in arrivals
        ]
        return Schedule(arrivals=tuple(compress(self.arrivals, is_kept)), events=tuple(events))

    def uses(self, *kinds: type[Event]) -> bool:
        """Whether an event of one of these kinds occurs."""
        return any(isinstance(placed.event, kinds) for placed in self.events)


def plain(sizes: Mapping[str, int]) -> Schedule:
    """All records of each input in their order, one input after the other, and no events."""
    arrivals = tuple(Arrival(source, nth) for source, size in sizes.items() for nth in range(size))
    return Schedule(arrivals=arrivals)


def _numbers(arrivals: Sequence[Arrival]) -> str:
    """Records as a reader counts them: `orders 1-3, prices 1, orders 4`."""
    return ", ".join(
        f"{source} {' '.join(_runs([arrival.nth + 1 for arrival in run]))}"
        for source, run in groupby(arrivals, key=lambda arrival: arrival.source)
    )


def _runs(numbers: Sequence[int]) -> Iterator[str]:
    first = last = numbers[0]
    for number in [*numbers[1:], None]:
        if number is not None and number == last + 1:
            last = number
            continue
        yield str(first) if first == last else f"{first}-{last}"
        if number is not None:
            first = last = number
