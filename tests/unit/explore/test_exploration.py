"""What `explore` makes of the runs: the first schedule is plain, a refutation can be repeated."""

import logging
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, cast

import pytest

from embedkafka.explore import Explored, Input, Refuted, all_records, exploration, explore
from embedkafka.explore.driver import ImmediateJob
from embedkafka.explore.job_failures import JobFailed
from embedkafka.explore.runner import Ran
from embedkafka.explore.schedule import Crash, Resend, Schedule, Take, plain
from embedkafka.explore.seeds import DEFAULT_VARIABLE, REPEAT_VARIABLE, SEED_VARIABLE
from embedkafka.explore.terms import StepKind
from embedkafka.runtime.failures import AwaitTimeout, ConfigError
from embedkafka.spark.execution import NotOnSparkConnect

ALL_KINDS = {kind.value for kind in StepKind}
TIMED = [{"sku": "a", "n": number} for number in range(5)]
ORDERS = [{"sku": sku, "n": number} for number, sku in enumerate("abcab")]
PLAIN = plain({"orders": 5})
Gives = Callable[[Schedule], list[object]]


class FakeRunner:
    """Gives, for each schedule, what a function says, and remembers the schedules."""

    def __init__(
        self, gives: Gives, key: str = "", watermark_ms: Callable[[Schedule], int] = lambda _: 0
    ) -> None:
        self.ran: list[Schedule] = []
        self.before: dict[str, Any] = {}
        self._gives = gives
        self._key = key
        self._watermark_ms = watermark_ms

    def read_before(self) -> dict[str, object]:
        return self.before

    def run(self, schedule: Schedule) -> Ran:
        self.ran.append(schedule)
        found = self._gives(schedule)
        return Ran(
            found={"out": found},
            items={"out": {self._key: found}},
            notes={0: "noted"},
            has_checkpoint=True,
            has_watermark=False,
            watermarks_ms={"query": self._watermark_ms(schedule)},
            crashes_with_data=int(schedule.uses(Crash)),
        )


