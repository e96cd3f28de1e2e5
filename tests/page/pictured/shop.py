"""The tests of the run that `tests.page.pictures` takes pictures of; one is red on purpose."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from embedkafka import EmbeddedKafka, Topic
from embedkafka.spark import (
    assert_topic_equals,
    crash_between_write_and_commit,
    drain,
    restart,
)

IMPATIENT = {"kafka.request.timeout.ms": "2000", "kafka.default.api.timeout.ms": "5000"}
"""Spark may ask the broker that the second test kills."""


@pytest.fixture
def orders(kafka: EmbeddedKafka) -> Topic:
    return kafka.topic("orders", partitions=2, replication=3)


@pytest.fixture
def invoices(kafka: EmbeddedKafka) -> Topic:
    return kafka.topic("invoices", replication=3)


@pytest.fixture
def job(
    orders: Topic, invoices: Topic, spark: SparkSession, spark_checkpoint: Path
) -> Iterator[StreamingQuery]:
    """Writes an invoice for each order."""
    stream = spark.readStream.format("kafka").options(**orders.spark_options(**IMPATIENT)).load()
    given = stream.selectExpr(
        "key", "from_json(cast(value AS string), 'id int, quantity int') AS given"
    )
    priced = given.selectExpr(
        "key", "to_json(struct(given.id AS order, given.quantity * 95 AS cents)) AS value"
    )
    writer = priced.writeStream.format("kafka").options(**invoices.sink_options())
    query = (
        writer.queryName("invoicing").option("checkpointLocation", str(spark_checkpoint)).start()
    )
    yield query
    for each in spark.streams.active:
        each.stop()


def test_an_order_has_an_invoice(orders: Topic, invoices: Topic, job: StreamingQuery) -> None:
    orders.send_json({"id": 1, "quantity": 3}, key="ann")
    drain(job)
    assert_topic_equals(invoices, [{"order": 1, "cents": 285}])


def test_invoices_survive_a_dead_leader(
    kafka: EmbeddedKafka, orders: Topic, invoices: Topic, job: StreamingQuery
) -> None:
    kafka.broker(kafka.existing_topic("invoices").leader()).kill()
    kafka.existing_topic("invoices").await_isr(size=2)
    orders.send_json({"id": 1, "quantity": 2}, key="ann")
    drain(job)
    assert_topic_equals(invoices, [{"order": 1, "cents": 190}])


def test_an_order_is_invoiced_once(orders: Topic, invoices: Topic, job: StreamingQuery) -> None:
    orders.send_json({"id": 1, "quantity": 3}, key="ann")
    orders.send_json({"id": 2, "quantity": 1}, key="bob")
    drain(job)
    crash_between_write_and_commit(job)
    drain(restart(job))
    assert_topic_equals(invoices, [{"order": 1, "cents": 285}, {"order": 2, "cents": 95}])
