"""Schedules derive from a seed, send every record, and keep the order that a job may rely on."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedkafka.explore.inputs import Input, read_inputs
from embedkafka.explore.outputs import all_records, table
from embedkafka.explore.places import Passed, Place, SinkCall
from embedkafka.explore.schedule import (
    Arrival,
    Crash,
    CrashInside,
    Expire,
    FailTask,
    FailWrite,
    Grow,
    KillJvm,
    KillLeader,
    Limit,
    LoseReply,
    LoseUnsent,
    Moment,
    MoveLeaders,
    Placed,
    Rebuild,
    Resend,
    Restart,
    Schedule,
    Send,
    Take,
    plain,
)
from embedkafka.explore.terms import StepKind, terms_of
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import replace
from tests.unit.explore.schedules import (
    INPUTS,
    ORDERS,
    drawn,
    only,
    terms,
)


def orders_of(schedule: Schedule) -> list[int]:
    return [arrival.nth for arrival in schedule.arrivals if arrival.source == "orders"]


@given(st.integers(0, 2**32), st.integers(1, 20))
def test_a_seed_and_a_number_give_the_same_schedule(seed: int, number: int) -> None:
    first, second = (drawn(terms(), number + 1, seed) for _ in "12")
    assert first == second
    assert len(first) == number


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


def test_a_crash_strikes_the_batch_with_records_and_the_one_behind_it_in_turn() -> None:
    led = terms(has_watermark=True, left_out=frozenset(StepKind) - {StepKind.CRASH})
    crashes = [each.events[0].event for each in drawn(led, 5)]
    assert crashes == [Crash(before_closing=is_before) for is_before in (True, False, True, False)]
    assert not any(
        isinstance(placed.event, Crash) and placed.event.before_closing
        for schedule in drawn(terms())
        for placed in schedule.events
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_comes_before_a_cut_that_would_take_its_records(seed: int) -> None:
    crashes, alone = 0, {"orders": Input(ORDERS, key="sku")}
    for schedule in drawn(terms(alone, has_watermark=True), 60, seed):
        taken = set()
        for placed in schedule.events:
            if isinstance(placed.event, Crash):
                crashes += 1
                assert placed.position not in taken
            elif isinstance(placed.event, Take):
                taken.add(placed.position)
    assert crashes > 0


def test_behind_the_last_start_each_input_has_a_record_to_move_the_watermark() -> None:
    starts = (Restart, Crash, KillJvm, Limit)
    schedules = drawn(terms(has_watermark=True, kill_jvm=True))
    assert any(schedule.uses(*starts) for schedule in schedules)
    for schedule in schedules:
        places = [each.position for each in schedule.events if isinstance(each.event, starts)]
        left = schedule.arrivals[max(places, default=0) :]
        assert {arrival.source for arrival in left} == {"orders", "prices"}
        for placed in schedule.events:
            if isinstance(placed.event, Resend):
                assert placed.event.arrival in schedule.arrivals[: placed.position]
    in_order = terms(has_watermark=True, left_out=frozenset({StepKind.ORDER}))
    assert all(each.arrivals == plain(in_order.sizes).arrivals for each in drawn(in_order))


def test_limited_batches_make_no_record_late_for_a_watermark() -> None:
    """They take some records of each partition, however old those are."""
    spread = {"orders": Input(ORDERS, key="sku", event_time="at", partitions=3)}
    why = terms(spread, has_watermark=True).impossible[StepKind.LIMIT]
    assert why == "it would make records of other partitions late"
    assert StepKind.LIMIT in terms(spread).kinds

    for has_watermark in (True, False):
        schedules = drawn(terms(has_watermark=has_watermark))
        both = [each for each in schedules if each.uses(Limit) and each.uses(Grow)]
        assert bool(both) is not has_watermark
        assert any(each.uses(Limit) for each in schedules)
        assert any(each.uses(Grow) for each in schedules)


def test_records_are_less_late_than_the_test_allows() -> None:
    """Of those that are as late as a watermark's delay Spark drops some."""
    late = {"orders": Input(ORDERS, key="sku", event_time="at", lateness_s=20)}
    lags = []
    for schedule in drawn(terms(late, has_watermark=True)):
        newest = 0
        for nth in orders_of(schedule):
            lags.append(newest - nth * 10)
            newest = max(newest, nth * 10)
    assert max(lags) == 10


