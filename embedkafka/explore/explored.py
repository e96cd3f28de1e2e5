"""What an exploration did: how many schedules ran, and of which kinds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from embedkafka.explore.schedule import (
    Arrival,
    Crash,
    CrashInside,
    Event,
    FailWrite,
    Grow,
    KillJvm,
    KillLeader,
    Limit,
    LoseReply,
    MoveLeaders,
    Resend,
    Restart,
    Schedule,
    Take,
    plain,
)
from embedkafka.explore.terms import StepKind, Terms
from embedkafka.runtime.values import dataclass

_KINDS: Final[Mapping[type[Event], StepKind]] = {
    Take: StepKind.BATCHES,
    Crash: StepKind.CRASH,
    CrashInside: StepKind.INSIDE,
    FailWrite: StepKind.WRITE,
    Restart: StepKind.RESTART,
    Limit: StepKind.LIMIT,
    Resend: StepKind.RESEND,
    LoseReply: StepKind.REPLY,
    Grow: StepKind.GROW,
    MoveLeaders: StepKind.MOVE,
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
        return [*said, *([f"impossible: {why}"] if why else [])]

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

    def add(self, schedule: Schedule) -> None:
        self.schedules += 1
        self._kinds.update(kinds_of(schedule, self._terms))

    def explored(
        self, *, crashes_with_data: int = 0, not_yet: int = 0, is_exhausted: bool = False
    ) -> Explored:
        return Explored(
            seed=self._seed,
            schedules=self.schedules,
            exhausted=is_exhausted,
            kinds={kind.value: self._kinds[kind] for kind in self._terms.kinds},
            crashes_with_data=crashes_with_data,
            not_yet=not_yet,
            impossible={kind.value: why for kind, why in self._terms.impossible.items()},
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
