"""Whether one fault explains why another schedule refutes the job. Pure."""

from embedkafka.explore.schedule import Event, Schedule
from embedkafka.runtime.values import replace


def without_cause(schedule: Schedule, shortest: Schedule, plain: Schedule) -> Schedule:
    """A schedule without what the shortest schedule of a fault consists of.

    If that is right, the fault explains it; otherwise it has another one.
    """
    kinds: set[type[Event]] = {type(placed.event) for placed in shortest.events}
    left = [placed for placed in schedule.events if type(placed.event) not in kinds]
    if list(shortest.arrivals) == [each for each in plain.arrivals if each in shortest.arrivals]:
        return schedule.having(left)
    return replace(plain, events=tuple(left))  # the order of records is a part of it
