"""The compacted topic says what the table says, and no change was lost or passed another."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from cdc.job import CHANGE, CUSTOMER, start, upserts
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from embedkafka import EmbeddedKafka, OwnedTopic, Topic
from embedkafka.spark import (
    assert_delivered,
    crash_between_write_and_commit,
    restart,
)

ADA = {"id": 1, "name": "Ada", "city": "London"}
GRACE = {"id": 2, "name": "Grace", "city": "New York"}


def encoded(change: dict[str, Any]) -> bytes:
    value = io.BytesIO()
    fastavro.schemaless_writer(value, CHANGE, change)
    return value.getvalue()


def decoded(value: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(value), CUSTOMER, None)


def rows_in(customers: Topic) -> dict[str, Any]:
    """The table that the topic says: the last value of each key, without tombstones."""
    latest = {str(record.key or b"", "ascii"): record.value for record in customers.read()}
    return {key: decoded(value) for key, value in latest.items() if value is not None}


class Table:
    """A table whose changes go to a topic, as a connector would send them."""

    def __init__(self, changes: Topic) -> None:
        self._changes = changes
        self.rows: dict[str, Any] = {}

    def put(self, **row: Any) -> None:
        key = str(row["id"])
        before = self.rows.get(key)
        self.rows[key] = row
        self._send(key, op="u" if before else "c", before=before, after=row)

    def delete(self, number: int) -> None:
        before = self.rows.pop(str(number))
        self._send(str(number), op="d", before=before, after=None)

    def _send(self, key: str, **change: Any) -> None:
        self._changes.send(encoded(change), key=key)


@pytest.fixture
def topics(kafka: EmbeddedKafka) -> Iterator[tuple[OwnedTopic, OwnedTopic]]:
    """The changes, and the compacted topic of another size."""
    made = (
        kafka.topic(partitions=3),
        kafka.topic(partitions=2, config={"cleanup.policy": "compact"}),
    )
    yield made
    for topic in made:
        topic.delete()


@pytest.fixture
def run(
    spark: SparkSession, topics: tuple[Topic, Topic], tmp_path: Path
) -> Callable[[], StreamingQuery]:
    """Runs the job over the changes so far; its checkpoint lasts for the test."""
    changes, customers = topics

    def run_once() -> StreamingQuery:
        sink = {
            "kafka.bootstrap.servers": customers.bootstrap_servers,
            "topic": customers.name,
            "checkpointLocation": str(tmp_path / "checkpoint"),
        }
        now = {"availableNow": True}
        query = start(spark, source=changes.spark_options(), sink=sink, trigger=now)
        query.awaitTermination()
        return query

    return run_once


def test_the_topic_says_what_the_table_says(
    topics: tuple[Topic, Topic], run: Callable[[], StreamingQuery]
) -> None:
    changes, customers = topics
    table = Table(changes)
    table.put(**ADA)
    table.put(**GRACE)
    table.put(id=3, name="Edsger", city="Rotterdam")
    run()
    assert rows_in(customers) == table.rows

    table.put(**{**ADA, "city": "Marylebone"})
    table.delete(3)
    run()
    assert rows_in(customers) == table.rows == {"1": {**ADA, "city": "Marylebone"}, "2": GRACE}
    assert_delivered(changes, customers, transform=upserts)


def test_a_change_that_is_written_twice_changes_nothing(
    topics: tuple[Topic, Topic], run: Callable[[], StreamingQuery]
) -> None:
    changes, customers = topics
    table = Table(changes)
    table.put(**ADA)
    table.put(**{**ADA, "city": "Marylebone"})
    query = run()

    crash_between_write_and_commit(query)
    restart(query).awaitTermination()

    assert len(customers.read()) == 4
    assert rows_in(customers) == table.rows


def test_compaction_keeps_the_last_change_of_a_row(
    topics: tuple[OwnedTopic, OwnedTopic], run: Callable[[], StreamingQuery]
) -> None:
    changes, customers = topics
    table = Table(changes)
    for city in ("London", "Turin", "Marylebone"):
        table.put(**{**ADA, "city": city})
    run()

    customers.compact()

    assert [decoded(record.value) for record in customers.read() if record.value] == [
        *table.rows.values()
    ]


def test_a_row_that_returns_is_there_again(spark: SparkSession) -> None:
    bath = {**ADA, "city": "Bath"}
    changes: list[dict[str, Any]] = [
        {"op": "c", "before": None, "after": ADA},
        {"op": "d", "before": ADA, "after": None},
        {"op": "c", "before": None, "after": bath},
    ]
    frame = spark.createDataFrame([(encoded(change),) for change in changes], "value BINARY")

    made = [tuple(row) for row in upserts(frame).select("key", "value").collect()]

    assert [key for key, _ in made] == ["1", "1", "1"]
    assert [value and decoded(value) for _, value in made] == [ADA, None, bath]
