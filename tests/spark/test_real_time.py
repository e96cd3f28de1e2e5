"""Real-time mode: long batches, records in the sink at once, and the offsets at a batch's end."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from embedkafka import AwaitTimeout, EmbeddedKafka, Topic
from embedkafka.spark import (
    audit,
    crash_between_write_and_commit,
    drain,
    immediate_triggers,
    progress,
    restart,
)
from embedkafka.spark.connector.installed import release_numbers, require_installed_spark
from embedkafka.spark.report import describe_query

pytestmark = [
    pytest.mark.gate,
    pytest.mark.skipif(
        release_numbers(require_installed_spark().release) < (4, 1),
        reason="real-time mode came with Spark 4.1",
    ),
]

SHORTEST = "spark.sql.streaming.realTimeMode.minBatchDuration"


@pytest.fixture
def spark(spark: SparkSession) -> Iterator[SparkSession]:
    """With batches of a second, so that a test need not wait five."""
    spark.conf.set(SHORTEST, "1s")
    yield spark
    spark.conf.unset(SHORTEST)


@pytest.fixture
def orders(kafka: EmbeddedKafka) -> Topic:
    return kafka.topic()


@pytest.fixture
def copies(kafka: EmbeddedKafka) -> Topic:
    return kafka.topic()


@pytest.fixture
def copy(
    spark: SparkSession, orders: Topic, copies: Topic, checkpoint: Path
) -> Iterator[Callable[[str], StreamingQuery]]:
    """Starts a query from one topic to the other, whose batches last as long as is said."""

    def start(duration: str) -> StreamingQuery:
        frame = orders.stream(spark).selectExpr("value")
        # Any: PySpark's types before 4.1 have no such trigger.
        writer: Any = frame.writeStream.format("kafka").options(**copies.sink_options())
        writer = writer.option("checkpointLocation", str(checkpoint)).outputMode("update")
        started: StreamingQuery = writer.trigger(realTime=duration).start()
        return started

    yield start
    for query in spark.streams.active:
        query.stop()


def texts(topic: Topic) -> list[str]:
    return [record.text for record in topic.read()]


def test_a_query_is_drained_when_the_batch_has_committed(
    copy: Callable[[str], StreamingQuery], orders: Topic, copies: Topic
) -> None:
    query = copy("1 second")
    for number, value in enumerate(("one", "two"), start=1):
        orders.send(value)
        drain(query)
        assert len(texts(copies)) == number
    assert f"{orders.name}-0:2" in progress(query)
    assert "realTime 1 second" in describe_query(query).splitlines()[0]


def test_a_long_batch_is_why_a_wait_ends(
    copy: Callable[[str], StreamingQuery], orders: Topic, copies: Topic
) -> None:
    query = copy("1 hour")
    orders.send("one")
    copies.wait_for(1, timeout_s=60)  # at once
    with pytest.raises(AwaitTimeout, match=r"the end of a batch of realTime 1 hour; `embedkafka"):
        drain(query, timeout_s=0.5)


def test_immediate_triggers_shorten_batches(
    copy: Callable[[str], StreamingQuery], orders: Topic, copies: Topic
) -> None:
    with immediate_triggers() as replaced:
        query = copy("1 hour")
    orders.send("one")
    drain(query)
    assert texts(copies) == ["one"]
    assert replaced == ["realTime 1 hour"]


def test_a_crash_repeats_what_the_sink_has_had(
    copy: Callable[[str], StreamingQuery], orders: Topic, copies: Topic
) -> None:
    query = copy("1 second")
    for value in ("one", "two"):
        orders.send(value)
        drain(query)
    crash_between_write_and_commit(query)
    query = restart(query)
    orders.send("three")
    drain(query)
    assert texts(copies) == ["one", "two", "two", "three"]
    found = audit(orders, copies)
    assert (found.delivered, found.duplicated, found.lost) == (3, 1, 0)


def test_a_restart_repeats_nothing(
    copy: Callable[[str], StreamingQuery], orders: Topic, copies: Topic
) -> None:
    query = copy("1 second")
    orders.send("one")
    drain(query)
    query = restart(query)
    orders.send("two")
    drain(query)
    assert texts(copies) == ["one", "two"]
