"""What an exploration did: how many schedules ran, and of which kinds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from embedkafka.explore.schedule import (
    Arrival,
    Crash,
    CrashInside,
    Event,
    Expire,
    FailTask,
    FailWrite,
    Grow,
    KillJvm,
    KillLeader,
    Limit,
    LoseReply,
    LoseUnsent,
    MoveLeaders,
    Rebuild,
    Resend,
    Restart,
    Schedule,
    Take,
    plain,
)
from embedkafka.explore.terms import StepKind, Terms
from embedkafka.runtime.values import dataclass, field

if TYPE_CHECKING:
    from embedkafka.explore.runner import Ran

_KINDS: Final[Mapping[type[Event], StepKind]] = {
    Take: StepKind.BATCHES,
    Crash: StepKind.CRASH,
    CrashInside: StepKind.INSIDE,
    FailTask: StepKind.TASK,
    FailWrite: StepKind.WRITE,
    LoseUnsent: StepKind.UNSENT,
    Expire: StepKind.EXPIRE,
    Restart: StepKind.RESTART,
    Limit: StepKind.LIMIT,
    Resend: StepKind.RESEND,
    LoseReply: StepKind.REPLY,
    Grow: StepKind.GROW,
    MoveLeaders: StepKind.MOVE,
    Rebuild: StepKind.REBUILD,
    KillLeader: StepKind.KILL,
    KillJvm: StepKind.JVM,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """What an exploration did. As text it is one line."""

    seed: str
    """Repeats it."""
    schedules: int
    """How many different schedules ran, the plain one among them."""
    exhausted: bool
    """Whether these were fewer than asked for, because no others were found."""
    kinds: Mapping[str, int]
    """How many schedules had a step of each kind that was possible."""
    crashes_with_data: int
    """How many crashes made a batch with records run again."""
    not_yet: int
    """How many schedules ended before rows that wait for a watermark; those were not compared.

    After a restart, Spark moves the watermark with the next records of each input."""
    impossible: Mapping[str, str]
    """Kinds of steps that no schedule could have, each with the reason."""
    idle: Mapping[str, int] = field(default_factory=dict)
    """In how many schedules the steps of a kind had no effect, where that is known."""
    remarks: tuple[str, ...] = ()
    """What the test's author should know of the job."""
    seconds: float = 0.0
    """How long it took."""

    def __str__(self) -> str:
        return "; ".join(self.lines())

    def lines(self) -> list[str]:
        """What ran, and what could not."""
        ran = f"{self.schedules} schedule{'' if self.schedules == 1 else 's'} of seed {self.seed}"
        if self.exhausted:
            ran += " (there are no others)"
        counted = ", ".join(self._counted(kind) for kind in self.kinds)
        why = ", ".join(f"{kind} ({reason})" for kind, reason in self.impossible.items())
        said = [f"{ran}: {counted}" if counted else ran]
        if self.not_yet:
            said.append(
                f"not yet: rows of {self.not_yet} of them wait for a watermark, which Spark moves "
                "after a restart with the next records of each input"
            )
        idle = [kind for kind, count in self.idle.items() if count and count == self.kinds[kind]]
        if idle:
            said.append(f"without effect: {', '.join(idle)}")
        said += [f"impossible: {why}"] if why else []
        return [*said, *self.remarks]

    def table(self) -> str:
        """The same with a row for each kind, for a terminal."""
        ran, *said = self.lines()
        rows = [("kind", "schedules", "with effect", "on data")]
        for kind, count in self.kinds.items():
            on_data = str(self.crashes_with_data) if kind == StepKind.CRASH.value else ""
            rows.append((kind, str(count), str(count - self.idle.get(kind, 0)), on_data))
        lines = [f"  {kind:<10}{a:>11}{b:>13}{c:>9}".rstrip() for kind, a, b, c in rows]
        head = f"{ran.partition(':')[0]} in {self.seconds:.1f} s"
        return "\n".join([head, *lines, *(f"  {line}" for line in said)])

    def _counted(self, kind: str) -> str:
        text = f"{kind} {self.kinds[kind]}"
        if kind != StepKind.CRASH.value:
            return text
        return f"{text} (batches with data: {self.crashes_with_data})"


class ScheduleCounts:
    """Counts schedules as they run."""

    def __init__(self, terms: Terms, seed: str) -> None:
        self.schedules = 1  # the plain one
        self._terms = terms
        self._seed = seed
        self._kinds: Counter[StepKind] = Counter()
        self._idle: Counter[StepKind] = Counter()
        self._crashes_with_data = 0
        self._not_yet = 0

    def add(
        self, schedule: Schedule, ran: "Ran | None" = None, *, is_not_yet: bool = False
    ) -> None:
        """Counts a schedule, with what it gave if it ran to its end."""
        self.schedules += 1
        self._kinds.update(kinds_of(schedule, self._terms))
        self._not_yet += is_not_yet
        if ran is not None:
            self._crashes_with_data += ran.crashes_with_data
            self._idle.update(kind for step, kind in _KINDS.items() if step in ran.idle)

    def explored(
        self,
        *,
        is_exhausted: bool = False,
        remarks: tuple[str, ...] = (),
        seconds: float = 0.0,
    ) -> Explored:
        return Explored(
            seed=self._seed,
            schedules=self.schedules,
            exhausted=is_exhausted,
            kinds={kind.value: self._kinds[kind] for kind in self._terms.kinds},
            crashes_with_data=self._crashes_with_data,
            not_yet=self._not_yet,
            impossible={kind.value: why for kind, why in self._terms.impossible.items()},
            idle={kind.value: count for kind, count in self._idle.items()},
            remarks=remarks,
            seconds=seconds,
        )


def kinds_of(schedule: Schedule, terms: Terms) -> set[StepKind]:
    """The kinds of steps that a schedule has.

    Records of one lane that changed places are late; otherwise, any that did are a new order.
    """
    kinds = {_KINDS[type(placed.event)] for placed in schedule.events}
    places = {arrival: place for place, arrival in enumerate(schedule.arrivals)}
    if any(
        _is_mixed([places[Arrival(lane.source, nth)] for nth in lane.indexes])
        for lane in terms.lanes
    ):
        kinds.add(StepKind.LATE)
    elif schedule.arrivals != plain(terms.sizes).arrivals:
        kinds.add(StepKind.ORDER)
    return kinds


def _is_mixed(places: Sequence[int]) -> bool:
    return list(places) != sorted(places)
