"""A job in steps, in the manner of Spark's own StreamTest: `check_stream`.

    check_stream(
        kafka, spark, job,
        [
            AddRecords(orders, {"sku": "a", "n": 1}),
            CheckTopic(totals, [{"sku": "a", "total": 1}]),
            Crash(),
            Restart(),
            CheckTopic(totals, [{"sku": "a", "total": 1}]),
        ],
    )

Owner: the caller's thread.
Invariants: the queries have ended when `check_stream` returns or raises.
Not here: what an action does; each is one call of `queries`, `assertions`, a topic or a clock.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from embedkafka.runtime.arguments import (
    require_attribute,
    require_function,
    require_list,
    require_number,
)
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.spark.assertions import ReadableTopic, assert_topic_equals, latest_by_key
from embedkafka.spark.execution import find_execution
from embedkafka.spark.frames import KafkaTopic
from embedkafka.spark.queries import crash_between_write_and_commit, drain, restart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    Job = Callable[
        [SparkSession], StreamingQuery | list[StreamingQuery] | tuple[StreamingQuery, ...]
    ]


class WritableTopic(KafkaTopic, Protocol):
    """A topic handle, as far as `AddRecords` needs it."""

    def send(
        self, value: str | bytes | None, *, key: str | None, timestamp_ms: int | None
    ) -> object:
        """Writes one record."""

    def send_json(self, value: object, *, key: str | None, timestamp_ms: int | None) -> object:
        """Writes one record with its value as JSON."""


class RunningJob:
    """The queries of a job while `check_stream` takes its steps."""

    def __init__(self, kafka: Any, spark: "SparkSession", job: "Job", timeout_s: float) -> None:
        self.kafka = kafka
        self.timeout_s = timeout_s
        self.queries: list[StreamingQuery] = []
        self.inputs: dict[str, KafkaTopic] = {}
        self._spark = spark
        self._job = job

    def start(self, job: "Job | None" = None) -> None:
        """Starts the job, or from now on another one."""
        self.stop()
        self._job = job or self._job
        started = self._job(self._spark)
        self.queries = list(started) if isinstance(started, list | tuple) else [started]

    def drain(self) -> None:
        """Waits until the queries that run have processed their topics."""
        running = [query for query in self.queries if query.isActive or query.exception()]
        topics = list(self.inputs.values())
        for query in running:
            is_remote = find_execution(query) is None  # and does not tell its topics
            drain(query, topics=topics if is_remote else None, timeout_s=self.timeout_s)

    def stop(self) -> None:
        """Ends the queries."""
        for query in self.queries:
            query.stop()


class Action(Protocol):
    """A step."""

    def run(self, job: RunningJob) -> None:
        """Takes it; raises what it finds wrong."""


class AddRecords:
    """Sends records. Text and bytes are sent as they are, None as a tombstone, others as JSON.

    Args:
        topic: the topic's handle.
        *values: a value for each record.
        key: the field of the values that becomes the record's key, or a key for all.
        timestamp_ms: the time of all these records.
    """

    def __init__(
        self,
        topic: WritableTopic,
        *values: object,
        key: str | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        require_attribute("topic", topic, "send_json", "a topic's handle")
        self._topic, self._values = topic, values
        self._key, self._timestamp_ms = key, timestamp_ms

    def run(self, job: RunningJob) -> None:
        job.inputs[self._topic.name] = self._topic
        for value in self._values:
            key = self._key_of(value)
            if value is None or isinstance(value, str | bytes):
                self._topic.send(value, key=key, timestamp_ms=self._timestamp_ms)
            else:
                self._topic.send_json(value, key=key, timestamp_ms=self._timestamp_ms)

    def _key_of(self, value: object) -> str | None:
        if isinstance(value, Mapping) and self._key in value:
            return str(value[self._key])
        return self._key

    def __repr__(self) -> str:
        return f"AddRecords({self._topic.name}, {', '.join(map(repr, self._values))})"


class CheckTopic:
    """Drains the queries, and compares a topic with these rows.

    Args:
        topic: the topic's handle.
        rows: all of its rows.
        **compared: further arguments of `assert_topic_equals`: `schema`, `ignore_order`, `by_key`.
    """

    def __init__(self, topic: ReadableTopic, rows: Iterable[Any], **compared: Any) -> None:
        require_attribute("topic", topic, "read", "a topic's handle")
        self._topic, self._rows, self._compared = topic, rows, compared

    def run(self, job: RunningJob) -> None:
        job.drain()
        assert_topic_equals(self._topic, self._rows, **self._compared)

    def __repr__(self) -> str:
        return f"CheckTopic({self._topic.name}, {self._rows!r})"


class CheckLatest:
    """Drains the queries, and compares the last value of each key with these.

    Args:
        topic: the topic's handle.
        latest: the values by key, as `latest_by_key` gives them.
        schema: parses the values with Spark, into dictionaries.
    """

    def __init__(
        self,
        topic: ReadableTopic,
        latest: Mapping[Any, Any],
        *,
        schema: "str | StructType | None" = None,
    ) -> None:
        require_attribute("topic", topic, "read", "a topic's handle")
        self._topic, self._latest, self._schema = topic, dict(latest), schema

    def run(self, job: RunningJob) -> None:
        job.drain()
        found = latest_by_key(self._topic, self._schema)
        if found != self._latest:
            raise AssertionError(
                f"topic {self._topic.name} differs: its latest values are {found!r}, not "
                f"{self._latest!r}"
            )

    def __repr__(self) -> str:
        return f"CheckLatest({self._topic.name}, {self._latest!r})"


class CrashQueries:
    """Ends the queries as if the driver had died between a sink's write and its commit."""

    def run(self, job: RunningJob) -> None:
        for query in job.queries:
            crash_between_write_and_commit(query, timeout_s=job.timeout_s)

    def __repr__(self) -> str:
        return "Crash()"


