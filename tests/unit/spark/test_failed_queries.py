"""Which failed query a wait on a topic blames."""

from typing import Any

import pytest

from embedkafka.runtime.failures import AwaitTimeout
from embedkafka.spark import failed_queries
from embedkafka.spark.failed_queries import QueryWatch, SeenQuery, find_culprit

FAILURE = ValueError("no sku\n=== Streaming Query ===\nIdentifier: a long plan")


def running(*, writes: bool | None) -> SeenQuery:
    return SeenQuery(name="running", writes=writes, was_active=True)


def failed(*, writes: bool | None, during: bool = False) -> SeenQuery:
    return SeenQuery(
        name="failed", writes=writes, is_active=False, was_active=during, failure=FAILURE
    )


def stopped(*, writes: bool | None) -> SeenQuery:
    return SeenQuery(name="stopped", writes=writes, is_active=False, was_active=True)


@pytest.mark.parametrize("during", [False, True])
def test_the_query_of_the_topic_is_blamed_whenever_it_failed(during: bool) -> None:
    culprit = failed(writes=True, during=during)
    others = [stopped(writes=True), running(writes=False)]
    assert find_culprit([*others, culprit]) is culprit


def test_one_that_does_not_tell_is_blamed_only_if_it_failed_during_the_wait() -> None:
    assert find_culprit([failed(writes=None)]) is None
    assert find_culprit([failed(writes=None, during=True)]) is not None


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([], id="no query"),
        pytest.param([stopped(writes=True)], id="it was stopped"),
        pytest.param([failed(writes=False, during=True)], id="it writes elsewhere"),
        pytest.param([failed(writes=True), running(writes=True)], id="it was started again"),
        pytest.param([failed(writes=True), running(writes=None)], id="another one may write"),
    ],
)
def test_no_query_is_blamed(seen: list[SeenQuery]) -> None:
    assert find_culprit(seen) is None


class Query:
    """The public side of a query, as Spark Connect shows it."""

    def __init__(self, run: str, *, breaks: bool = False) -> None:
        self.runId, self.id, self.name = run, f"id of {run}", None  # PySpark's names
        self.isActive = True  # PySpark's name
        self.breaks = breaks

    def exception(self) -> Exception | None:
        if self.breaks:
            raise ConnectionError("the server is gone")
        return FAILURE


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[Query]:
    """The queries of the active session."""
    queries: list[Any] = []
    monkeypatch.setattr(failed_queries, "_known_queries", lambda: list(queries))
    monkeypatch.setattr(failed_queries, "_BETWEEN_LOOKS_MS", 0)
    return queries


def test_a_query_that_spark_has_forgotten_is_still_watched(known: list[Query]) -> None:
    query = Query("one")
    known.append(query)
    watch = QueryWatch("orders")
    assert watch.find_failed() is None
    known.clear()
    query.isActive = False
    culprit = watch.find_failed()
    assert culprit is not None
    error = culprit.error("2 records of orders")
    assert isinstance(error, AwaitTimeout)
    assert error.exception is FAILURE
    assert str(error).splitlines() == [
        "waited for 2 records of orders",
        "which will not come: the query id of one has failed: no sku",
    ]


def test_a_query_that_cannot_be_read_is_not_judged(known: list[Query]) -> None:
    known += [Query("one", breaks=True), Query("two")]
    watch = QueryWatch("orders")
    assert watch.find_failed() is None
    for query in known:
        query.isActive = False
    assert watch.find_failed() is None, "the first may still run"
    assert watch.describe_failures() == "the query id of two has failed: no sku"
