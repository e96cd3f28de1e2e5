"""Schedules derive from a seed, send every record, and keep the order that a job may rely on."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedkafka.explore.generation import generate
from embedkafka.explore.inputs import Input, read_inputs
from embedkafka.explore.outputs import all_records, table
from embedkafka.explore.schedule import (
    Arrival,
    Crash,
    Grow,
    KillJvm,
    KillLeader,
    Limit,
    LoseReply,
    Moment,
    MoveLeaders,
    Resend,
    Restart,
    Schedule,
    Take,
    plain,
)
from embedkafka.explore.terms import StepKind, Terms, terms_of
from embedkafka.runtime.failures import ConfigError

ORDERS = [{"sku": sku, "at": at} for sku, at in zip("abacbac", range(0, 70, 10), strict=True)]
INPUTS = {
    "orders": Input(ORDERS, key="sku", resends=True),
    "prices": Input([("a", "1"), ("b", "2")]),
}


def terms(
    inputs: Mapping[str, object] = INPUTS,
    *,
    left_out: frozenset[StepKind] = frozenset(),
    has_watermark: bool = False,
    brokers: int = 3,
    kill_jvm: bool = False,
) -> Terms:
    return terms_of(
        read_inputs(inputs, seed=0),
        {"out": all_records()},
        left_out,
        has_checkpoint=True,
        has_watermark=has_watermark,
        brokers=brokers,
        kill_jvm=kill_jvm,
    )


def drawn(terms: Terms, count: int = 200, seed: int = 0) -> list[Schedule]:
    return [
        generate(Random(f"{seed}/{number}"), terms, number=number) for number in range(1, count)
    ]


def orders_of(schedule: Schedule) -> list[int]:
    return [arrival.nth for arrival in schedule.arrivals if arrival.source == "orders"]


@given(st.integers(0, 2**32), st.integers(1, 50))
def test_a_seed_and_a_number_give_the_same_schedule(seed: int, number: int) -> None:
    first, second = (generate(Random(f"{seed}/{number}"), terms(), number=number) for _ in "12")
    assert first == second


def test_every_schedule_sends_every_record_once() -> None:
    everything = sorted(plain({"orders": 7, "prices": 2}).arrivals)
    assert all(sorted(schedule.arrivals) == everything for schedule in drawn(terms()))


def test_the_records_of_a_key_stay_in_their_order() -> None:
    for schedule in drawn(terms()):
        for sku in "abc":
            ours = [nth for nth in orders_of(schedule) if ORDERS[nth]["sku"] == sku]
            assert ours == sorted(ours)
    assert any(orders_of(schedule) != sorted(orders_of(schedule)) for schedule in drawn(terms()))


def test_a_job_with_a_watermark_gets_its_inputs_in_order() -> None:
    schedules = drawn(terms(has_watermark=True))
    assert all(orders_of(schedule) == list(range(7)) for schedule in schedules)
    assert any(schedule.arrivals[0].source == "prices" for schedule in schedules)


def test_records_come_no_later_than_the_test_allows() -> None:
    late = {"orders": Input(ORDERS, key="sku", event_time="at", lateness_s=20)}
    lags = []
    for schedule in drawn(terms(late, has_watermark=True)):
        newest = 0
        for nth in orders_of(schedule):
            lags.append(newest - nth * 10)
            newest = max(newest, nth * 10)
    assert max(lags) == 20


def test_a_record_that_the_test_gives_too_late_gets_no_later() -> None:
    late = [{"at": 0, "k": 1}, {"at": 100, "k": 2}, {"at": 5, "k": 3}, {"at": 110, "k": 4}]
    inputs = {"orders": Input(late, key="k", event_time="at", lateness_s=20)}
    for schedule in drawn(terms(inputs, has_watermark=True)):
        assert orders_of(schedule).index(0) < orders_of(schedule).index(1)
        assert orders_of(schedule).index(2) < orders_of(schedule).index(3)


def test_ten_schedules_lead_with_every_kind_in_turn() -> None:
    kinds = [Take, Crash, Restart, Limit, Resend, LoseReply, Grow, MoveLeaders, KillLeader]
    schedules = drawn(terms(), count=len(StepKind) + 1)
    assert [kind for kind in kinds if not any(each.uses(kind) for each in schedules)] == []


def test_a_schedule_takes_one_broker_away_at_most() -> None:
    for schedule in drawn(terms()):
        assert not (schedule.uses(KillLeader) and schedule.uses(MoveLeaders))


def test_only_inputs_that_may_be_resent_are() -> None:
    resent = [
        placed.event.arrival
        for schedule in drawn(terms())
        for placed in schedule.events
        if isinstance(placed.event, Resend)
        if placed.event.arrival in schedule.arrivals[: placed.position]
    ]
    assert {arrival.source for arrival in resent} == {"orders"}


def test_the_jvm_is_killed_only_on_request_and_then_once_in_turn() -> None:
    assert not any(each.uses(KillJvm) for each in drawn(terms()))
    assert StepKind.JVM not in terms(left_out=frozenset({StepKind.JVM}), kill_jvm=True).kinds

    killing = terms(kill_jvm=True)
    uses = [number for number, each in enumerate(drawn(killing, 23), 1) if each.uses(KillJvm)]
    assert uses == [len(killing.kinds), 2 * len(killing.kinds)]


def test_a_jvm_dies_at_every_moment_in_turn_whatever_the_seed() -> None:
    killing = terms(kill_jvm=True)
    turns = len(killing.kinds) * len(Moment)
    for seed in range(20):
        drawn_moments = [
            placed.event.moment
            for number in range(1, turns + 1)
            for placed in generate(Random(f"{seed}/{number}"), killing, number=number).events
            if isinstance(placed.event, KillJvm)
        ]
        assert drawn_moments == list(Moment)


def test_kinds_that_are_left_out_do_not_occur() -> None:
    left_out = frozenset({StepKind.CRASH, StepKind.KILL})
    assert not any(schedule.uses(Crash, KillLeader) for schedule in drawn(terms(left_out=left_out)))


def test_brokers_out_of_reach_are_left_alone() -> None:
    found = terms(brokers=0).kinds
    assert not {StepKind.REPLY, StepKind.MOVE, StepKind.KILL} & set(found)
    assert not {StepKind.MOVE, StepKind.KILL} & set(terms(brokers=1).kinds)


def test_nothing_to_send_is_the_plain_schedule() -> None:
    assert drawn(terms({"orders": []}), count=2) == [plain({"orders": 0})]


def test_a_table_in_memory_is_never_restarted() -> None:
    found = terms_of(
        read_inputs(INPUTS, seed=0),
        {"out": table("out")},
        set(),
        has_checkpoint=False,
        has_watermark=False,
        brokers=1,
    )
    assert not {StepKind.CRASH, StepKind.RESTART} & set(found.kinds)


def test_a_job_that_keeps_its_checkpoint_elsewhere_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"options\.checkpoint"):
        terms_of(
            read_inputs(INPUTS, seed=0),
            {"out": all_records()},
            set(),
            has_checkpoint=False,
            has_watermark=False,
            brokers=1,
        )


def test_lanes_hold_each_record_once() -> None:
    lanes = terms().lanes
    held = [Arrival(lane.source, nth) for lane in lanes for nth in lane.indexes]
    assert sorted(held) == sorted(plain({"orders": 7, "prices": 2}).arrivals)
