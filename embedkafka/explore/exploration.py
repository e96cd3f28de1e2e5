"""`explore`: runs a job under many schedules, and refutes it or does not.

Owner: the caller's thread.
Not here: how one schedule runs (`runner`), how outputs are compared (`verdict`).
"""

import logging
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from embedkafka.cluster.embedded import EmbeddedKafka
from embedkafka.explore.driver import ImmediateJob, Job
from embedkafka.explore.driver_process import PackedJob
from embedkafka.explore.explored import Explored, ScheduleCounts
from embedkafka.explore.generation import draw_schedules
from embedkafka.explore.inputs import Feed, given_records, read_inputs
from embedkafka.explore.job_failures import JobFailed
from embedkafka.explore.outputs import Output, require_outputs
from embedkafka.explore.runner import Ran, Runner
from embedkafka.explore.schedule import Arrival, Schedule, plain
from embedkafka.explore.seeds import MOST_SCHEDULES, Seed, choose_seeds
from embedkafka.explore.shrink import Shrunk, shrink
from embedkafka.explore.steady_keys import steady_keys
from embedkafka.explore.terms import StepKind, Terms, terms_of
from embedkafka.explore.verdict import canonical, differences, summary
from embedkafka.runtime.arguments import (
    require_int,
    require_known,
    require_list,
    require_number,
)
from embedkafka.runtime.failures import AwaitTimeout, ConfigError
from embedkafka.runtime.values import dataclass, field
from embedkafka.spark.execution import require_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Invariant = Callable[[Mapping[str, Any], Mapping[str, list[Any]]], object]
"""A function of the outputs and of the inputs, each by name. Any: records and rows have no type."""

_LOG = logging.getLogger(__name__)

_SHOWN: Final = 1000
_SHOWN_RECORDS: Final = 10


class Refuted(AssertionError):
    """A job that gives a wrong result, under the schedule in the message."""

    __module__ = "embedkafka.explore"  # where users import it from

    def __init__(self, message: str, *, seed: str | None = None) -> None:
        super().__init__(message)
        self.seed = seed
        """Repeats it."""


