"""A held query goes on section by section, and dies where it should. Spark is a stand-in here."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedkafka.explore.executioner import HeldQuery
from embedkafka.explore.job_failures import JobFailed
from embedkafka.explore.schedule import Moment


class FairLock:
    """Java's ReentrantLock as far as a query needs it: who waits first has it first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: list[threading.Thread] = []
        self._owner: threading.Thread | None = None

    def lock(self) -> None:
        me = threading.current_thread()
        with self._changed:
            self._queue.append(me)
            self._changed.wait_for(lambda: self._owner is None and self._queue[0] is me)
            self._owner = self._queue.pop(0)

    def unlock(self) -> None:
        with self._changed:
            assert self._owner is threading.current_thread(), "another thread holds it"
            self._owner = None
            self._changed.notify_all()

    def hasQueuedThread(self, thread: threading.Thread) -> bool:
        return thread in self._queue

    def getQueueLength(self) -> int:
        return len(self._queue)


class FakeQuery:
    """A query of one batch: it plans, writes and commits, each in Spark's place, on its thread."""

    def __init__(self, checkpoint: Path, write: Callable[[], None]) -> None:
        self._checkpoint = checkpoint
        self._write = write
        self._lock = FairLock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: Exception | None = None
        self._jsq = self
        self.jobs = 0
        for log in ("offsets", "commits"):
            (checkpoint / log).mkdir(parents=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def isActive(self) -> bool:
        return self._thread.is_alive()

    def exception(self) -> Exception | None:
        return self._error

    def streamingQuery(self) -> "FakeQuery":
        return self

    def awaitProgressLock(self) -> FairLock:
        return self._lock

    def queryExecutionThread(self) -> threading.Thread:
        return self._thread

    def resolvedCheckpointRoot(self) -> str:
        return f"file:{self._checkpoint}"

    def _run(self) -> None:
        try:
            self._log("offsets")
            self.jobs += 1
            self._write()
            self._log("commits")
        except Exception as error:
            self._error = error

    def _log(self, name: str) -> None:
        self._lock.lock()
        (self._checkpoint / name / "0").touch()
        self._lock.unlock()


class Died(Exception):
    pass


def die() -> None:
    raise Died


@pytest.fixture
def held(tmp_path: Path) -> Callable[..., Any]:
    """Makes a query that is held before its first section, as Spark's listener lets us."""

    def make(write: Callable[[], None]) -> tuple[FakeQuery, HeldQuery]:
        query = FakeQuery(tmp_path / "a query", write)
        holder = HeldQuery(query, jobs=lambda: query.jobs)
        query.start()
        return query, holder

    return make


@pytest.mark.parametrize(
    ("moment", "is_written", "is_committed"),
    [
        (Moment.PLANNED, False, False),
        (Moment.WRITTEN, True, False),
        (Moment.COMMITTED, True, True),
    ],
)
def test_it_dies_at_the_moment(
    held: Any, tmp_path: Path, moment: Moment, is_written: bool, is_committed: bool
) -> None:
    written, may_write = threading.Event(), threading.Event()
    if is_written:
        may_write.set()

    def write() -> None:
        may_write.wait(60)
        written.set()

    _, holder = held(write)
    with pytest.raises(Died):
        while True:
            holder.advance(moment, die)

    checkpoint = tmp_path / "a query"
    assert (checkpoint / "offsets" / "0").exists()
    assert written.is_set() == is_written
    assert (checkpoint / "commits" / "0").exists() == is_committed
    may_write.set()


def test_it_dies_in_the_write_while_it_runs(held: Any, tmp_path: Path) -> None:
    goes_on = threading.Event()
    query, holder = held(lambda: goes_on.wait(60) and None)
    with pytest.raises(Died):
        holder.advance(Moment.WRITING, die)
    assert query.jobs == 1
    assert not (tmp_path / "a query" / "commits" / "0").exists()
    goes_on.set()


def test_a_query_that_fails_says_so(held: Any) -> None:
    def refuse() -> None:
        raise ValueError("no sink")

    _, holder = held(refuse)
    with pytest.raises(JobFailed, match="no sink"):
        while True:
            holder.advance(Moment.COMMITTED, die)


def test_a_query_that_has_ended_has_no_batch(held: Any) -> None:
    _, holder = held(lambda: None)
    outcomes = [holder.advance(Moment.WRITING, lambda: None) for _ in range(2)]
    assert outcomes == [True, True]
    assert holder.advance(Moment.WRITING, die) is False
