"""The compacted topic says what the table says, and no change was lost or passed another."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cdc.job import start, upserts
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from embedkafka import EmbeddedKafka, Topic
from embedkafka.spark import (
    assert_delivered,
    crash_between_write_and_commit,
    latest_by_key,
    restart,
)

ADA = {"id": 1, "name": "Ada", "city": "London"}
GRACE = {"id": 2, "name": "Grace", "city": "New York"}


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
        self._changes.send_json(change, key=key)


@pytest.fixture
def topics(kafka: EmbeddedKafka) -> Iterator[tuple[Topic, Topic]]:
    """The changes, and the compacted topic of another size."""
    made = (
        kafka.topic(partitions=3),
        kafka.topic(partitions=2, config={"cleanup.policy": "compact"}),
    )
    yield made
    for topic in made:
        kafka.delete_topic(topic.name)


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
    assert latest_by_key(customers) == table.rows

    table.put(**{**ADA, "city": "Marylebone"})
    table.delete(3)
    query = run()
    assert (
        latest_by_key(customers) == table.rows == {"1": {**ADA, "city": "Marylebone"}, "2": GRACE}
    )
    assert_delivered(changes, customers, transform=upserts)

    crash_between_write_and_commit(query)
    restart(query).awaitTermination()
    assert latest_by_key(customers) == table.rows


def test_compaction_keeps_the_last_change_of_a_row(
    kafka: EmbeddedKafka, topics: tuple[Topic, Topic], run: Callable[[], StreamingQuery]
) -> None:
    changes, customers = topics
    table = Table(changes)
    for city in ("London", "Turin", "Marylebone"):
        table.put(**{**ADA, "city": city})
    run()

    kafka.compact(customers.name)

    assert customers.read_json() == list(table.rows.values())


def test_a_row_that_returns_is_there_again(spark: SparkSession) -> None:
    changes = [
        '{"op": "c", "before": null, "after": {"id": 1, "name": "Ada", "city": "London"}}',
        '{"op": "d", "before": {"id": 1, "name": "Ada", "city": "London"}, "after": null}',
        '{"op": "c", "before": null, "after": {"id": 1, "name": "Ada", "city": "Bath"}}',
    ]
    frame = spark.createDataFrame([(change,) for change in changes], "value STRING")
    assert [tuple(row) for row in upserts(frame).select("key", "value").collect()] == [
        ("1", '{"id":1,"name":"Ada","city":"London"}'),
        ("1", None),
        ("1", '{"id":1,"name":"Ada","city":"Bath"}'),
    ]
