"""Topics as streams: checkpoints, triggers, growth and loss."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from embedkafka import EmbeddedKafka, Topic
from embedkafka.spark.frames import run_available_now, stream
from tests.spark.conftest import TableQuery

NOW = {"availableNow": True}


def values(query: TableQuery) -> list[str]:
    return sorted(row.value for row in query.rows())


def copy(spark: SparkSession, source: Topic, sink: Topic, checkpoint: Path, **options: Any) -> Any:
    """One availableNow run from topic to topic."""
    frame = stream(spark, source, options=options).select("key", "value")
    return run_available_now(frame, sink, checkpoint)


def texts(topic: Topic, count: int | None = None) -> list[str]:
    return sorted(message.text for message in topic.read(count))


def test_available_now_takes_what_is_there_and_ends(
    spark: SparkSession, kafka: EmbeddedKafka, start_query: Callable[..., TableQuery]
) -> None:
    topic = kafka.topic(partitions=3)
    topic.send_many(str(n) for n in range(50))
    query = start_query(stream(spark, topic), trigger=NOW)
    assert query.awaitTermination(60)
    assert values(query) == sorted(map(str, range(50)))


def test_a_running_query_sees_records_as_they_come(
    spark: SparkSession, kafka_topic: Topic, start_query: Callable[..., TableQuery]
) -> None:
    query = start_query(stream(spark, kafka_topic))
    for number in range(3):
        kafka_topic.send(str(number))
        query.processAllAvailable()
        assert values(query) == [str(n) for n in range(number + 1)]


def test_latest_leaves_out_what_was_there_before(
    spark: SparkSession, kafka_topic: Topic, start_query: Callable[..., TableQuery]
) -> None:
    kafka_topic.send("before")
    query = start_query(stream(spark, kafka_topic, options={"startingOffsets": "latest"}))
    query.processAllAvailable()
    kafka_topic.send("after")
    query.processAllAvailable()
    assert values(query) == ["after"]


def test_starting_offsets_as_json_and_by_timestamp(
    spark: SparkSession, kafka: EmbeddedKafka, start_query: Callable[..., TableQuery]
) -> None:
    topic = kafka.topic(partitions=2)
    for number in range(6):
        topic.send(str(number), partition=number % 2, timestamp_ms=1_000_000 + number)
    by_offset = {"startingOffsets": json.dumps({topic.name: {"0": 2, "1": -2}})}
    by_time = {"startingOffsetsByTimestamp": json.dumps({topic.name: {"0": 1_000_001, "1": 0}})}
    for options, expected in (
        (by_offset, ["1", "3", "4", "5"]),
        (by_time, ["1", "2", "3", "4", "5"]),
    ):
        query = start_query(stream(spark, topic, options=options), trigger=NOW)
        assert query.awaitTermination(60)
        assert values(query) == expected


def test_a_restarted_query_loses_nothing_and_repeats_nothing(
    spark: SparkSession, kafka: EmbeddedKafka, checkpoint: Path
) -> None:
    source, sink = kafka.topic(partitions=3), kafka.topic(partitions=2)
    for start in (0, 40, 80):
        source.send_many(str(n) for n in range(start, start + 40))
        copy(spark, source, sink, checkpoint)
        assert texts(sink, start + 40) == sorted(map(str, range(start + 40)))
    copy(spark, source, sink, checkpoint)
    assert len(sink.read()) == 120


def test_a_query_stopped_in_the_middle_goes_on_where_it_was(
    spark: SparkSession, kafka: EmbeddedKafka, checkpoint: Path
) -> None:
    source, sink = kafka.topic(), kafka.topic()
    source.send_many(str(n) for n in range(20))
    frame = stream(spark, source, options={"maxOffsetsPerTrigger": 5}).select("value")
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "topic": sink.name,
        "checkpointLocation": str(checkpoint),
    }
    writer = frame.writeStream.format("kafka").options(**options)
    query = writer.trigger(processingTime="1 hour").start()
    while query.lastProgress is None:  # reported after the first batch is committed
        assert not query.awaitTermination(1), query.exception()
    query.stop()
    assert texts(sink) == sorted(map(str, range(5)))
    copy(spark, source, sink, checkpoint)
    assert texts(sink) == sorted(map(str, range(20)))


def test_max_offsets_per_trigger_bounds_every_batch(
    spark: SparkSession, kafka: EmbeddedKafka, start_query: Callable[..., TableQuery]
) -> None:
    topic = kafka.topic(partitions=2)
    topic.send_many(str(n) for n in range(50))
    options = {"maxOffsetsPerTrigger": 20}
    query = start_query(stream(spark, topic, options=options), trigger=NOW)
    assert query.awaitTermination(60)
    sizes = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert sum(sizes) == 50
    assert len(sizes) == 3
    assert max(sizes) <= 20


def test_assign_and_pattern_as_streams(
    spark: SparkSession, kafka: EmbeddedKafka, start_query: Callable[..., TableQuery]
) -> None:
    first, second = kafka.topic("stream-one", partitions=2), kafka.topic("stream-two")
    for partition in (0, 1):
        first.send(f"one {partition}", partition=partition)
    second.send("two")
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "startingOffsets": "earliest"}
    chosen = {
        "assign": (json.dumps({first.name: [1]}), ["one 1"]),
        "subscribePattern": ("stream-.*", ["one 0", "one 1", "two"]),
    }
    for way, (value, expected) in chosen.items():
        frame = spark.readStream.format("kafka").options(**servers, **{way: value}).load()
        query = start_query(frame.selectExpr("cast(value as string)"), trigger=NOW)
        assert query.awaitTermination(60)
        assert values(query) == expected


def test_a_topic_that_grows_is_read_whole(
    spark: SparkSession, kafka: EmbeddedKafka, start_query: Callable[..., TableQuery]
) -> None:
    topic = kafka.topic(partitions=1)
    topic.send("old partition")
    query = start_query(stream(spark, topic))
    query.processAllAvailable()
    topic.add_partitions(3)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for partition in (0, 1, 2):
        producer.produce(topic.name, f"partition {partition}", partition=partition)
    assert producer.flush(30) == 0
    query.processAllAvailable()
    assert values(query) == ["old partition", "partition 0", "partition 1", "partition 2"]


def test_a_topic_that_comes_later_joins_a_pattern(
    spark: SparkSession, kafka: EmbeddedKafka, start_query: Callable[..., TableQuery]
) -> None:
    kafka.topic("late-1").send("first")
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribePattern": "late-.*",
        "startingOffsets": "earliest",
    }
    frame = spark.readStream.format("kafka").options(**options).load()
    query = start_query(frame.selectExpr("cast(value as string)"))
    query.processAllAvailable()
    kafka.topic("late-2").send("second")
    query.processAllAvailable()
    assert values(query) == ["first", "second"]


@pytest.fixture
def half_read(
    spark: SparkSession, kafka: EmbeddedKafka, admin: AdminClient, checkpoint: Path
) -> tuple[Any, Any]:
    """A source whose records 0 to 4 were copied, and 5 to 7 deleted before they were read."""
    from confluent_kafka import TopicPartition

    source, sink = kafka.topic(), kafka.topic()
    source.send_many(str(n) for n in range(5))
    copy(spark, source, sink, checkpoint)
    source.send_many(str(n) for n in range(5, 10))
    position = TopicPartition(source.name, 0, 8)
    for future in admin.delete_records([position]).values():
        future.result(30)
    return source, sink


def test_deleted_records_fail_a_query_that_minds(
    spark: SparkSession, half_read: tuple[Any, Any], checkpoint: Path
) -> None:
    with pytest.raises(StreamingQueryException, match=r"(?i)some data may have been lost"):
        copy(spark, *half_read, checkpoint)


def test_deleted_records_are_passed_over_by_a_query_that_does_not_mind(
    spark: SparkSession, half_read: tuple[Any, Any], checkpoint: Path
) -> None:
    source, sink = half_read
    copy(spark, source, sink, checkpoint, failOnDataLoss=False)
    assert texts(sink) == ["0", "1", "2", "3", "4", "8", "9"]


@pytest.mark.parametrize("minds", [True, False])
def test_a_topic_deleted_and_made_again_between_two_runs(
    spark: SparkSession, kafka: EmbeddedKafka, checkpoint: Path, minds: Any
) -> None:
    source, sink = kafka.topic("made-again"), kafka.topic()
    source.send_many(str(n) for n in range(5))
    copy(spark, source, sink, checkpoint)
    source.delete()
    again = kafka.topic(source.name)
    again.send_many(["new 0", "new 1"])
    if minds:
        with pytest.raises(StreamingQueryException, match=r"(?i)some data may have been lost"):
            copy(spark, again, sink, checkpoint)
        return
    copy(spark, again, sink, checkpoint, failOnDataLoss=False)
    again.send("new 2")
    copy(spark, again, sink, checkpoint, failOnDataLoss=False)
    assert texts(sink)[-1] == "new 2"


def test_a_topic_deleted_under_a_query_that_does_not_mind(
    spark: SparkSession, kafka: EmbeddedKafka, start_query: Callable[..., TableQuery]
) -> None:
    doomed, other = kafka.topic("doomed-1"), kafka.topic("doomed-2")
    doomed.send("gone soon")
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribePattern": "doomed-.*",
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
    }
    frame = spark.readStream.format("kafka").options(**options).load()
    query = start_query(frame.selectExpr("cast(value as string)"))
    query.processAllAvailable()
    doomed.delete()
    other.send("still here")
    query.processAllAvailable()
    assert values(query) == ["gone soon", "still here"]


def test_two_topics_are_joined_into_a_third(
    spark: SparkSession, kafka: EmbeddedKafka, checkpoint: Path
) -> None:
    orders, prices, joined = kafka.topic(partitions=2), kafka.topic(), kafka.topic()
    for number, sku in enumerate(["apple", "pear", "apple", "plum"]):
        orders.send_json({"id": number, "sku": sku}, key=sku)
    for sku, price in (("apple", 3), ("pear", 5)):
        prices.send_json({"sku": sku, "price": price}, key=sku)
    left = stream(spark, orders, schema="id int, sku string").select("value.*")
    right = stream(spark, prices, schema="sku string, price int").select("value.*")
    run_available_now(left.join(right, "sku"), joined, checkpoint, key="sku")
    assert sorted(joined.read_json(3), key=lambda row: row["id"]) == [
        {"sku": "apple", "id": 0, "price": 3},
        {"sku": "pear", "id": 1, "price": 5},
        {"sku": "apple", "id": 2, "price": 3},
    ]
    prices.send_json({"sku": "plum", "price": 7}, key="plum")
    run_available_now(left.join(right, "sku"), joined, checkpoint, key="sku")
    assert joined.read_json(4)[-1] == {"sku": "plum", "id": 3, "price": 7}


def test_counts_go_on_across_a_restart(
    spark: SparkSession, kafka: EmbeddedKafka, checkpoint: Path
) -> None:
    words, counts = kafka.topic(partitions=2), kafka.topic()

    def run() -> dict[Any, Any]:
        counted = stream(spark, words).groupBy("value").agg(F.count("*").alias("count"))
        frame = counted.select(F.col("value").alias("key"), F.col("count").alias("value"))
        run_available_now(frame, counts, checkpoint, output_mode="update")
        return {m.key.decode(): int(m.text) for m in counts.read()}

    words.send_many(["a", "b", "a"])
    assert run() == {"a": 2, "b": 1}
    words.send_many(["a", "c"])
    assert run() == {"a": 3, "b": 1, "c": 1}


def test_the_older_way_of_finding_offsets_uses_a_consumer_group(
    spark: SparkSession, kafka: EmbeddedKafka, start_query: Callable[..., TableQuery]
) -> None:
    topic = kafka.topic(partitions=2)
    topic.send_many(str(n) for n in range(10))
    key = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    spark.conf.set(key, "true")
    try:
        query = start_query(stream(spark, topic), trigger=NOW)
        assert query.awaitTermination(60)
    finally:
        spark.conf.unset(key)
    assert values(query) == sorted(map(str, range(10)))
