"""`Driver`: the queries of a job, which run only when a schedule lets them.

Between two batches a query is held, so that a batch takes exactly what the schedule has sent and
no part of what it is sending. Spark plans each batch under one lock of the query; holding it holds
the query. A query that has ended by itself, with `availableNow`, is started again for the next
batch.

Owner: the thread that explores. A lock of the JVM belongs to the thread that took it, and each of
our threads is one there.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from embedkafka.explore.batch_functions import BatchFunctions
from embedkafka.explore.job_failures import JobFailed
from embedkafka.explore.options import Options
from embedkafka.runtime.failures import AwaitTimeout, ConfigError, EmbedKafkaError
from embedkafka.spark.execution import NO_DATA_BATCHES, find_execution
from embedkafka.spark.queries import drain
from embedkafka.spark.scripts.inside import ScriptFailed
from embedkafka.spark.scripts.running import RunningScript
from embedkafka.spark.triggers import describe_replaced, immediate_triggers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Job = Callable[["SparkSession", Options], Any]
"""Starts the queries and returns one or a list of them, or has run them to their end."""


class ImmediateJob:
    """A job whose triggers fire at once, in this process and in the one of a `DriverProcess`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._replaced: dict[str, None] = {}

    def __call__(self, spark: "SparkSession", options: Options) -> Any:
        """Any: what a job returns."""
        with immediate_triggers() as replaced:
            try:
                return self._job(spark, options)
            finally:
                self._replaced.update(dict.fromkeys(replaced))

    def describe(self) -> str:
        """Which intervals its triggers did not wait for."""
        return describe_replaced(list(self._replaced))


class Driver:
    """Starts the job when a batch is due, lets its queries take what is there, and stops them."""

    def __init__(self, spark: "SparkSession", job: Job, *, timeout_s: float) -> None:
        self.functions = BatchFunctions()
        self._spark = spark
        self._job = job
        self._timeout_s = timeout_s
        self._queries: list[Any] = []  # Any: their locks are untyped in py4j
        self._held: dict[int, Any] = {}  # the lock of each held query, by its place in `_queries`
        self._script: RunningScript | None = None

    def take_without_closing(self, options: Options) -> None:
        """The same, but no query runs the batch without records that a moved watermark calls for.

        Queries of a session read this setting when they start, so they stop before.
        """
        self.stop()
        conf = self._spark.conf
        before = conf.get(NO_DATA_BATCHES)
        conf.set(NO_DATA_BATCHES, "false")
        try:
            self.take(options)
        finally:
            conf.set(NO_DATA_BATCHES, str(before))

    def take(self, options: Options) -> None:
        """Lets the queries process everything that is there; starts them if they do not run.

        One query after the other, while the others are held, so that each takes in one piece what
        the one before has written; as often as there are queries, in case the job lists them the
        other way round.

        Raises:
            JobFailed: the job or one of its queries raised.
            AwaitTimeout: a query did not get there in time.
        """
        if not self._queries:
            self._start(options)
        for _ in self._queries:
            for place, query in enumerate(self._queries):
                self._release(place)
                self._drain(query)
                self._hold(place, query)
        if len(self._held) < len(self._queries):
            self.stop()

    def sources(self) -> list[dict[str, str]]:
        """The options of the queries' Kafka sources, with their names in lower case."""
        return [
            source
            for query in self._queries
            if (execution := find_execution(query)) is not None
            for source in execution.kafka_sources()
        ]

    def stop(self) -> None:
        """Stops the queries; the next batch starts the job again."""
        for place in list(self._held):
            self._release(place)
        queries, self._queries = self._queries, []
        for query in queries:
            query.stop()
        script, self._script = self._script, None
        if script is not None:
            with _failing():
                script.stop()

    def _start(self, options: Options) -> None:
        before = {query.id for query in self._spark.streams.active}
        try:
            with _failing(), self.functions.wrapped():
                started = self._job(self._spark, options)
                self._script = started if isinstance(started, RunningScript) else None
                self._queries = _listed(started)
        finally:
            self._adopt(before)

    def _adopt(self, before: set[str]) -> None:
        """Takes over queries that the job has started and not returned."""
        known = before | {query.id for query in self._queries}
        self._queries += [each for each in self._spark.streams.active if each.id not in known]

    def _drain(self, query: Any) -> None:
        try:
            drain(query, timeout_s=self._timeout_s)
        except AwaitTimeout as error:
            raise AwaitTimeout(
                f"{error}. Does the job pass `options.trigger` to its writers? If it sets another: "
                "explore(..., immediate_triggers=True)"
            ) from None
        except EmbedKafkaError:
            raise
        except Exception as error:
            raise JobFailed(error) from error

    def _hold(self, place: int, query: Any) -> None:
        """Keeps a query that runs from planning its next batch."""
        if query.isActive:
            lock = query._jsq.streamingQuery().awaitProgressLock()
            lock.lock()
            self._held[place] = lock

    def _release(self, place: int) -> None:
        if place in self._held:
            self._held.pop(place).unlock()


@contextmanager
def _failing() -> Iterator[None]:
    """Turns what the job raises into `JobFailed`."""
    try:
        yield
    except ScriptFailed as error:
        raise JobFailed(error) from error
    except EmbedKafkaError:  # a mistake in the test, not in the job
        raise
    except Exception as error:
        raise JobFailed(error) from error


def _listed(started: Any) -> list[Any]:
    if started is None:
        return []
    queries = list(started) if isinstance(started, Iterable) else [started]
    for query in queries:
        if not hasattr(query, "awaitTermination"):
            raise ConfigError(
                f"job must return its StreamingQuery or a list of them, and returned {query!r}"
            )
    return queries