LATE_ONLY = frozenset(StepKind) - {StepKind.LATE, StepKind.BATCHES}


@pytest.mark.parametrize("key", ["sku", None])
def test_a_record_comes_late_for_its_own_key_and_in_a_later_batch(key: str | None) -> None:
    late = {"orders": Input(ORDERS, key=key, event_time="at", lateness_s=31)}
    chosen = terms(late, left_out=LATE_ONLY, has_watermark=True)
    assert chosen.kinds == (StepKind.BATCHES, StepKind.LATE)
    for schedule in drawn(chosen)[1::2]:  # those that are for late records
        order = orders_of(schedule)
        cuts = [placed.position for placed in schedule.events]
        lags = {
            (nth * 10 - order[place] * 10, cut)
            for cut in cuts
            for place in range(cut, len(order))
            for nth in order[:cut]
            if key is None or ORDERS[nth]["sku"] == ORDERS[order[place]]["sku"]
        }
        assert 0 < max(lags)[0] <= 30


def test_late_records_need_no_cut_if_batches_are_left_out() -> None:
    late = {"orders": Input(ORDERS, key="sku", event_time="at", lateness_s=30)}
    schedules = drawn(terms(late, left_out=LATE_ONLY | {StepKind.BATCHES}))
    assert schedules
    assert not any(schedule.events for schedule in schedules)
    assert len({schedule.arrivals for schedule in schedules}) == len(schedules)


def test_late_records_mix_with_a_new_order_of_the_others() -> None:
    late = {"orders": Input(ORDERS, key="sku", event_time="at", lateness_s=30)}
    both = frozenset(StepKind) - {StepKind.LATE, StepKind.ORDER}
    for schedule in drawn(terms({**late, "prices": ["1"]}, left_out=both))[1::2]:
        assert any(
            orders_of(schedule).index(second) < orders_of(schedule).index(first)
            for first, second in [(0, 2), (2, 5), (1, 4), (3, 6)]
        )


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (Input(ORDERS, key="sku", event_time="at"), "no input has lateness_s"),
        (Input(ORDERS, key="sku", event_time="at", lateness_s=20), "no record has a newer one"),
        (Input(ORDERS[:1], event_time="at", lateness_s=60), "no record has a newer one"),
        (Input([{"at": 7}] * 3, event_time="at", lateness_s=60), "no record has a newer one"),
        # The second would come after one that is newer than it by more than that.
        (Input([{"at": 10}, {"at": 90}, {"at": 20}], event_time="at", lateness_s=30), "no record"),
    ],
)
def test_no_record_is_late_where_none_may_be(given: Input, why: str) -> None:
    assert terms({"orders": given}).impossible[StepKind.LATE].startswith(why)


def test_records_without_a_key_have_no_order_across_partitions() -> None:
    numbers = {"orders": Input(list("1234567"), partitions=3)}
    schedules = drawn(terms(numbers))
    assert any(orders_of(schedule) != list(range(7)) for schedule in schedules)
    for schedule in schedules:
        for partition in range(3):
            ours = [nth for nth in orders_of(schedule) if nth % 3 == partition]
            assert ours == sorted(ours)


def test_records_without_a_key_in_one_partition_keep_their_order() -> None:
    found = terms({"orders": list("1234567")})
    assert found.impossible[StepKind.ORDER] == "all records keep their order"
    assert all(orders_of(schedule) == list(range(7)) for schedule in drawn(found))


def test_a_watermark_keeps_the_order_across_partitions() -> None:
    found = terms({"orders": Input(list("1234567"), partitions=3)}, has_watermark=True)
    assert all(orders_of(schedule) == list(range(7)) for schedule in drawn(found))


