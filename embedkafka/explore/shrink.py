"""Makes a schedule that refutes a job as short as it can be, within a number of runs.

Delta debugging (Zeller) over the events, then simpler arrivals and positions, then fewer records.
Pure: `fails` runs a schedule and says whether it still refutes the job; the same answers give the
same result.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

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
    LoseUnsent,
    Rebuild,
    Resend,
    Restart,
    Schedule,
    Take,
)
from embedkafka.runtime.values import dataclass, replace

_CONTAINED: Final[Mapping[type[Event], Sequence[Event]]] = {
    Crash: (Take(),),
    CrashInside: (Take(), Crash()),
    Expire: (Take(), Restart()),
    FailTask: (Take(), Crash()),
    FailWrite: (Take(), Crash()),
    Grow: (Take(),),
    KillJvm: (Take(), Crash()),
    LoseUnsent: (Take(), Restart()),
    Rebuild: (Take(),),
    Restart: (Take(),),
}
"""What a step does besides, the smallest first."""

Fails = Callable[[Schedule], bool]
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The shortest schedule found, and how many runs that took."""

    schedule: Schedule
    runs: int


def shrink(schedule: Schedule, plain: Schedule, fails: Fails, *, most_runs: int) -> Shrunk:
    """The schedule with as few steps and records as `most_runs` runs allow.

    `schedule` is known to fail, and `plain` to pass. Without the bound, no single event or record
    could be left out of the result.
    """
    attempts = _Attempts(fails, most_runs, passed=plain)
    found = _fewer_events(schedule, attempts)
    found = _smaller_events(found, attempts)
    found = _plainer_arrivals(found, plain, attempts)
    found = _moved_events(found, attempts)
    found = _fewer_events(found, attempts)
    found = _fewer_records(found, attempts)
    return Shrunk(schedule=found, runs=attempts.runs)


class _Attempts:
    """Runs schedules, each once, until the bound is reached; then nothing fails any more.

    A schedule of fewer records takes two runs: what it gives is compared with what their plain
    schedule gives.
    """

    def __init__(self, fails: Fails, most: int, *, passed: Schedule) -> None:
        self.runs = 0
        self._fails = fails
        self._most = most
        self._plain = passed
        self._known: dict[Schedule, bool] = {}

    def fails(self, schedule: Schedule) -> bool:
        plain = self._plain.keeping(schedule.arrivals)
        if schedule.steps() == plain.steps():
            return False  # it is what others are compared with
        if schedule not in self._known:
            runs = 1 if len(schedule.arrivals) == len(self._plain.arrivals) else 2
            if self.runs + runs > self._most:
                return False
            self.runs += runs
            self._known[schedule] = self._fails(schedule)
        return self._known[schedule]


def _fewer_events(schedule: Schedule, attempts: _Attempts) -> Schedule:
    return _fewer(schedule, attempts, lambda each: each.events, Schedule.having)


def _smaller_events(schedule: Schedule, attempts: _Attempts) -> Schedule:
    """Tries what an event contains instead of it: a cut instead of a driver's death."""
    for number, placed in enumerate(schedule.events):
        for smaller in _CONTAINED.get(type(placed.event), ()):
            others = [*schedule.events[:number], *schedule.events[number + 1 :]]
            simpler = schedule.having([*others, replace(placed, event=smaller)])
            if attempts.fails(simpler):
                return _smaller_events(simpler, attempts)
    return schedule


def _fewer_records(schedule: Schedule, attempts: _Attempts) -> Schedule:
    return _fewer(schedule, attempts, lambda each: each.arrivals, Schedule.keeping, least=1)


def _fewer(
    schedule: Schedule,
    attempts: _Attempts,
    parts_of: Callable[[Schedule], Sequence[Part]],
    having: Callable[[Schedule, Sequence[Part]], Schedule],
    *,
    least: int = 0,
) -> Schedule:
    """Leaves out ever smaller groups of parts, down to single ones, as long as it fails."""
    groups = 2
    while len(parts := parts_of(schedule)) > least:
        size = max(1, len(parts) // groups)
        for rest in _without_one_group(parts, size):
            shorter = having(schedule, rest)
            if len(rest) >= least and attempts.fails(shorter):
                schedule, groups = shorter, max(2, groups - 1)
                break
        else:
            if size == 1:
                break
            groups *= 2
    return schedule


def _without_one_group(parts: Sequence[Part], size: int) -> Iterator[list[Part]]:
    for start in range(0, len(parts), size):
        yield [*parts[:start], *parts[start + size :]]


def _plainer_arrivals(schedule: Schedule, plain: Schedule, attempts: _Attempts) -> Schedule:
    """Restores the plain order, or at least that of single inputs among themselves."""
    sources = {arrival.source: None for arrival in plain.arrivals}
    orders = [plain.arrivals]
    for source in sources:
        orders.append(_restored(schedule.arrivals, source))
    for order in orders:
        simpler = replace(schedule, arrivals=order)
        if order != schedule.arrivals and _is_possible(simpler) and attempts.fails(simpler):
            return simpler
    return schedule


def _restored(arrivals: Sequence[Arrival], source: str) -> tuple[Arrival, ...]:
    """The records of one input in their order, each place still that input's."""
    in_order = iter(sorted(arrival for arrival in arrivals if arrival.source == source))
    return tuple(next(in_order) if arrival.source == source else arrival for arrival in arrivals)


def _moved_events(schedule: Schedule, attempts: _Attempts) -> Schedule:
    """Moves events to the end or to the place of another, where that saves a step."""
    for number, placed in enumerate(schedule.events):
        others = [*schedule.events[:number], *schedule.events[number + 1 :]]
        places = {len(schedule.arrivals), *(other.position for other in others)} - {placed.position}
        for position in sorted(places, reverse=True):
            moved = schedule.having([*others, replace(placed, position=position)])
            is_shorter = len(moved.steps()) < len(schedule.steps())
            if is_shorter and _is_possible(moved) and attempts.fails(moved):
                return _moved_events(moved, attempts)
    return schedule


def _is_possible(schedule: Schedule) -> bool:
    """Whether no record is sent again before it was sent."""
    return all(
        placed.event.arrival in schedule.arrivals[: placed.position]
        for placed in schedule.events
        if isinstance(placed.event, Resend)
    )
