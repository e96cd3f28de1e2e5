"""`Executioner`: lets the queries of a job run to a chosen moment of their first batch.

Spark plans a batch under one lock of the query, and commits it under the same lock. The lock is
fair, so a thread that waits for it behind the query has it as soon as the query gives it back. So
two hands that take the lock in turn let the query through one section at a time, however quick it
is, and the checkpoint says which section that was.

A query is held before it has planned anything: Spark tells a listener that it starts, and waits.

Owner: the thread in `run`. A lock of the JVM belongs to the thread that took it, and each of our
threads is one there: a hand is a thread.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from embedkafka.explore.checkpoints import uncommitted_batches
from embedkafka.explore.job_failures import JobFailed
from embedkafka.explore.schedule import Moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_S: Final = 0.002
"""How often to look whether a query has come to its lock. Nothing announces it."""


class Executioner:
    """Calls `die` at the moment; returns if no query had a batch to run."""

    def __init__(self, spark: "SparkSession", moment: Moment, *, die: Callable[[], None]) -> None:
        self._spark = spark
        self._moment = moment
        self._die = die
        self._held: list[HeldQuery] = []
        self._failed: Exception | None = None

    def run(self, job: Callable[[], object]) -> None:
        """Runs the job on another thread, for it may wait for its queries.

        Raises:
            JobFailed: the job or one of its queries raised.
        """
        from pyspark.sql.streaming.listener import StreamingQueryListener

        hold = self._hold

        class Listener(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None:  # Any: untyped in PySpark
                hold(str(event.id))

            def onQueryProgress(self, event: Any) -> None: ...
            def onQueryIdle(self, event: Any) -> None: ...
            def onQueryTerminated(self, event: Any) -> None: ...

        self._spark.streams.addListener(Listener())
        running = ThreadPoolExecutor(1).submit(job)
        while not self._is_over(running):
            _pause()

    def _hold(self, query_id: str) -> None:
        try:
            query = self._spark.streams.get(query_id)
            self._held.append(HeldQuery(query, jobs=self._count_jobs))
        except Exception as error:  # Spark would only log it, and the query would run free
            self._failed = error

    def _count_jobs(self) -> int:
        context: Any = self._spark.sparkContext  # its JVM's is untyped
        return int(context._jsc.sc().dagScheduler().numTotalJobs())

    def _is_over(self, running: "Future[object]") -> bool:
        """Lets each query through one section; whether none had a batch, and none will start."""
        has_returned = running.done()
        error = self._failed or (running.exception() if has_returned else None)
        if error is not None:
            raise JobFailed(error) from error
        progress = [query.advance(self._moment, self._die) for query in list(self._held)]
        return has_returned and not any(progress)


class HeldQuery:
    """A query that goes on only section by section. Made while Spark waits for its listener."""

    def __init__(self, query: Any, *, jobs: Callable[[], int]) -> None:
        """Any: untyped in py4j."""
        execution = query._jsq.streamingQuery()
        self._query = query
        self._jobs = jobs
        self._lock = execution.awaitProgressLock()
        self._thread = execution.queryExecutionThread()
        self._checkpoint = Path(unquote(urlsplit(execution.resolvedCheckpointRoot()).path))
        self._holding, self._waiting = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._holding.submit(self._lock.lock).result()

    def advance(self, moment: Moment, die: Callable[[], None]) -> bool:
        """Lets it plan or commit; whether it had a batch to do so with.

        Raises:
            JobFailed: the query has failed.
        """
        if not self._has_come():
            return False
        undone = self._undone()
        if undone and moment is Moment.WRITTEN:
            die()
        jobs = self._jobs()
        self._let_through()
        if undone:
            if moment is Moment.COMMITTED:
                die()
            return True
        if not self._undone():
            return False
        if moment is Moment.PLANNED:
            die()
        if moment is Moment.WRITING:
            self._await_job(jobs)
            die()
        return True

    def _undone(self) -> list[int]:
        return uncommitted_batches(self._checkpoint)

    def _has_come(self) -> bool:
        """Waits until the query wants its lock; whether it does, and has not ended."""
        while not self._lock.hasQueuedThread(self._thread):
            self._require_no_failure()
            if not self._query.isActive:
                return False
            _pause()
        return True

    def _let_through(self) -> None:
        next_turn = self._waiting.submit(self._lock.lock)
        while self._lock.getQueueLength() < 2:
            _pause()
        self._holding.submit(self._lock.unlock).result()
        next_turn.result()
        self._holding, self._waiting = self._waiting, self._holding

    def _await_job(self, before: int) -> None:
        """Until the sink's write runs on Spark, or is over already."""
        while self._jobs() == before and not self._lock.hasQueuedThread(self._thread):
            self._require_no_failure()
            _pause()

    def _require_no_failure(self) -> None:
        if (error := self._query.exception()) is not None:
            raise JobFailed(error)


def _pause() -> None:
    threading.Event().wait(_LOOK_S)