def test_a_record_that_the_test_gives_too_late_gets_no_later() -> None:
    late = [{"at": 0, "k": 1}, {"at": 100, "k": 2}, {"at": 5, "k": 3}, {"at": 110, "k": 4}]
    inputs = {"orders": Input(late, key="k", event_time="at", lateness_s=20)}
    for schedule in drawn(terms(inputs, has_watermark=True)):
        assert orders_of(schedule).index(0) < orders_of(schedule).index(1)
        assert orders_of(schedule).index(2) < orders_of(schedule).index(3)


def test_the_first_schedule_parts_two_updates_of_a_key_in_each_input() -> None:
    """The plain one has them in one batch. Of equal records no result would tell."""
    stock = [{"sku": "x", "n": n} for n in (1, 1, 2)]
    inputs = {**INPUTS, "stock": Input(stock, key="sku"), "names": Input(["a", "b"])}
    for seed in range(50):
        (first,) = drawn(terms(inputs), 2, seed)
        cuts = [placed.position for placed in first.events if placed.event == Take()]
        for source, before, after in [("orders", 0, 2), ("stock", 1, 2)]:
            places = [first.arrivals.index(Arrival(source, nth)) for nth in (before, after)]
            assert any(places[0] < cut <= places[1] for cut in cuts)


def test_no_updates_are_parted_if_batches_are_left_out() -> None:
    (first,) = drawn(terms(left_out=frozenset(StepKind) - {StepKind.ORDER}), 2)
    assert first.events == ()


def test_equal_updates_of_a_key_are_better_than_none() -> None:
    found = terms({"stock": Input([("x", "1"), ("x", "1")])})
    assert found.updates == ((Arrival("stock", 0), Arrival("stock", 1)),)


def steps_of(schedules: list[Schedule]) -> list[tuple[object, ...]]:
    return [tuple(schedule.steps()) for schedule in schedules]


@pytest.mark.parametrize("seed", range(5))
def test_few_records_run_under_every_schedule_that_there_is(seed: int) -> None:
    """Four records in their order have cuts before each of them, or not: one of 16 is plain."""
    few = terms({"orders": list("1234")}, left_out=only(StepKind.BATCHES))
    found = steps_of(drawn(few, seed=seed))
    assert len(found) == len(set(found)) == 15
    assert tuple(plain(few.sizes).steps()) not in found


@pytest.mark.parametrize("seed", range(5))
def test_a_kind_without_more_schedules_leaves_its_numbers_to_others(seed: int) -> None:
    """Two records have three sets of cuts, each with the one limit or without, and that alone."""
    few = terms({"orders": list("12")}, left_out=only(StepKind.BATCHES, StepKind.LIMIT))
    assert len(set(steps_of(drawn(few, seed=seed)))) == 7


def test_no_step_follows_itself() -> None:
    late = {"orders": Input(ORDERS, key="sku", event_time="at", lateness_s=30)}
    for steps in steps_of(drawn(terms({**INPUTS, **late}))):
        assert all(first != second for first, second in pairwise(steps))


def test_a_schedule_that_was_there_is_drawn_again_the_same_way() -> None:
    few = terms({"orders": list("1234")}, left_out=only(StepKind.BATCHES))
    assert drawn(few, 6) == drawn(few, 12)[:5]
    assert drawn(few, 12, seed=1) != drawn(few, 12, seed=2)


def test_queries_have_taken_something_before_they_restart() -> None:
    for schedule in drawn(terms(left_out=only(StepKind.RESTART)), 8):
        position = schedule.events[0].position
        assert [placed.event for placed in schedule.events] == [Take(), Restart()]
        assert position > 0


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


def test_copies_come_in_a_later_batch_an_old_one_and_the_last_few_in_turn() -> None:
    led = terms(left_out=only(StepKind.BATCHES, StepKind.RESEND))
    for seed in range(20):
        old, few = drawn(led, 5, seed)[1::2]
        copies = [placed for placed in old.events if isinstance(placed.event, Resend)]
        assert [Placed(position=copies[0].position, event=Take())] == [
            each for each in old.events if each.position == copies[0].position
        ][:1]
        (stale,) = [each.event.arrival for each in copies if isinstance(each.event, Resend)]
        sku = ORDERS[stale.nth]["sku"]
        newer = [nth for nth, order in enumerate(ORDERS) if order["sku"] == sku and nth > stale.nth]
        assert newer
        assert all(Arrival("orders", nth) in old.arrivals[: copies[0].position] for nth in newer)
        last = [each.event.arrival for each in few.events if isinstance(each.event, Resend)]
        assert 2 <= len(last) <= 4 or last == [Arrival("orders", 0)]
        assert last == sorted(last)


