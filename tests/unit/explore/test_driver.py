"""Queries run only when a batch is due, and one after the other."""

import pickle
from typing import Any, cast

import pytest
from pyspark import cloudpickle
from pyspark.sql.streaming import readwriter

from embedkafka.explore import driver as module
from embedkafka.explore.driver import Driver, ImmediateJob
from embedkafka.explore.job_failures import JobFailed
from embedkafka.explore.options import Options
from embedkafka.runtime.failures import AwaitTimeout, ConfigError
from embedkafka.spark.execution import NO_DATA_BATCHES

OPTIONS = Options(bootstrap_servers="localhost:9092", directory="/data")


class FakeQuery:
    """A query as PySpark shows it, down to the lock of its JVM; a name is its id."""

    def __init__(self, name: str) -> None:
        self.id = name
        self.isActive = True
        self.is_held = False
        self._jsq = self

    def streamingQuery(self) -> "FakeQuery":
        return self

    def awaitProgressLock(self) -> "FakeQuery":
        return self

    def lock(self) -> None:
        assert not self.is_held
        self.is_held = True

    def unlock(self) -> None:
        assert self.is_held
        self.is_held = False

    def awaitTermination(self) -> None: ...

    def stop(self) -> None:
        assert not self.is_held, "the query's thread would never end"
        self.isActive = False


class FakeConf(dict[str, str]):
    """The settings of a session."""

    def set(self, name: str, value: str) -> None:
        self[name] = value


class FakeSession:
    """A session whose job starts these queries, and returns some of them."""

    def __init__(self, *queries: FakeQuery, returned: Any = ...) -> None:
        self.streams = self
        self.active: list[FakeQuery] = []
        self.starts = 0
        self.conf = FakeConf({NO_DATA_BATCHES: "true"})
        self.started_with: list[str] = []
        self._queries = queries
        self._returned = list(queries) if returned is ... else returned

    def job(self, spark: object, options: Options) -> Any:
        self.starts += 1
        self.started_with.append(self.conf[NO_DATA_BATCHES])
        self.active = list(self._queries)
        for query in self._queries:
            query.isActive = True
        return self._returned

    def driver(self) -> Driver:
        return Driver(cast(Any, self), self.job, timeout_s=1)


@pytest.fixture
def drained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that were drained, in order."""
    names: list[str] = []

    def drain(query: FakeQuery, *, timeout_s: float) -> None:
        assert not query.is_held
        names.append(query.id)

    monkeypatch.setattr(module, "drain", drain)
    return names


def test_a_query_is_started_once_and_held_between_batches(drained: list[str]) -> None:
    query = FakeQuery("a")
    session = FakeSession(query, returned=query)
    driver = session.driver()

    for _ in range(3):
        driver.take(OPTIONS)
        assert query.is_held

    assert drained == ["a", "a", "a"]
    assert session.starts == 1


def test_a_query_that_must_not_close_windows_starts_again_for_it(drained: list[str]) -> None:
    query = FakeQuery("a")
    session = FakeSession(query)
    driver = session.driver()

    driver.take(OPTIONS)
    driver.take_without_closing(OPTIONS)

    assert session.started_with == ["true", "false"]
    assert session.conf == {NO_DATA_BATCHES: "true"}
    assert query.is_held


def test_while_one_query_runs_the_others_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [FakeQuery("a"), FakeQuery("b")]
    driver = FakeSession(*queries).driver()
    monkeypatch.setattr(module, "drain", lambda query, *, timeout_s: None)
    driver.take(OPTIONS)
    running: list[list[str]] = []

    def drain(query: FakeQuery, *, timeout_s: float) -> None:
        running.append([each.id for each in queries if not each.is_held])

    monkeypatch.setattr(module, "drain", drain)
    driver.take(OPTIONS)

    assert running == [["a"], ["b"], ["a"], ["b"]]  # twice, in case b comes before a


def test_a_stopped_job_starts_again_with_the_next_batch(drained: list[str]) -> None:
    query = FakeQuery("a")
    session = FakeSession(query)
    driver = session.driver()

    driver.take(OPTIONS)
    driver.stop()
    assert not query.isActive
    driver.take(OPTIONS)

    assert session.starts == 2


def test_a_query_that_ends_by_itself_is_started_for_each_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = FakeQuery("a")
    session = FakeSession(query)
    driver = session.driver()
    monkeypatch.setattr(module, "drain", lambda query, *, timeout_s: query.stop())

    driver.take(OPTIONS)
    driver.take(OPTIONS)

    assert session.starts == 2


def test_queries_that_the_job_does_not_return_are_driven_too(drained: list[str]) -> None:
    query, mine = FakeQuery("a"), FakeQuery("mine")
    session = FakeSession(query, mine, returned=None)
    session.active = [mine]
    driver = session.driver()

    driver.take(OPTIONS)

    assert drained == ["a"]
    driver.stop()
    assert not query.isActive
    assert mine.isActive


def test_a_job_that_raises_leaves_no_query_behind(drained: list[str]) -> None:
    query = FakeQuery("a")
    session = FakeSession(query)

    def job(spark: object, options: Options) -> None:
        session.job(spark, options)
        raise ValueError("no such table")

    driver = Driver(cast(Any, session), job, timeout_s=1)
    with pytest.raises(JobFailed, match="ValueError: no such table"):
        driver.take(OPTIONS)
    driver.stop()
    assert not query.isActive


def test_triggers_of_an_immediate_job_fire_at_once_also_in_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Writer:
        def trigger(self, **given: str) -> dict[str, str]:
            return given

    monkeypatch.setattr(readwriter, "DataStreamWriter", Writer)
    job = ImmediateJob(lambda spark, options: Writer().trigger(processingTime="1 minute"))
    assert job.describe() == ""
    elsewhere = pickle.loads(cast(Any, cloudpickle).dumps(job))
    for each in (job, job, elsewhere):
        assert each(cast(Any, None), OPTIONS) == {"processingTime": "0 seconds"}
    assert job.describe() == "immediate_triggers: processingTime 1 minute ran at once"


def test_a_mistake_in_the_test_is_no_failure_of_the_job(drained: list[str]) -> None:
    with pytest.raises(ConfigError, match="must return its StreamingQuery"):
        FakeSession(returned=[7]).driver().take(OPTIONS)


def test_a_query_that_does_not_get_there_says_what_to_look_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def drain(query: FakeQuery, *, timeout_s: float) -> None:
        raise AwaitTimeout("waited 1 s")

    monkeypatch.setattr(module, "drain", drain)
    with pytest.raises(AwaitTimeout, match=r"waited 1 s\. Does the job pass `options\.trigger`"):
        FakeSession(FakeQuery("a")).driver().take(OPTIONS)
