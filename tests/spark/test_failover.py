"""Queries while brokers come and go, each on a separate cluster."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embedkafka import EmbeddedKafka
from embedkafka.spark.frames import run_available_now, stream
from tests.spark.conftest import TableQuery

pytestmark = pytest.mark.gate


#: Spark's admin client asks a dead leader until this timeout, on Apache Kafka as well; the default
#: is a minute.
IMPATIENT = {"kafka.request.timeout.ms": 3000, "kafka.default.api.timeout.ms": 4000}

#: What a job that takes no options is left with: the way in which Spark asked until 3.4.
CONSUMER_FOR_OFFSETS = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


def numbers(start: int, end: int) -> list[str]:
    return [str(n) for n in range(start, end)]


def test_a_running_query_outlives_the_leader_of_its_source(
    spark: SparkSession,
    kafka_cluster: Callable[..., EmbeddedKafka],
    start_query: Callable[..., TableQuery],
) -> None:
    kafka = kafka_cluster(brokers=3)
    topic = kafka.topic(partitions=2, replication=3)
    query = start_query(stream(spark, topic, options=IMPATIENT))
    topic.send_many(numbers(0, 20))
    query.processAllAvailable()
    dead = topic.leader(0)
    kafka.broker(dead).kill()
    topic.await_isr(0, size=2)
    topic.send_many(numbers(20, 40))
    query.processAllAvailable()
    kafka.broker(dead).start()
    topic.await_isr(0, size=3)
    topic.send_many(numbers(40, 60))
    query.processAllAvailable()
    assert sorted(row.value for row in query.rows()) == sorted(numbers(0, 60))


def test_a_setting_of_the_session_lets_a_consumer_ask_for_offsets(
    spark: SparkSession,
    kafka_cluster: Callable[..., EmbeddedKafka],
    start_query: Callable[..., TableQuery],
) -> None:
    """Consumers look for the new leader as soon as the dead one refuses."""
    kafka = kafka_cluster(brokers=3)
    topic = kafka.topic(replication=3)
    spark.conf.set(CONSUMER_FOR_OFFSETS, "true")
    try:
        query = start_query(stream(spark, topic))
    finally:
        spark.conf.unset(CONSUMER_FOR_OFFSETS)
    topic.send("before")
    query.processAllAvailable()
    kafka.broker(topic.leader()).kill()
    topic.await_isr(size=2)
    topic.send("after")
    query.processAllAvailable()
    assert [row.value for row in query.rows()] == ["before", "after"]
    names = {request.client_id for request in kafka.requests("LIST_OFFSETS", topic=topic.name)}
    assert any(name.startswith("consumer-spark-kafka") for name in names)
    assert not any(name.startswith("adminclient") for name in names)


def test_a_restarted_query_loses_and_repeats_nothing_after_a_failover(
    spark: SparkSession, kafka_cluster: Callable[..., EmbeddedKafka], checkpoint: Path
) -> None:
    kafka = kafka_cluster(brokers=3)
    source, sink = (kafka.topic(partitions=2, replication=3) for _ in range(2))

    def run() -> None:
        frame = stream(spark, source, options={**IMPATIENT, "maxOffsetsPerTrigger": 10}).select(
            "value"
        )
        run_available_now(frame, sink, checkpoint)

    source.send_many(numbers(0, 30))
    run()
    dead = sink.leader(0)
    kafka.broker(dead).kill()
    sink.await_isr(0, size=2)
    source.send_many(numbers(30, 60))
    run()
    kafka.broker(dead).start()
    sink.await_isr(0, size=3)
    assert sorted(m.text for m in sink.read(60)) == sorted(numbers(0, 60))


def test_a_running_query_outlives_a_rolling_restart(
    spark: SparkSession,
    kafka_cluster: Callable[..., EmbeddedKafka],
    start_query: Callable[..., TableQuery],
) -> None:
    kafka = kafka_cluster(brokers=3)
    topic = kafka.topic(replication=3)
    query = start_query(stream(spark, topic, options=IMPATIENT))
    topic.send("before")
    query.processAllAvailable()
    for broker in kafka.brokers:
        broker.stop()
        broker.start()
        topic.await_isr(0, size=3)
    topic.send("after")
    query.processAllAvailable()
    assert [row.value for row in query.rows()] == ["before", "after"]