def test_a_record_without_a_newer_one_of_its_key_comes_again_too() -> None:
    once = {"orders": Input(["1", "2", "3"], resends=True)}
    led = terms(once, left_out=only(StepKind.RESEND))
    assert led.outdated == ()
    assert all(each.uses(Resend) and not each.uses(Take) for each in drawn(led, 3))


def test_the_jvm_is_killed_only_on_request_and_then_once_in_turn() -> None:
    assert not any(each.uses(KillJvm) for each in drawn(terms()))
    assert StepKind.JVM not in terms(left_out=frozenset({StepKind.JVM}), kill_jvm=True).kinds

    killing = terms(kill_jvm=True)
    uses = [number for number, each in enumerate(drawn(killing, 23), 1) if each.uses(KillJvm)]
    assert uses == [len(killing.kinds), 2 * len(killing.kinds)]


def test_a_jvm_dies_in_the_first_batch_of_a_query_and_in_later_ones() -> None:
    led = terms(kill_jvm=True, left_out=only(StepKind.JVM))
    earlier = [
        [placed.event for placed in each.events if not isinstance(placed.event, KillJvm)]
        for each in drawn(led, 40)
    ]
    assert [] in earlier
    assert [Take()] in earlier


def test_tasks_fail_only_where_the_author_writes_in_them() -> None:
    assert not any(each.uses(FailTask) for each in drawn(terms()))
    assert any(each.uses(FailTask) for each in drawn(terms(passed=Passed(tasks=1))))


def test_a_job_starts_over_only_on_request() -> None:
    assert not any(each.uses(Rebuild) for each in drawn(terms()))
    assert any(each.uses(Rebuild) for each in drawn(terms(rebuild=True)))


def test_producers_lose_something_only_if_they_were_not_flushed() -> None:
    assert not any(each.uses(LoseUnsent) for each in drawn(terms(passed=PASSED)))
    unflushed = terms(passed=replace(PASSED, is_unflushed=True))
    assert any(each.uses(LoseUnsent) for each in drawn(unflushed))


def test_records_expire_only_on_request_and_behind_a_batch() -> None:
    assert not any(each.uses(Expire) for each in drawn(terms()))
    found = [each for each in drawn(terms(expire=True)) if each.uses(Expire)]
    assert found
    for schedule in found:
        steps = schedule.steps()
        place = next(index for index, step in enumerate(steps) if isinstance(step, Expire))
        *before, last, expire = steps[: place + 1]
        assert any(isinstance(step, Take) for step in before)
        assert isinstance(last, Send)
        assert isinstance(expire, Expire)
        assert expire.source in {arrival.source for arrival in last.arrivals}


def test_a_jvm_dies_at_every_moment_in_turn_whatever_the_seed() -> None:
    killing = terms(kill_jvm=True)
    turns = len(killing.kinds) * len(Moment)
    for seed in range(20):
        drawn_moments = [
            placed.event.moment
            for schedule in drawn(killing, turns + 1, seed)
            for placed in schedule.events
            if isinstance(placed.event, KillJvm)
        ]
        assert drawn_moments == list(Moment)


PLACES = tuple(Place(file="job.py", line=line) for line in range(2, 7))
PASSED = Passed(
    functions=1, lines=PLACES, writes=(SinkCall(name="DataFrameWriter.save", place=PLACES[2]),)
)


def test_a_driver_dies_at_every_place_in_turn_at_the_lines_that_write_first() -> None:
    led = terms(passed=PASSED, left_out=only(StepKind.INSIDE))
    for seed in range(5):
        dying = [
            {placed.event.place for placed in each.events if isinstance(placed.event, CrashInside)}
            for each in drawn(led, 3, seed)
        ]
        assert dying == [{PLACES[2], PLACES[0], PLACES[1]}, {PLACES[3], PLACES[4]}]


