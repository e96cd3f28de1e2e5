"""A fault explains another schedule if that is right without the fault's steps."""

from embedkafka.explore.causes import without_cause
from embedkafka.explore.schedule import Arrival, Crash, Placed, Restart, Schedule, Take, plain

PLAIN = plain({"orders": 3})
MIXED = Schedule(arrivals=tuple(Arrival("orders", nth) for nth in (1, 0, 2)))


def at(position: int, event: Take | Crash | Restart) -> Placed:
    return Placed(position=position, event=event)


def test_the_steps_of_the_fault_are_left_out() -> None:
    schedule = MIXED.having([at(1, Crash()), at(1, Take()), at(2, Crash())])
    shortest = PLAIN.keeping([Arrival("orders", 1)]).having([at(1, Crash())])
    assert without_cause(schedule, shortest, PLAIN) == MIXED.having([at(1, Take())])


def test_an_order_of_records_is_a_part_of_the_fault() -> None:
    schedule = MIXED.having([at(1, Restart()), at(2, Take())])
    assert without_cause(schedule, MIXED.having([at(1, Take())]), PLAIN) == PLAIN.having(
        [at(1, Restart())]
    )
