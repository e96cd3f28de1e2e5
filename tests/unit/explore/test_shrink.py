"""A failing schedule is shortened as far as possible, in a bounded number of runs."""

from collections.abc import Callable
from random import Random

from embedkafka.explore.generation import generate
from embedkafka.explore.places import Place
from embedkafka.explore.schedule import (
    Arrival,
    Crash,
    CrashInside,
    KillJvm,
    Moment,
    Placed,
    Resend,
    Restart,
    Schedule,
    Send,
    Take,
    plain,
)
from embedkafka.explore.shrink import Shrunk, shrink
from tests.unit.explore.schedules import terms

PLAIN = plain({"orders": 6})
LONG = PLAIN.having(
    [
        Placed(position=1, event=Take()),
        Placed(position=2, event=Restart()),
        Placed(position=3, event=Take()),
        Placed(position=4, event=Crash()),
        Placed(position=5, event=Take()),
    ]
)


def shrunk(
    schedule: Schedule, fails: Callable[[Schedule], bool], most_runs: int = 100
) -> tuple[Shrunk, list[Schedule]]:
    runs: list[Schedule] = []

    def counted(candidate: Schedule) -> bool:
        runs.append(candidate)
        return fails(candidate)

    return shrink(schedule, PLAIN, counted, most_runs=most_runs), runs


def test_only_the_event_that_matters_is_left_and_stands_at_the_end() -> None:
    def fails(schedule: Schedule) -> bool:
        return schedule.uses(Crash) and len(schedule.arrivals) == 6

    found, _ = shrunk(LONG, fails)

    assert found.schedule.steps() == [Send(arrivals=PLAIN.arrivals), Crash(), Take()]


def test_a_cut_takes_the_place_of_a_death_that_contains_it() -> None:
    place = Place(file="job.py", line=3)
    for larger in (Crash(), CrashInside(place=place), KillJvm(moment=Moment.WRITTEN)):
        schedule = PLAIN.having([Placed(position=3, event=larger)])
        taken, _ = shrunk(schedule, lambda each: bool(each.events))
        assert [placed.event for placed in taken.schedule.events] == [Take()]
        repeated, _ = shrunk(schedule, lambda each: each.uses(Crash, CrashInside, KillJvm))
        assert [placed.event for placed in repeated.schedule.events] == [Crash()]


def test_only_the_records_that_matter_are_left_and_events_stay_between_them() -> None:
    second, fifth = Arrival("orders", 1), Arrival("orders", 4)

    def fails(schedule: Schedule) -> bool:
        places = [placed.position for placed in schedule.events if placed.event == Crash()]
        before = schedule.arrivals[: places[0]] if places else ()
        return second in before and fifth in schedule.arrivals[len(before) :]

    found, _ = shrunk(LONG, fails)

    expected = [Send(arrivals=(second,)), Crash(), Send(arrivals=(fifth,)), Take()]
    assert found.schedule.steps() == expected


def test_a_schedule_of_fewer_records_counts_as_two_runs() -> None:
    found, runs = shrunk(PLAIN.having([Placed(position=6, event=Crash())]), lambda _: True)

    fewer = [schedule for schedule in runs if len(schedule.arrivals) < 6]
    assert len(found.schedule.arrivals) == 1
    assert found.runs == len(runs) + len(fewer)


def test_a_repeated_record_that_is_left_out_is_not_repeated() -> None:
    again = Placed(position=3, event=Resend(arrival=Arrival("orders", 2)))
    fewer = PLAIN.having([again]).keeping(PLAIN.arrivals[:2])

    assert fewer == Schedule(arrivals=PLAIN.arrivals[:2])


def test_two_events_that_fail_only_together_both_stay() -> None:
    found, _ = shrunk(LONG, lambda schedule: schedule.uses(Crash) and schedule.uses(Restart))

    assert [type(placed.event) for placed in found.schedule.events] == [Restart, Crash]


def test_a_place_that_matters_is_kept() -> None:
    def fails(schedule: Schedule) -> bool:
        return any(placed.position == 3 for placed in schedule.events)

    found, _ = shrunk(LONG, fails)

    assert found.schedule.events == (Placed(position=3, event=Take()),)


def test_the_order_of_records_is_restored_where_it_does_not_matter() -> None:
    mixed = Schedule(arrivals=tuple(reversed(PLAIN.arrivals)), events=LONG.events)

    def fails(schedule: Schedule) -> bool:
        return schedule.uses(Crash) and len(schedule.arrivals) == 6

    found, _ = shrunk(mixed, fails)

    assert found.schedule.arrivals == PLAIN.arrivals


def test_an_order_that_matters_is_kept() -> None:
    mixed = Schedule(arrivals=tuple(reversed(PLAIN.arrivals)), events=LONG.events)
    first, second = Arrival("orders", 5), Arrival("orders", 2)
    found, _ = shrunk(
        mixed, lambda schedule: schedule.arrivals[:1] == (first,) and second in schedule.arrivals
    )

    assert found.schedule == Schedule(arrivals=(first, second))


def test_a_record_is_never_sent_again_before_it_was_sent() -> None:
    resend = Placed(position=6, event=Resend(arrival=Arrival("orders", 5)))
    schedule = PLAIN.having([Placed(position=2, event=Take()), resend])
    _, runs = shrunk(schedule, lambda candidate: candidate.uses(Resend) and candidate.uses(Take))

    for candidate in runs:
        for placed in candidate.events:
            if isinstance(placed.event, Resend):
                assert placed.event.arrival in candidate.arrivals[: placed.position]


def test_no_schedule_runs_twice_and_the_bound_holds() -> None:
    for most_runs in (0, 1, 5, 100):
        found, runs = shrunk(LONG, lambda schedule: schedule.uses(Crash), most_runs)
        assert len(runs) == len(set(runs)) <= found.runs <= most_runs
        assert found.schedule.uses(Crash)


def test_what_cannot_be_shortened_stays() -> None:
    found, _ = shrunk(LONG, lambda schedule: False)
    assert found.schedule == LONG


def test_no_single_event_could_be_left_out() -> None:
    chosen = terms()
    for number in range(1, 60):
        schedule = generate(Random(number), chosen, number=number)
        wanted = {type(placed.event) for placed in schedule.events}

        def fails(candidate: Schedule, wanted: set[type] = wanted) -> bool:
            return {type(placed.event) for placed in candidate.events} == wanted

        found = shrink(schedule, plain(chosen.sizes), fails, most_runs=200).schedule
        assert len(found.events) == len(wanted)
