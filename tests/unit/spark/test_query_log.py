"""Which queries a test has started."""

from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from embedkafka.spark.query_log import QueryLog


class JavaQuery:
    """The JVM's side of a query."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.active = True

    def runId(self) -> "JavaQuery":  # Java's name
        return self

    def toString(self) -> str:  # Java's name
        return self.run

    def isActive(self) -> bool:  # Java's name
        return self.active


def start(java: JavaQuery) -> StreamingQuery:
    given: Any = java
    return StreamingQuery(given)


def runs(queries: list[StreamingQuery]) -> list[str]:
    return [query.runId for query in queries]


def test_queries_are_noted_while_recording_and_only_once() -> None:
    log, one, two = QueryLog(), JavaQuery("one"), JavaQuery("two")
    with log.recording():
        start(one)
        log.mark()
        start(two)
        start(one)  # as `spark.streams.active` does
    start(JavaQuery("after"))
    assert runs(log.all()) == ["one", "two"]
    assert runs(log.since_mark()) == ["two"]


def test_only_running_queries_stay_when_the_test_is_over() -> None:
    log, fixtures, ended = QueryLog(), JavaQuery("of a fixture"), JavaQuery("ended")
    with log.recording():
        start(fixtures)
        start(ended)
    ended.active = False
    log.forget_ended()
    assert runs(log.all()) == ["of a fixture"]
    assert log.since_mark() == []
