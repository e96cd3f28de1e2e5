"""`explore`: runs a job under many schedules, and refutes it or does not.

Owner: the caller's thread.
Not here: the search through the schedules (`search`), what is wrong with a result (`judge`), how
one schedule runs (`runner`).
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from embedkafka.cluster.embedded import EmbeddedKafka
from embedkafka.explore.driver import ImmediateJob, Job
from embedkafka.explore.driver_process import PackedJob
from embedkafka.explore.explored import Explored
from embedkafka.explore.inputs import read_inputs
from embedkafka.explore.judge import Invariant, Judge
from embedkafka.explore.outputs import Output, require_outputs
from embedkafka.explore.progress import Progress
from embedkafka.explore.runner import Runner
from embedkafka.explore.search import Search
from embedkafka.explore.seeds import MOST_SCHEDULES, choose_seeds
from embedkafka.explore.terms import StepKind, terms_of
from embedkafka.runtime.arguments import (
    require_int,
    require_known,
    require_list,
    require_number,
)
from embedkafka.runtime.failures import ConfigError
from embedkafka.spark.execution import require_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger(__name__)


def explore(
    kafka: EmbeddedKafka,
    spark: "SparkSession",
    *,
    job: Job,
    inputs: Mapping[str, object],
    outputs: Mapping[str, Output | Callable[..., object]],
    invariant: Invariant | None = None,
    schedules: int = 20,
    faults: int = 1,
    seed: int | str | None = None,
    without: Collection[str] = (),
    kill_jvm: bool = False,
    rebuild: bool = False,
    expire: bool = False,
    immediate_triggers: bool = False,
    may_prove_nothing: bool = False,
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
        faults: how many faults to look for: with more than one, schedules go on after the first.
            The message has the shortest schedule of each. A schedule that a fault explains which
            was found before counts for that one.
        seed: what a `Refuted` has printed, to repeat it: "7" for all schedules of that seed, "7/3"
            for the plain one and number 3. By default it is random; pytest's plugin repeats what
            refuted the test before, and where `CI` is set derives it from the test's id. pytest's
            option `--explore-seed` overrides it.
        without: kinds of steps to leave out: "batches", "crash", "inside", "write", "task",
            "unsent", "resend", "order", "late", "restart", "limit", "reply", "grow", "move",
            "kill".
        kill_jvm: adds a kind of step, "jvm": the job runs in a separate process and JVM, which are
            killed before, in, or after the write of a batch, or after its commit, in turn; it goes
            on in `spark`. It takes a session's start each time, and a job that can be pickled and
            keeps its results outside the process.
        rebuild: adds a kind of step, "rebuild": the job starts over from the first records, with
            new checkpoints and batch numbers from 0, on the outputs that are there.
        expire: adds a kind of step, "expire": records expire that arrive while the job is down. It
            may fail then, saying so, and must not go on without them.
        immediate_triggers: lets `trigger(processingTime=...)` of the job fire as soon as there is
            data, whatever its interval; a refutation names the intervals.
        may_prove_nothing: allows a test that no job could fail: without output under the plain
            schedule, without another schedule, or with an invariant that holds before the job has
            started.
        reset: is called before each schedule, to empty what the outputs read.
        timeout_s: how long a query may take for what is there, in seconds of real time.
        shrink_runs: how many runs the search for a shorter schedule and fewer records may take.

    Returns:
        What ran: the seed, how many different schedules, and of which kinds.

    Raises:
        Refuted: the job failed, stalled or gave a wrong result; the message has the schedule in
            words, the difference, and how to repeat it.
        ConfigError: an argument cannot be used, the seed has no schedule of that number, or the
            test proves nothing.
        AwaitTimeout: a query did not process its input in time under the plain schedule.
    """
    require_int("schedules", schedules, least=1, most=MOST_SCHEDULES, refusal=ConfigError)
    require_int("faults", faults, least=1, refusal=ConfigError)
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
        judge = Judge(runner, feeds, readers, invariant, job)
        progress = Progress()
        first = judge.require_plain(chosen, may_prove_nothing=may_prove_nothing)
        terms = terms_of(
            feeds,
            readers,
            left_out,
            has_checkpoint=first.has_checkpoint,
            has_watermark=first.has_watermark,
            brokers=len(kafka.brokers) if isinstance(kafka, EmbeddedKafka) else 0,
            kill_jvm=kill_jvm,
            rebuild=rebuild,
            expire=expire,
            passed=first.passed,
        )
        explored = Search(
            judge,
            terms,
            chosen,
            progress,
            remarks=first.remarks,
            faults=faults,
            shrink_runs=shrink_runs,
            may_prove_nothing=may_prove_nothing,
        ).run(schedules)
        _LOG.info("explored %s", explored.table())
    return explored


def _require_kind(name: object) -> StepKind:
    known = {kind.value: kind for kind in StepKind}
    return known[require_known("kind of step", name, known, refusal=ConfigError)]