def test_a_write_fails_before_and_after_it_has_written_in_turn() -> None:
    led = terms(passed=PASSED, left_out=only(StepKind.WRITE))
    failing = [
        [placed.event.has_written for placed in each.events if isinstance(placed.event, FailWrite)]
        for each in drawn(led, 3)
    ]
    assert failing == [[False], [True]]


def test_what_happens_inside_a_function_goes_with_other_kinds_too() -> None:
    schedules = drawn(terms(passed=PASSED))
    assert any(each.uses(CrashInside) and each.uses(Restart) for each in schedules)
    few = Passed(functions=1)
    assert terms(passed=few).impossible[StepKind.INSIDE] == "foreachBatch has one line"
    assert terms(passed=few).impossible[StepKind.WRITE].startswith("foreachBatch calls no writer")


def test_records_come_before_each_batch_that_is_struck() -> None:
    for schedule in drawn(terms(passed=replace(PASSED, is_unflushed=True))):
        steps = schedule.steps()
        struck = [
            index
            for index, step in enumerate(steps)
            if isinstance(step, CrashInside | FailWrite | FailTask | LoseUnsent)
        ]
        assert all(isinstance(steps[index - 1], Send) for index in struck)


def test_at_most_one_kind_lets_a_batch_run_again() -> None:
    """A crash would write what a sink has swallowed before."""
    found = terms(passed=replace(PASSED, tasks=1, is_unflushed=True), rebuild=True, expire=True)
    repeating = (Crash, CrashInside, FailWrite, FailTask, LoseUnsent, Rebuild, Expire)
    counts = {sum(each.uses(kind) for kind in repeating) for each in drawn(found)}
    assert counts == {0, 1}


def test_kinds_that_are_left_out_do_not_occur() -> None:
    left_out = frozenset({StepKind.CRASH, StepKind.KILL})
    assert not any(schedule.uses(Crash, KillLeader) for schedule in drawn(terms(left_out=left_out)))


def test_brokers_out_of_reach_are_left_alone() -> None:
    found = terms(brokers=0).kinds
    assert not {StepKind.REPLY, StepKind.MOVE, StepKind.KILL} & set(found)
    assert not {StepKind.MOVE, StepKind.KILL} & set(terms(brokers=1).kinds)


def test_nothing_to_send_has_no_schedule_but_the_plain_one() -> None:
    assert drawn(terms({"orders": []})) == []


def test_kinds_that_are_impossible_say_why() -> None:
    found = terms({"orders": ["1"]}, left_out=frozenset({StepKind.GROW}), brokers=1)
    assert {kind.value: why for kind, why in found.impossible.items()} == {
        "batches": "fewer than two records",
        "inside": "no query has foreachBatch",
        "write": "no query has foreachBatch",
        "task": "no foreachPartition or foreach",
        "unsent": "no query has foreachBatch",
        "order": "all records keep their order",
        "late": "no input has lateness_s",
        "limit": "fewer than two records",
        "resend": "no input has resends=True",
        "move": "the cluster has one broker",
        "kill": "the cluster has one broker",
        "rebuild": "it needs rebuild=True",
        "expire": "it needs expire=True",
        "jvm": "it needs kill_jvm=True",
    }
    external = terms(brokers=0).impossible
    assert {external[kind] for kind in (StepKind.REPLY, StepKind.MOVE, StepKind.KILL)} == {
        "the cluster is not embedded"
    }


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
    assert "in memory" in found.impossible[StepKind.CRASH]


def test_a_job_whose_restarts_are_left_out_needs_no_checkpoint() -> None:
    found = terms_of(
        read_inputs(INPUTS, seed=0),
        {"out": all_records()},
        {StepKind.CRASH, StepKind.RESTART},
        has_checkpoint=False,
        has_watermark=False,
        brokers=1,
        kill_jvm=True,
    )
    assert found.impossible[StepKind.JVM].startswith("no checkpoint: after a restart")


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