def explore(
    kafka: EmbeddedKafka,
    spark: "SparkSession",
    *,
    job: Job,
    inputs: Mapping[str, object],
    outputs: Mapping[str, Output | Callable[..., object]],
    invariant: Invariant | None = None,
    schedules: int = 20,
    seed: int | str | None = None,
    without: Collection[str] = (),
    kill_jvm: bool = False,
    immediate_triggers: bool = False,
    reset: Callable[[], object] | None = None,
    timeout_s: float = 60.0,
    shrink_runs: int = 30,
) -> Explored:
    """Runs a streaming job under many schedules, and raises `Refuted` if its result depends on one.

        explore(
            kafka, spark, job=revenue_job,
            inputs={"orders": Input(orders, key="sku"), "prices": Input(prices, key="sku")},
            outputs={"revenue": latest_by_key()},
            invariant=lambda out, given: out["revenue"] == expected(given),
        )

    The first schedule is plain: all records arrive, then the job takes them in one batch. The
    others cut batches elsewhere, mix the inputs, restart the job, crash it between a sink's write
    and the commit, and more. All send every record, and keep the order of each key but for records
    that `Input(lateness_s=...)` lets come late. A schedule that refutes the job is made as short as
    possible, and then left with as few records as possible.

    Args:
        kafka: the cluster. Every schedule has its own topics, which are deleted after it.
        spark: the session that all schedules share.
        job: a function of the session and `Options` that starts the job's queries and returns one
            or a list of them. It may also run them to their end, and return None.
        inputs: by topic, a list of records, a `Path` of JSON lines, a hypothesis strategy for a
            list, or an `Input`, which says more.
        outputs: by name, `latest_by_key()`, `all_records()`, `table(...)`, `files(...)`, or a
            function of the session, or of the session and `Options`, that returns rows.
        invariant: a function of the outputs and the inputs, each by name, that returns whether the
            result is right, or asserts it. Without it, every schedule must give what the plain one
            gave.
        schedules: how many different schedules to run, the plain one among them; fewer run if no
            others are found.
        seed: what a `Refuted` has printed, to repeat it: "7" for all schedules of that seed, "7/3"
            for the plain one and number 3. By default it is random; pytest's plugin repeats what
            refuted the test before, and where `CI` is set derives it from the test's id. pytest's
            option `--explore-seed` overrides it.
        without: kinds of steps to leave out: "batches", "crash", "order", "late", "restart",
            "limit", "resend", "reply", "grow", "move", "kill".
        kill_jvm: adds a kind of step, "jvm": the job runs in a separate process and JVM, which are
            killed before, in, or after the write of a batch, or after its commit, in turn; it goes
            on in `spark`. It takes a session's start each time, and a job that can be pickled and
            keeps its results outside the process.
        immediate_triggers: lets `trigger(processingTime=...)` of the job fire as soon as there is
            data, whatever its interval; a refutation names the intervals.
        reset: is called before each schedule, to empty what the outputs read.
        timeout_s: how long a query may take for what is there, in seconds of real time.
        shrink_runs: how many runs the search for a shorter schedule and fewer records may take.

    Returns:
        What ran: the seed, how many different schedules, and of which kinds.

    Raises:
        Refuted: the job failed, stalled or gave a wrong result; the message has the schedule in
            words, the difference, and how to repeat it.
        ConfigError: an argument cannot be used, or the seed has no schedule of that number.
        AwaitTimeout: a query did not process its input in time under the plain schedule.
    """
    require_int("schedules", schedules, least=1, most=MOST_SCHEDULES, refusal=ConfigError)
    require_int("shrink_runs", shrink_runs, least=0, refusal=ConfigError)
    require_number("timeout_s", timeout_s, refusal=ConfigError)
    require_driver(spark, "explore")
    left_out = {
        _require_kind(name)
        for name in require_list("without", without, '["kill"]', refusal=ConfigError)
    }
    seeds = choose_seeds(seed)
    readers = require_outputs(outputs)
    if immediate_triggers:
        job = ImmediateJob(job)
    if kill_jvm:
        PackedJob(spark, job)  # says now what is wrong with it
    for chosen in seeds:
        feeds = read_inputs(inputs, seed=chosen.base)
        runner = Runner(
            kafka,
            spark,
            job=job,
            feeds=feeds,
            outputs=readers,
            reset=reset,
            timeout_s=timeout_s,
        )
        judge = _Judge(runner, feeds, readers, invariant, job)
        first = judge.require_plain(chosen)
        terms = terms_of(
            feeds,
            readers,
            left_out,
            has_checkpoint=first.has_checkpoint,
            has_watermark=first.has_watermark,
            brokers=len(kafka.brokers) if isinstance(kafka, EmbeddedKafka) else 0,
            kill_jvm=kill_jvm,
        )
        explored = _run_schedules(
            judge, terms, chosen, schedules=schedules, shrink_runs=shrink_runs
        )
        _LOG.info("explored %s", explored)
    return explored


def _run_schedules(
    judge: "_Judge", terms: Terms, seed: Seed, *, schedules: int, shrink_runs: int
) -> Explored:
    """Runs the schedules of a seed, or the one that it names."""
    numbers = seed.numbers(schedules)
    drawn = islice(draw_schedules(seed.base, terms), numbers.start - 1, numbers.stop - 1)
    counts = ScheduleCounts(terms, str(seed.base))
    for number, schedule in zip(numbers, drawn, strict=False):
        counts.add(schedule)
        if (problem := judge.find_problem(schedule)) is not None:
            ran = counts.explored(judge.crashes_with_data)
            repeat = f"{seed.base}/{number}"
            raise _refuted(judge, schedule, problem, ran, repeat, shrink_runs=shrink_runs)
    is_exhausted = counts.schedules <= len(numbers)
    if is_exhausted and seed.number is not None and not seed.is_repeated:
        raise ConfigError(
            f"seed {seed.base} has no schedule {seed.number}: these inputs and kinds of steps have "
            "fewer; did they change since it was printed?"
        )
    return counts.explored(judge.crashes_with_data, is_exhausted=is_exhausted)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """Why a run refutes the job."""

    headline: str
    text: str
    notes: Mapping[int, str] = field(default_factory=dict)
    is_failure: bool = False
    is_slow: bool = False
    """Whether each attempt to shorten the schedule would wait as long."""


