"""Batch reads and writes of topics."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from embedkafka import ConfigError, EmbeddedKafka
from embedkafka.cluster.handles.topic import Topic
from embedkafka.spark.frames import topic_to_df, write_df


def read(spark: SparkSession, options: Any) -> Any:
    return spark.read.format("kafka").options(**options).load()


def values(frame: Any) -> Any:
    return sorted(row.value.decode() for row in frame.select("value").collect())


@pytest.fixture
def numbered(kafka: EmbeddedKafka) -> Iterator[Any]:
    """A topic of two partitions with the values 0 to 9; the even ones are in partition 0."""
    topic = kafka.topic(partitions=2)
    for number in range(10):
        topic.send(str(number), partition=number % 2, timestamp_ms=1_000_000 + number * 1000)
    yield topic
    topic.delete()


def test_a_batch_holds_what_a_client_wrote(spark: SparkSession, kafka: EmbeddedKafka) -> None:
    topic = kafka.topic(partitions=3)
    sent = [
        topic.send(f"value {n}", key=f"key {n}", timestamp_ms=1_600_000_000_000 + n)
        for n in range(20)
    ]
    rows = read(spark, topic.spark_options()).collect()
    assert {
        (row.topic, row.partition, row.offset, bytes(row.key), bytes(row.value)) for row in rows
    } == {(topic.name, m.partition, m.offset, m.key, m.value) for m in sent}
    assert {row.timestampType for row in rows} == {0}
    by_value = {bytes(row.value): row.timestamp for row in rows}
    assert by_value[b"value 7"].timestamp() == pytest.approx(1_600_000_000.007)


def test_a_client_reads_what_a_batch_wrote(spark: SparkSession, kafka_topic: Topic) -> None:
    rows = [(f"key {n}", f"value {n}") for n in range(100)]
    kafka_topic.write(spark.createDataFrame(rows, "key string, value string"))
    read = kafka_topic.read(100)
    assert {(m.key.decode(), m.text) for m in read} == set(rows)
    assert [m.offset for m in read] == list(range(100))


def test_an_empty_topic_is_an_empty_batch(spark: SparkSession, kafka_topic: Topic) -> None:
    assert read(spark, kafka_topic.spark_options()).collect() == []


def test_null_keys_and_values_survive_both_ways(spark: SparkSession, kafka: EmbeddedKafka) -> None:
    source, sink = kafka.topic(), kafka.topic()
    pairs = [(None, b"no key"), (b"no value", None), (None, None), (b"", b"")]
    for key, value in pairs:
        source.send(value, key=key)
    sink.write(read(spark, source.spark_options()).select("key", "value").coalesce(1))
    assert [(m.key, m.value) for m in sink.read(4)] == pairs


def test_headers_survive_both_ways(spark: SparkSession, kafka: EmbeddedKafka) -> None:
    source, sink = kafka.topic(), kafka.topic()
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b""), ("none", None)]
    source.send("with", headers=headers)
    source.send("without")
    frame = read(spark, source.spark_options(includeHeaders="true")).coalesce(1)
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": sink.name}
    frame.select("value", "headers").write.format("kafka").options(
        **options, includeHeaders="true"
    ).save()
    assert [(m.text, list(m.headers)) for m in sink.read(2)] == [("with", headers), ("without", [])]


def test_rows_choose_their_topic_and_partition(spark: SparkSession, kafka: EmbeddedKafka) -> None:
    first, second = kafka.topic(partitions=2), kafka.topic(partitions=2)
    rows = [(first.name, 1, "a"), (second.name, 0, "b"), (second.name, 1, "c")]
    frame = spark.createDataFrame(rows, "topic string, partition int, value string")
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    frame.write.format("kafka").options(**servers).save()
    assert [(m.partition, m.text) for m in first.read(1)] == [(1, "a")]
    assert [(m.partition, m.text) for m in second.read(2)] == [(0, "b"), (1, "c")]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read_by_both(
    spark: SparkSession, kafka_topic: Topic, kafka: EmbeddedKafka, codec: str
) -> None:
    frame = spark.range(2000).selectExpr("cast(id as string) as value")
    frame.write.format("kafka").options(
        **{
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "topic": kafka_topic.name,
            "kafka.compression.type": codec,
        }
    ).save()
    expected = sorted(map(str, range(2000)))
    assert sorted(m.text for m in kafka_topic.read(2000)) == expected
    assert values(read(spark, kafka_topic.spark_options())) == expected


def test_subscribe_takes_several_topics(spark: SparkSession, kafka: EmbeddedKafka) -> None:
    first, second = kafka.topic(), kafka.topic()
    first.send("a")
    second.send("b")
    options = first.spark_options(subscribe=f"{first.name},{second.name}")
    assert values(read(spark, options)) == ["a", "b"]


def test_subscribe_pattern_takes_the_topics_that_match(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    for name in ("pattern-a", "pattern-b", "other-pattern-c"):
        kafka.topic(name).send(name)
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribePattern": "^pattern-",
    }
    assert values(read(spark, options)) == ["pattern-a", "pattern-b"]


def test_assign_takes_the_partitions_named(
    spark: SparkSession, kafka: EmbeddedKafka, numbered: Any
) -> None:
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "assign": json.dumps({numbered.name: [1]}),
    }
    assert values(read(spark, options)) == ["1", "3", "5", "7", "9"]


def test_offsets_as_json_bound_a_batch(spark: SparkSession, numbered: Any) -> None:
    options = numbered.spark_options(
        startingOffsets=json.dumps({numbered.name: {"0": 2, "1": -2}}),
        endingOffsets=json.dumps({numbered.name: {"0": -1, "1": 2}}),
    )
    assert values(read(spark, options)) == ["1", "3", "4", "6", "8"]


def test_an_offset_beyond_the_end_fails_a_batch(spark: SparkSession, numbered: Any) -> None:
    options = numbered.spark_options(
        startingOffsets=json.dumps({numbered.name: {"0": 0, "1": 0}}),
        endingOffsets=json.dumps({numbered.name: {"0": 99, "1": 2}}),
        **{"kafkaConsumer.pollTimeoutMs": "1000"},
    )
    with pytest.raises(Exception, match="offset"):
        read(spark, options).collect()


def test_timestamps_bound_a_batch(spark: SparkSession, numbered: Any) -> None:
    options = numbered.spark_options(startingTimestamp="1003000", endingTimestamp="1007000")
    assert values(read(spark, options)) == ["3", "4", "5", "6"]


def test_timestamps_by_partition_bound_a_batch(spark: SparkSession, numbered: Any) -> None:
    options = numbered.spark_options(
        startingOffsetsByTimestamp=json.dumps({numbered.name: {"0": 1_004_000, "1": 1_000_000}}),
        endingOffsetsByTimestamp=json.dumps({numbered.name: {"0": 1_007_999, "1": 1_003_000}}),
    )
    assert values(read(spark, options)) == ["1", "4", "6"]


def test_a_timestamp_after_the_last_record_fails_unless_told_to_take_the_end(
    spark: SparkSession, numbered: Any
) -> None:
    late = {"startingTimestamp": "9000000"}
    with pytest.raises(Exception, match=r"(?i)timestamp"):
        read(spark, numbered.spark_options(**late)).collect()
    lenient = {**late, "startingOffsetsByTimestampStrategy": "latest"}
    assert values(read(spark, numbered.spark_options(**lenient))) == []


def test_one_partition_is_read_in_parallel_ranges(spark: SparkSession, kafka_topic: Topic) -> None:
    kafka_topic.send_many(str(n) for n in range(100))
    frame = read(spark, kafka_topic.spark_options(minPartitions="5"))
    assert frame.rdd.getNumPartitions() == 5
    assert values(frame) == sorted(map(str, range(100)))


def test_aborted_records_are_seen_only_by_those_who_read_uncommitted(
    spark: SparkSession, kafka: EmbeddedKafka, kafka_topic: Topic
) -> None:
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": kafka_topic.name}
    )
    producer.init_transactions(30)
    for value, end in (("kept", "commit"), ("dropped", "abort"), ("kept too", "commit")):
        producer.begin_transaction()
        producer.produce(kafka_topic.name, value)
        producer.flush(30)
        getattr(producer, f"{end}_transaction")(30)
    committed = kafka_topic.spark_options(**{"kafka.isolation.level": "read_committed"})
    assert values(read(spark, committed)) == ["kept", "kept too"]
    assert values(read(spark, kafka_topic.spark_options())) == ["dropped", "kept", "kept too"]


def test_rows_become_json_and_json_becomes_rows(spark: SparkSession, kafka_topic: Topic) -> None:
    schema = "id int, tags array<string>, place struct<x: double, y: double>"
    rows = [(1, ["a", "b"], (0.5, 1.5)), (2, [], None)]
    servers = kafka_topic.bootstrap_servers
    write_df(spark.createDataFrame(rows, schema).coalesce(1), servers, kafka_topic.name, key="id")
    assert [m.key for m in kafka_topic.read(2)] == [b"1", b"2"]
    assert kafka_topic.read_json() == [
        {"id": 1, "tags": ["a", "b"], "place": {"x": 0.5, "y": 1.5}},
        {"id": 2, "tags": []},
    ]
    frame = topic_to_df(spark, servers, kafka_topic.name, schema=schema).select("value.*")
    assert [tuple(row) for row in frame.orderBy("id").collect()] == rows


def test_a_key_column_that_is_not_there_is_named_with_those_that_are(
    spark: SparkSession, kafka_topic: Topic
) -> None:
    frame = spark.createDataFrame([("a", 1)], "sku string, price int")
    with pytest.raises(ConfigError, match="no column 'id' for the key; there are sku, price"):
        write_df(frame, kafka_topic.bootstrap_servers, kafka_topic.name, key="id")


def test_a_topic_that_is_not_there_is_named_in_the_error(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": "no-such-topic",
        "kafka.request.timeout.ms": "2000",
        "kafka.default.api.timeout.ms": "3000",
    }
    with pytest.raises(Exception, match=r"no-such-topic|UnknownTopicOrPartition"):
        read(spark, options).collect()