class RestartQueries:
    """Stops the queries if they run, and starts them from their checkpoints.

    Args:
        job: other code that goes on from the same checkpoints: a new release of the job.
    """

    def __init__(self, job: "Job | None" = None) -> None:
        self._job = job

    def run(self, job: RunningJob) -> None:
        if self._job is None:
            job.queries = [restart(query) for query in job.queries]
        else:
            job.start(self._job)

    def __repr__(self) -> str:
        return "Restart()" if self._job is None else "Restart(another job)"


#: As users write them. Schedules of `explore` have classes of these names.
Crash = CrashQueries
Restart = RestartQueries


class AdvanceClock:
    """Moves the clock of the brokers forward, as `kafka.clock.advance` does.

    Args:
        ms: milliseconds.
        **spans: seconds, minutes, hours, days.
    """

    def __init__(self, ms: float = 0, **spans: float) -> None:
        self._ms, self._spans = ms, spans

    def run(self, job: RunningJob) -> None:
        job.kafka.clock.advance(self._ms, **self._spans)

    def __repr__(self) -> str:
        given = [str(self._ms)] if self._ms else []
        return f"AdvanceClock({', '.join([*given, *(f'{k}={v}' for k, v in self._spans.items())])})"


def check_stream(
    kafka: object,
    spark: "SparkSession",
    job: "Job",
    actions: Sequence[Action],
    *,
    timeout_s: float = 60.0,
) -> None:
    """Starts a job, takes the steps in their order, and ends the job.

    Args:
        kafka: the cluster, whose clock `AdvanceClock` moves.
        spark: the session.
        job: starts the job and returns its query, or its queries from the first to the last. It
            needs a checkpoint for `Crash` and `Restart`.
        actions: the steps: `AddRecords`, `CheckTopic`, `CheckLatest`, `Crash`, `Restart`,
            `AdvanceClock`.
        timeout_s: how long each wait may take, in seconds of real time.

    Raises:
        AssertionError: a topic has other rows than a step says. A note has all steps, with an arrow
            before the one that failed; so has every error of a step.
        InvalidArgument: one of the actions is not a step.
    """
    require_function("job", job, "a session")
    require_number("timeout_s", timeout_s)
    require_list("actions", actions, "[AddRecords(orders, 'a')]")
    steps = list(actions)
    for step in steps:
        if not callable(getattr(step, "run", None)) or isinstance(step, type):
            raise InvalidArgument(f"an action is an object such as Restart(), got {step!r}")
    running = RunningJob(kafka, spark, job, timeout_s)
    try:
        running.start()
        for at, step in enumerate(steps):
            try:
                step.run(running)
            except BaseException as error:
                error.add_note(_describe(steps, at))
                raise
    finally:
        with suppress(Exception):  # of a session that is gone: the step's error counts
            running.stop()


def _describe(steps: Sequence[Action], failed: int) -> str:
    lines = (f"{'=>' if at == failed else '  '} {step!r}" for at, step in enumerate(steps))
    return "\n".join(["the steps of check_stream:", *lines])