@pytest.fixture
def exploring(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Explores a job that gives what a function of the schedule says."""
    for variable in (SEED_VARIABLE, DEFAULT_VARIABLE, REPEAT_VARIABLE):
        monkeypatch.delenv(variable, raising=False)

    def explore_fake(
        gives: Gives,
        *,
        key: str = "",
        watermark_ms: Callable[[Schedule], int] = lambda schedule: 0,
        before: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> tuple[FakeRunner, Explored]:
        runner = FakeRunner(gives, key, watermark_ms)
        runner.before.update(before or {})
        monkeypatch.setattr(exploration, "Runner", lambda *_, **__: runner)
        nothing = cast(Any, object())
        given: dict[str, Any] = {
            "job": lambda spark, options: None,
            "inputs": {"orders": Input(ORDERS, key="sku", resends=True)},
            "outputs": {"out": all_records()},
            **arguments,
        }
        return runner, explore(nothing, nothing, **given)

    return explore_fake


def doubled_by(kind: type) -> Gives:
    return lambda schedule: [1, 1] if schedule.uses(kind) else [1]


def failing_by(kind: type) -> Gives:
    def gives(schedule: Schedule) -> list[object]:
        if schedule.uses(kind):
            raise JobFailed(ValueError("no such sku"))
        return [1]

    return gives


def refuted(exploring: Callable[..., Any], gives: Gives, **arguments: Any) -> str:
    with pytest.raises(Refuted) as raised:
        exploring(gives, **arguments)
    return str(raised.value)


def test_a_job_that_is_right_runs_the_plain_schedule_first_and_others_once(
    exploring: Callable[..., Any],
) -> None:
    runner, explored = exploring(lambda schedule: [1], schedules=9, seed=3)

    assert runner.ran[0] == PLAIN
    assert len(runner.ran) == len(set(runner.ran)) == explored.schedules == 9
    assert explored.seed == "3"
    assert not explored.exhausted
    assert explored.kinds["crash"] > 0
    assert explored.crashes_with_data == len([each for each in runner.ran if each.uses(Crash)])
    assert explored.impossible["late"] == "no input has lateness_s"


def test_fewer_schedules_than_asked_for_are_all_that_there_are(
    exploring: Callable[..., Any],
) -> None:
    few = {"inputs": {"orders": ["1", "2", "3", "4"]}, "without": list(ALL_KINDS - {"batches"})}

    runner, explored = exploring(lambda schedule: [1], schedules=12, seed=3, **few)
    assert len(runner.ran) == explored.schedules == 12
    assert not explored.exhausted

    runner, explored = exploring(lambda schedule: [1], schedules=20, seed=3, **few)
    assert len({tuple(each.steps()) for each in runner.ran}) == explored.schedules == 16
    assert explored.exhausted

    with pytest.raises(ConfigError, match="seed 3 has no schedule 16"):
        exploring(lambda schedule: [1], seed="3/16", **few)


def test_what_refuted_nothing_is_logged(
    exploring: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "embedkafka.explore")
    _, explored = exploring(lambda schedule: [1], schedules=2, seed=3)
    assert caplog.messages == [f"explored {explored.table()}"]


def test_a_refutation_is_shortened_and_says_how_to_repeat_it(
    exploring: Callable[..., Any],
) -> None:
    message = refuted(exploring, doubled_by(Crash), seed=3)

    assert message.startswith(
        "they differ: the result of the job depends on the schedule\n\nSpark's"
    )
    assert "If those who read out allow for that, the output is all_records(dupl" in message
    assert "1. orders 5 arrives [noted]\n  2. the queries take what is there; the driver" in message
    assert "steps and 5 records, shortened in" in message
    assert 'The records that are left:\n  orders 5: {"n": 4, "sku": "b"}\n' in message
    assert "plain schedule: 1\n    this schedule:  1, 1" in message
    assert "What ran:\n  3 schedules of seed 3: batches" in message
    assert "unsent (no query has foreachBatch), late (no input has lateness_s), reply" in message
    assert "pytest --explore-seed=3/2, or explore(..., seed='3/2')" in message


def test_a_refutation_names_the_intervals_that_the_triggers_did_not_wait_for(
    exploring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "immediate_triggers: processingTime 1 minute ran at once"
    monkeypatch.setattr(ImmediateJob, "describe", lambda job: said)
    wrong: list[tuple[Gives, dict[str, Any]]] = [
        (doubled_by(Crash), {}),
        (failing_by(Take), {}),
        (lambda schedule: [1], {"invariant": lambda out, given: False}),
    ]
    for gives, more in wrong:
        message = refuted(exploring, gives, seed=3, immediate_triggers=True, **more)
        assert message.endswith(f"\n\n{said}")
        assert said not in refuted(exploring, gives, seed=3, **more)


def test_only_an_invariant_says_which_of_two_results_is_right(
    exploring: Callable[..., Any],
) -> None:
    said = "Which of the two is right, only an invariant can say."
    assert said in refuted(exploring, doubled_by(Crash), seed=3)
    holds = lambda out, given: out["out"] == [1]  # noqa: E731  # as a test writes it
    assert said not in refuted(exploring, doubled_by(Crash), seed=3, invariant=holds)


def test_without_an_invariant_the_message_says_what_most_schedules_gave(
    exploring: Callable[..., Any],
) -> None:
    message = refuted(exploring, doubled_by(Crash), seed=3)
    assert "can say. Of 7 schedules with all records, 5 gave what the plain one gave.\n" in message

    rarely = refuted(exploring, lambda schedule: [1 + (schedule != PLAIN)], seed=3)
    assert "Of 6 schedules with all records, 1 gave what the plain one gave, and 5 gave:" in rarely
    assert '\nout: {"": ["2"]}' in rarely


def test_lost_and_doubled_are_said_only_if_the_inputs_prove_it(
    exploring: Callable[..., Any],
) -> None:
    def orders(schedule: Schedule) -> list[object]:
        return [ORDERS[nth] for _, nth in sorted(schedule.arrivals)]

    def twice(schedule: Schedule) -> list[object]:
        return orders(schedule) * (1 + schedule.uses(Crash))

    def none(schedule: Schedule) -> list[object]:
        return [] if schedule.uses(Crash) else orders(schedule)

    assert refuted(exploring, twice, seed=3).startswith("doubled: ")
    assert refuted(exploring, none, seed=3).startswith("lost: ")
    assert refuted(exploring, doubled_by(Crash), seed=3).startswith("they differ: ")


def test_rows_that_wait_for_a_watermark_are_not_lost_yet(exploring: Callable[..., Any]) -> None:
    def gives(schedule: Schedule) -> list[object]:
        return [1] if schedule.uses(Crash) else [1, 2]

    def behind(schedule: Schedule) -> int:
        return 5 if schedule.uses(Crash) else 9

    for invariant in (None, lambda out, given: out["out"] == [1, 2]):
        runner, explored = exploring(gives, watermark_ms=behind, invariant=invariant, seed=3)
        assert explored.not_yet == len([each for each in runner.ran if each.uses(Crash)])
        assert "they differ" in refuted(exploring, doubled_by(Crash), watermark_ms=behind, seed=3)
    assert refuted(exploring, gives, watermark_ms=lambda schedule: 9, seed=3)


def test_only_records_that_are_right_under_their_plain_schedule_are_left(
    exploring: Callable[..., Any],
) -> None:
    """The invariant gets the records that are left, and holds for the plain schedule of all."""

    def gives(schedule: Schedule) -> list[object]:
        known = sorted({arrival.nth for arrival in schedule.arrivals} & {1, 3})
        return [*known, "again"] if schedule.uses(Crash) else [*known]

    def holds_with_both(out: dict[str, Any], given: dict[str, Any]) -> bool:
        return bool(out["out"] == [1, 3]) and {"sku": "b", "n": 1} in given["orders"]

    message = refuted(exploring, gives, invariant=holds_with_both, seed=3, shrink_runs=100)

    assert "The records that are left:\n  orders 2: " in message
    assert message.index("orders 2: ") < message.index("orders 4: ")
    assert "orders 1: " not in message


def test_an_invariant_for_all_records_only_keeps_them_all(exploring: Callable[..., Any]) -> None:
    def looks_up_the_last(out: dict[str, Any], given: dict[str, Any]) -> bool:
        return bool(out["out"] == [1]) and given["orders"][4]["n"] == 4

    message = refuted(exploring, doubled_by(Crash), invariant=looks_up_the_last, seed=3)

    assert "1. orders 1-5 arrive" in message
    assert "The records that are left" not in message


def test_a_printed_seed_repeats_only_what_it_found(exploring: Callable[..., Any]) -> None:
    first = refuted(exploring, doubled_by(Crash), seed=3)
    second = refuted(exploring, doubled_by(Crash), seed="3/2")
    assert second.partition("Which of")[0] == first.partition("Which of")[0]

    runner, explored = exploring(lambda schedule: [1], seed="3/2")
    assert len(runner.ran) == explored.schedules == 2


def test_the_seed_of_the_command_line_wins(
    exploring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SEED_VARIABLE, "3/2")
    assert "--explore-seed=3/2" in refuted(exploring, doubled_by(Crash), seed=99)


def test_what_refuted_the_job_is_repeated_with_its_own_plain_schedule_first(
    exploring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REPEAT_VARIABLE, "3/2")
    assert "--explore-seed=3/2" in refuted(exploring, doubled_by(Crash))

    runner, explored = exploring(lambda schedule: [1], schedules=3)
    assert runner.ran[0] == runner.ran[2] == PLAIN
    assert runner.ran[1].uses(Crash)
    assert len(runner.ran) == 2 + 3
    assert explored.seed != "3"


def test_what_is_repeated_may_be_gone(
    exploring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REPEAT_VARIABLE, "3/9000")
    few = {"inputs": {"orders": ["1", "2"]}, "without": list(ALL_KINDS - {"batches"})}
    assert exploring(lambda schedule: [1], **few)[1].schedules == 4


@pytest.mark.parametrize("fails", [False, True])
def test_a_refutation_has_the_seed_that_repeats_it(
    exploring: Callable[..., Any], fails: bool
) -> None:
    def gives(schedule: Schedule) -> list[object]:
        if fails:
            raise JobFailed(ValueError("no such table"))
        return [1]

    with pytest.raises(Refuted) as raised:
        exploring(doubled_by(Crash), seed=3)
    assert raised.value.seed == "3/2"
    with pytest.raises(Refuted) as raised:
        exploring(gives, invariant=lambda out, given: False, seed=3)
    assert raised.value.seed == "3/0"
    runner, _ = exploring(lambda schedule: [1], seed="3/0")
    assert runner.ran == [PLAIN]


def test_the_order_of_a_key_counts_only_while_its_records_keep_theirs(
    exploring: Callable[..., Any],
) -> None:
    """A job that copies records is right, also when one of them is late."""
    late = {"orders": Input(TIMED, key="sku", event_time="n", lateness_s=9)}
    keeps = {"without": list(ALL_KINDS - {"late", "batches"}), "inputs": late, "seed": 3}

    def copies(schedule: Schedule) -> list[object]:
        return [nth for _, nth in schedule.arrivals]

    def scrambles(schedule: Schedule) -> list[object]:
        return copies(schedule)[:: -1 if schedule.uses(Take) else 1]

    assert exploring(copies, key="a", **keeps)
    assert "out of order" in refuted(exploring, scrambles, key="a", **keeps)


def test_without_a_seed_every_call_explores_others(exploring: Callable[..., Any]) -> None:
    seeds = {exploring(lambda schedule: [1], schedules=2)[1].seed for _ in range(5)}
    assert len(seeds) > 1


def test_an_invariant_returns_whether_it_holds_or_asserts(exploring: Callable[..., Any]) -> None:
    def asserts(out: dict[str, Any], given: dict[str, Any]) -> None:
        assert given["orders"] == ORDERS
        assert out["out"] == [1], "more than one"

    assert "more than one" in refuted(exploring, doubled_by(Crash), invariant=asserts, seed=3)
    returns = lambda out, given: out["out"] == [1]  # noqa: E731  # as a test writes it
    assert refuted(exploring, doubled_by(Crash), invariant=returns, seed=3).startswith("doubled")
    assert exploring(doubled_by(Crash), invariant=lambda out, given: True, schedules=5)


def test_a_plain_schedule_that_is_wrong_is_no_matter_of_schedules(
    exploring: Callable[..., Any],
) -> None:
    message = refuted(exploring, lambda schedule: [7], invariant=lambda out, given: False)
    assert "does not hold under the plain schedule" in message
    assert message.endswith("out: [7]")


def test_a_job_that_fails_under_a_schedule_is_shown_with_its_exception(
    exploring: Callable[..., Any],
) -> None:
    def gives(schedule: Schedule) -> list[object]:
        if schedule.uses(Resend):
            raise JobFailed(ValueError("seen before"))
        return [1, 1] if schedule.uses(Take) else [1]

    message = refuted(exploring, gives, seed=3, without=["batches"])
    assert message.startswith("the job fails")
    assert "ValueError: seen before" in message


def test_a_job_that_stalls_is_not_run_again_and_again(exploring: Callable[..., Any]) -> None:
    stalls: list[Schedule] = []

    def gives(schedule: Schedule) -> list[object]:
        if schedule.uses(Crash):
            stalls.append(schedule)
            raise AwaitTimeout("waited 60 s")
        return [1]

    message = refuted(exploring, gives, seed=3)
    assert message.startswith("the job stalls")
    assert "waited 60 s" in message
    assert len(stalls) == 1


def test_a_job_that_fails_at_once_is_no_matter_of_schedules(
    exploring: Callable[..., Any],
) -> None:
    def gives(schedule: Schedule) -> list[object]:
        raise JobFailed(ValueError("no such table"))

    assert "fails under the plain schedule already" in refuted(exploring, gives)


def test_what_does_not_happen_again_is_a_race(exploring: Callable[..., Any]) -> None:
    crashes: list[Schedule] = []

    def gives(schedule: Schedule) -> list[object]:
        if schedule.uses(Crash):
            crashes.append(schedule)
        return [1, 1] if schedule.uses(Crash) and len(crashes) == 1 else [1]

    assert "it is a race" in refuted(exploring, gives, seed=3)


def test_what_varies_by_itself_is_named_and_no_schedule_is_accused(
    exploring: Callable[..., Any],
) -> None:
    runs = count()

    def gives(schedule: Schedule) -> list[object]:
        return [{"id": 1, "at": next(runs)}]

    message = refuted(exploring, gives, seed=3)
    assert message.startswith("the job gives another result each time")
    assert "depends on the schedule" not in message
    assert 'first run:  {"at": 0, "id": 1}' in message
    assert 'second run: {"at": 2, "id": 1}' in message
    assert "What varies in out: at. The output's ignore=['at'] leaves it out" in message

    runs = count()
    by_invariant = refuted(
        exploring, gives, seed=3, invariant=lambda out, given: out["out"][0]["at"] == 0
    )
    assert by_invariant.startswith("the job gives another result each time")

    def fails_later(schedule: Schedule) -> list[object]:
        if (run := next(runs)) > 9:
            raise JobFailed(ValueError("gone"))
        return [run]

    runs = count(8)
    assert "ValueError: gone" in refuted(exploring, fails_later, seed=3)


def test_a_schedule_that_became_the_plain_one_of_its_records_is_not_accused(
    exploring: Callable[..., Any],
) -> None:
    """A job that varies only sometimes: the plain schedule of fewer records proves nothing."""
    seen: set[Schedule] = set()

    def gives(schedule: Schedule) -> list[object]:
        is_first = schedule not in seen
        seen.add(schedule)
        return (
            [1] if is_first and not schedule.uses(Crash) else [1, 1] if schedule != PLAIN else [1]
        )

    message = refuted(exploring, gives, seed="3/2")
    assert "the driver dies" in message


def test_no_more_runs_than_allowed_are_spent_on_a_shorter_schedule(
    exploring: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Schedule] = []

    def gives(schedule: Schedule) -> list[object]:
        runs.append(schedule)
        return [1, 1] if schedule.uses(Crash) else [1]

    refuted(exploring, gives, seed="3/2", shrink_runs=0)
    assert len(runs) == 3  # the plain schedule once more, to see whether it varies by itself


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schedules": 0}, "schedules must be"),
        ({"seed": "7/x"}, "seed must be a number"),
        ({"seed": -1}, "seed must be a number"),
        ({"without": ["crush"]}, "did you mean crash"),
        ({"timeout_s": -1}, "timeout_s must be"),
        ({"faults": 0}, "faults must be"),
        ({"shrink_runs": -1}, "shrink_runs must be"),
        ({"inputs": {}}, "inputs must be"),
        ({"outputs": {}}, "outputs must be"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(
    exploring: Callable[..., Any], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        exploring(lambda schedule: [1], **arguments)


@pytest.mark.parametrize(
    ("gives", "before", "more", "why"),
    [
        (lambda schedule: [], {}, {}, "the job has no output under the plain schedule"),
        (
            lambda schedule: [1],
            {"out": []},
            {"invariant": lambda out, given: all(out["out"])},
            "its invariant holds already before the job has started",
        ),
    ],
)
def test_a_test_that_proves_nothing_is_refused_unless_it_may(
    exploring: Callable[..., Any],
    gives: Gives,
    before: dict[str, Any],
    more: dict[str, Any],
    why: str,
) -> None:
    given = {"before": before, "schedules": 2, **more}
    with pytest.raises(ConfigError, match=f"(?s)this test proves nothing: {why}.*may_prove_not"):
        exploring(gives, **given)
    exploring(gives, may_prove_nothing=True, **given)
    exploring(lambda schedule: [], outputs={"out": lambda spark: []}, schedules=2)
    exploring(gives, **{**given, "before": {}, "invariant": lambda out, given: True})


def test_a_test_without_another_schedule_is_refused_unless_it_may(
    exploring: Callable[..., Any],
) -> None:
    single = {"inputs": {"orders": ["1"]}, "without": list(ALL_KINDS - {"batches", "order"})}
    with pytest.raises(ConfigError, match="it has no schedule but the plain one") as refused:
        exploring(lambda schedule: [1], **single)
    assert "\nbatches: fewer than two records\n" in str(refused.value)
    exploring(lambda schedule: [1], **single, may_prove_nothing=True)
    exploring(lambda schedule: [1], **single, schedules=1)


def test_more_than_one_fault_is_found_and_each_has_its_own_schedule(
    exploring: Callable[..., Any],
) -> None:
    def gives(schedule: Schedule) -> list[object]:
        orders: list[object] = [ORDERS[nth] for _, nth in sorted(schedule.arrivals)]
        kept = orders[schedule.uses(Resend) :]
        return kept * (1 + schedule.uses(Crash))

    message = refuted(exploring, gives, seed=3, faults=3, shrink_runs=200, schedules=12)
    assert message.startswith("2 faults\n\nFault 1 of 2: lost")
    first, _, second = message.partition("Fault 2 of 2: ")
    assert second.startswith("doubled")
    for text, words, others in [
        (first, "arrives again", "the driver dies"),
        (second, "the driver dies", "arrives again"),
    ]:
        assert words in text
        assert others not in text
        assert "The same fault: 3/" in text
    assert message.count("What ran:") == message.count("Which of the two") == 1

    one = refuted(exploring, gives, seed=3, shrink_runs=200, schedules=12)
    assert one.startswith("lost: ")
    assert "the driver dies" not in one


def test_a_session_of_spark_connect_is_refused_before_the_job_starts() -> None:
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(NotOnSparkConnect, match="`explore` needs a Spark driver of this process"):
        explore(cast(Any, None), session, job=cast(Any, None), inputs={}, outputs={})