class _Judge:
    """Runs schedules and says what is wrong with their results."""

    def __init__(
        self,
        runner: Runner,
        feeds: Mapping[str, Feed],
        outputs: Mapping[str, Output],
        invariant: Invariant | None,
        job: Job,
    ) -> None:
        self.plain = plain({name: len(feed.records) for name, feed in feeds.items()})
        self._runner = runner
        self._feeds = feeds
        self._outputs = outputs
        self._invariant = invariant
        self._job = job
        self._references: dict[frozenset[Arrival], Ran | None] = {}
        self.crashes_with_data = 0

    def require_plain(self, seed: Seed) -> Ran:
        """Runs the plain schedule; raises `Refuted` if it is wrong already."""
        try:
            ran = self._runner.run(self.plain)
        except JobFailed as failure:
            raise Refuted(
                "the job fails under the plain schedule already, so the schedule is not to "
                f"blame:\n\n{_indented(str(failure))}{self.triggers()}",
                seed=f"{seed.base}/0",
            ) from None
        is_right, said = self._holds(self.plain, ran)
        if not is_right:
            raise Refuted(
                "the invariant does not hold under the plain schedule, so the schedule is not to "
                "blame: all records arrive, and the job takes them in one batch.\n\n"
                + _indented("\n".join([*([said] if said else []), *_shown(ran)]))
                + self.triggers(),
                seed=f"{seed.base}/0",
            )
        self._references[frozenset(self.plain.arrivals)] = ran
        return ran

    def find_problem(self, schedule: Schedule) -> _Problem | None:
        """What is wrong under a schedule; None if nothing is.

        If the plain schedule of fewer records also fails, they prove nothing.
        """
        reference = self._find_reference(schedule)
        if reference is None:
            return None
        try:
            ran = self._runner.run(schedule)
        except JobFailed as failure:
            return _Problem(headline="the job fails", text=str(failure), is_failure=True)
        except AwaitTimeout as stalled:
            return _Problem(headline="the job stalls", text=str(stalled), is_slow=True)
        self.crashes_with_data += ran.crashes_with_data
        is_steady = steady_keys(schedule.arrivals, self._feeds)
        found = [
            difference
            for name, output in self._outputs.items()
            for difference in differences(
                name,
                reference.items[name],
                ran.items[name],
                ordered=is_steady if output.ordered else _has_no_order,
            )
        ]
        is_right, said = (not found, "") if self._invariant is None else self._holds(schedule, ran)
        if is_right:
            return None
        kinds = ", ".join(dict.fromkeys(difference.refutation.value for difference in found))
        texts = [text for text in (said, summary(found) if found else "") if text]
        if found and self._invariant is None:
            texts.append("Which of the two is right, only an invariant can say.")
        if not found:
            texts += ["the outputs are those of the plain schedule:", *_shown(ran)]
        return _Problem(
            headline=kinds or "the invariant does not hold",
            text="\n".join(texts),
            notes=ran.notes,
        )

    def triggers(self) -> str:
        """The intervals that the job's triggers did not wait for, if there are any."""
        said = self._job.describe() if isinstance(self._job, ImmediateJob) else ""
        return f"\n\n{said}" if said else ""

    def left(self, schedule: Schedule) -> str:
        """The records of a schedule, if they are few and not all."""
        if not len(schedule.arrivals) < min(len(self.plain.arrivals), _SHOWN_RECORDS + 1):
            return ""
        lines = [
            f"{each.source} {each.nth + 1}: {self._feeds[each.source].show(each.nth)}"
            for each in schedule.arrivals
        ]
        return f"The records that are left:\n{_indented(chr(10).join(lines))}\n\n"

    def _find_reference(self, schedule: Schedule) -> Ran | None:
        """What the plain schedule of the same records gave; None if that was wrong already."""
        records = frozenset(schedule.arrivals)
        if records not in self._references:
            same = self.plain.keeping(records)
            try:
                ran = self._runner.run(same)
                self._references[records] = ran if self._holds(same, ran)[0] else None
            except (JobFailed, AwaitTimeout):
                self._references[records] = None
        return self._references[records]

    def _holds(self, schedule: Schedule, ran: Ran) -> tuple[bool, str]:
        """Whether the invariant holds, and what it says if it asserts."""
        if self._invariant is None:
            return True, ""
        try:
            result = self._invariant(ran.found, given_records(self._feeds, schedule.arrivals))
        except AssertionError as error:
            return False, str(error)
        return result is None or bool(result), ""


