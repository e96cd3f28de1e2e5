"""An exploration counts its schedules by kind, and says what it could not do."""

import pytest

from embedkafka.explore.explored import ScheduleCounts, kinds_of
from embedkafka.explore.inputs import Input
from embedkafka.explore.runner import Ran
from embedkafka.explore.schedule import (
    Arrival,
    Crash,
    Limit,
    Placed,
    Restart,
    Schedule,
    Step,
    Take,
    plain,
)
from embedkafka.explore.terms import StepKind
from tests.unit.explore.schedules import drawn, only, terms

TERMS = terms({"orders": Input([("a", "1"), ("b", "2"), ("a", "3")])}, brokers=0)
PLAIN = plain(TERMS.sizes)


def ran(*, crashes_with_data: int = 0, idle: frozenset[type[Step]] = frozenset()) -> Ran:
    """What a schedule gave, as far as it counts here."""
    return Ran(
        found={},
        items={},
        notes={},
        has_checkpoint=True,
        has_watermark=False,
        crashes_with_data=crashes_with_data,
        idle=idle,
    )


def ordered(*numbers: int) -> Schedule:
    return Schedule(arrivals=tuple(Arrival("orders", number) for number in numbers))


@pytest.mark.parametrize(
    ("schedule", "kinds"),
    [
        (PLAIN, set()),
        (ordered(1, 0, 2), {StepKind.ORDER}),
        (ordered(1, 2, 0), {StepKind.LATE}),
        (PLAIN.having([Placed(position=1, event=Take())]), {StepKind.BATCHES}),
        (
            PLAIN.having([Placed(position=1, event=each) for each in (Take(), Restart(), Crash())]),
            {StepKind.BATCHES, StepKind.RESTART, StepKind.CRASH},
        ),
    ],
)
def test_a_schedule_is_of_the_kinds_of_its_steps(schedule: Schedule, kinds: set[StepKind]) -> None:
    assert kinds_of(schedule, TERMS) == kinds


@pytest.mark.parametrize("kind", StepKind)
def test_a_schedule_that_a_kind_leads_is_of_that_kind(kind: StepKind) -> None:
    records = [{"k": n % 2, "at": n} for n in range(6)]
    given = Input(records, key="k", event_time="at", lateness_s=9, resends=True)
    leading = terms({"orders": given}, left_out=only(kind), kill_jvm=True, rebuild=True)
    for schedule in drawn(leading, 5):
        assert kind in kinds_of(schedule, leading)


def test_what_ran_and_what_could_not_are_told_in_two_lines() -> None:
    counts = ScheduleCounts(TERMS, "7")
    counts.add(PLAIN.having([Placed(position=1, event=Take())]))
    crashes = PLAIN.having([Placed(position=position, event=Crash()) for position in (1, 2)])
    counts.add(crashes, ran(crashes_with_data=1))

    explored = counts.explored()

    assert explored.lines() == [
        "3 schedules of seed 7: batches 1, crash 1 (batches with data: 1), order 0, restart 0, "
        "limit 0, grow 0",
        "impossible: inside (no query has foreachBatch), write (no query has foreachBatch), task "
        "(no foreachPartition or foreach), unsent (no query has foreachBatch), resend (no input "
        "has resends=True), late (no input has lateness_s), reply (the cluster is not embedded), "
        "move (the cluster is not embedded), kill (the cluster is not embedded), rebuild (it needs "
        "rebuild=True), expire (it needs expire=True), jvm (it needs kill_jvm=True)",
    ]
    assert str(explored) == "; ".join(explored.lines())
    assert explored.kinds["batches"] == explored.kinds["crash"] == 1


def test_rows_that_wait_for_a_watermark_are_told() -> None:
    counts = ScheduleCounts(TERMS, "7")
    counts.add(PLAIN, is_not_yet=True)
    (_, said, _) = counts.explored().lines()
    assert said.startswith("not yet: rows of 1 of them wait for a watermark")


def test_kinds_without_effect_and_remarks_are_told() -> None:
    counts = ScheduleCounts(TERMS, "7")
    for _ in "12":
        counts.add(
            PLAIN.having([Placed(position=1, event=Limit(records=1))]), ran(idle=frozenset({Limit}))
        )
    counts.add(PLAIN.having([Placed(position=1, event=Crash())]), ran(idle=frozenset({Crash})))
    counts.add(PLAIN.having([Placed(position=1, event=Crash())]), ran(crashes_with_data=1))

    explored = counts.explored(remarks=("It begins at the latest.",), seconds=2.04)

    assert explored.idle == {"limit": 2, "crash": 1}
    assert explored.lines()[1] == "without effect: limit"
    assert explored.lines()[-1] == "It begins at the latest."
    head, columns, *rows = explored.table().splitlines()
    assert head == "5 schedules of seed 7 in 2.0 s"
    assert columns.split() == ["kind", "schedules", "with", "effect", "on", "data"]
    cells = {row.split()[0]: row.split()[1:] for row in rows}
    assert cells["crash"] == ["2", "1", "1"]
    assert cells["limit"] == ["2", "0"]
    assert rows[-1] == "  It begins at the latest."


def test_there_may_be_fewer_schedules_than_asked_for() -> None:
    explored = ScheduleCounts(TERMS, "7").explored(is_exhausted=True)
    assert str(explored).startswith("1 schedule of seed 7 (there are no others): ")
    assert explored.exhausted
