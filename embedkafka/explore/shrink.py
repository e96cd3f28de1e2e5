"""Makes a schedule that refutes a job as short as it can be, within a number of runs.

Delta debugging (Zeller) over the events, then simpler arrivals and positions. Pure: `fails` runs a
schedule and says whether it still refutes the job; the same answers give the same result.
"""

from collections.abc import Callable, Iterator, Sequence

from embedkafka.explore.schedule import Arrival, Placed, Resend, Schedule
from embedkafka.runtime.values import dataclass, replace

Fails = Callable[[Schedule], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The shortest schedule found, and how many runs that took."""

    schedule: Schedule
    runs: int


def shrink(schedule: Schedule, plain: Schedule, fails: Fails, *, most_runs: int) -> Shrunk:
    """The schedule with as few steps as `most_runs` runs of `fails` allow.

    `schedule` is known to fail, and `plain` to pass. Without the bound, no single event could be
    left out of the result.
    """
    attempts = _Attempts(fails, most_runs, passed=plain)
    found = _fewer_events(schedule, attempts)
    for simpler in (_plainer_arrivals, _moved_events):
        found = simpler(found, plain, attempts)
    found = _fewer_events(found, attempts)
    return Shrunk(schedule=found, runs=attempts.runs)


class _Attempts:
    """Runs schedules, each once, until the bound is reached; then nothing fails any more."""

    def __init__(self, fails: Fails, most: int, *, passed: Schedule) -> None:
        self.runs = 0
        self._fails = fails
        self._most = most
        self._known = {passed: False}

    def fails(self, schedule: Schedule) -> bool:
        if schedule not in self._known:
            if self.runs == self._most:
                return False
            self.runs += 1
            self._known[schedule] = self._fails(schedule)
        return self._known[schedule]


def _fewer_events(schedule: Schedule, attempts: _Attempts) -> Schedule:
    """Leaves out ever smaller parts of the events, down to single ones, as long as it fails."""
    parts = 2
    while schedule.events:
        size = max(1, len(schedule.events) // parts)
        for rest in _without_one_part(schedule.events, size):
            shorter = schedule.having(rest)
            if attempts.fails(shorter):
                schedule, parts = shorter, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts *= 2
    return schedule


def _without_one_part(events: Sequence[Placed], size: int) -> Iterator[list[Placed]]:
    for start in range(0, len(events), size):
        yield [*events[:start], *events[start + size :]]


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


def _moved_events(schedule: Schedule, plain: Schedule, attempts: _Attempts) -> Schedule:
    """Moves events to the end or to the place of another, where that saves a step."""
    for number, placed in enumerate(schedule.events):
        others = [*schedule.events[:number], *schedule.events[number + 1 :]]
        places = {len(plain.arrivals), *(other.position for other in others)} - {placed.position}
        for position in sorted(places, reverse=True):
            moved = schedule.having([*others, replace(placed, position=position)])
            is_shorter = len(moved.steps()) < len(schedule.steps())
            if is_shorter and _is_possible(moved) and attempts.fails(moved):
                return _moved_events(moved, plain, attempts)
    return schedule


def _is_possible(schedule: Schedule) -> bool:
    """Whether no record is sent again before it was sent."""
    return all(
        placed.event.arrival in schedule.arrivals[: placed.position]
        for placed in schedule.events
        if isinstance(placed.event, Resend)
    )