def _refuted(
    judge: _Judge,
    schedule: Schedule,
    problem: _Problem,
    ran: Explored,
    repeat: str,
    *,
    shrink_runs: int,
) -> Refuted:
    problems = {schedule: problem}

    def fails(candidate: Schedule) -> bool:
        try:
            found = judge.find_problem(candidate)
        except Exception:  # an invariant that was written for all records, not for fewer
            return False
        if found is None or found.is_failure != problem.is_failure:
            return False
        problems[candidate] = found
        return True

    most_runs = 0 if problem.is_slow else shrink_runs
    shrunk = shrink(schedule, judge.plain, fails, most_runs=most_runs)
    flaky = ""
    if shrunk.schedule == schedule and shrunk.runs and not fails(schedule):
        flaky = "\nIt did not happen again in a second run of the same schedule: it is a race.\n"
    what_ran = f"What ran:\n{_indented(chr(10).join(ran.lines()))}\n{flaky}"
    message = _message(schedule, shrunk, problems[shrunk.schedule], judge, repeat, what_ran)
    return Refuted(message, seed=repeat)


def _message(
    original: Schedule, shrunk: Shrunk, problem: _Problem, judge: _Judge, repeat: str, ran: str
) -> str:
    shortest = shrunk.schedule
    steps = [
        f"{index + 1}. {step}" + (f" [{problem.notes[index]}]" if index in problem.notes else "")
        for index, step in enumerate(shortest.steps())
    ]
    shorter = (
        f" (found with {len(original.steps())} steps{_records(original, shortest)}, shortened in "
        f"{shrunk.runs} runs)"
        if shortest != original
        else ""
    )
    return (
        f"{problem.headline}: the result of the job depends on the schedule\n\n"
        f"The schedule{shorter}:\n{_indented(chr(10).join(steps))}\n\n{judge.left(shortest)}"
        f"The difference:\n{_indented(problem.text)}\n\n{ran}\n"
        f"To repeat it: pytest --explore-seed={repeat}, or explore(..., seed={repeat!r})"
        f"{judge.triggers()}"
    )


def _records(original: Schedule, shortest: Schedule) -> str:
    """How many records there were, if they are fewer now."""
    count = len(original.arrivals)
    return f" and {count} records" if len(shortest.arrivals) < count else ""


def _require_kind(name: object) -> StepKind:
    known = {kind.value: kind for kind in StepKind}
    return known[require_known("kind of step", name, known, refusal=ConfigError)]


def _has_no_order(key: str) -> bool:
    return False


def _shown(ran: Ran) -> list[str]:
    return [f"{name}: {canonical(found)[:_SHOWN]}" for name, found in ran.found.items()]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
