"""Topics as columns, assertions, and what Spark keeps of a cluster that is gone."""

from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from embedkafka import ConfigError, EmbeddedKafka, Topic
from embedkafka.spark import assert_stream, assert_topic_equals, drain

ORDERS = "sku STRING, quantity INT"
START_MS = 1_700_000_000_000


def rows(frame: DataFrame, name: str) -> list[Any]:
    query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    drain(query)
    return frame.sparkSession.table(name).collect()


def test_a_topic_streams_as_columns_with_names_for_the_rest(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    orders = kafka.topic("columns")
    orders.send_json(
        {"sku": "a", "quantity": 2, "key": "x"},
        key="k",
        headers={"trace": "t"},
        timestamp_ms=START_MS,
    )
    frame = orders.stream(
        spark, schema=f"{ORDERS}, key STRING", key="id", headers="sent", timestamp="at"
    )
    assert frame.isStreaming
    (row,) = rows(frame, "all_columns")
    assert row.asDict() == {
        "sku": "a",
        "quantity": 2,
        "key": "x",
        "id": "k",
        "sent": [("trace", b"t")],
        "at": datetime(2023, 11, 14, 22, 13, 20),
    }
    text, binary = (
        orders.stream(spark),
        orders.stream(spark, format="binary", key="k"),
    )
    assert text.dtypes == [("value", "string")]
    assert binary.dtypes == [("value", "binary"), ("k", "binary")]


def test_values_of_a_sink_that_are_not_text_are_compared_decoded(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    def parse(data: bytes) -> dict[str, object]:
        return {"id": int.from_bytes(data[:8]), "sku": data[8:].decode()}

    written = kafka.topic("binary", decode=parse)
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id LONG, sku STRING")
    bits = F.unhex(F.lpad(F.hex("id"), 16, "0"))
    written.write(frame.select(F.concat(bits, F.encode("sku", "UTF-8")).alias("value")))
    assert_topic_equals(written, [{"id": 1, "sku": "a"}, {"id": 2, "sku": "b"}])
    assert_topic_equals(written, frame)
    with pytest.raises(AssertionError, match="    sku: expected 'c', found 'b'"):
        assert_topic_equals(written, [{"id": 1, "sku": "a"}, {"id": 2, "sku": "c"}])


def test_mistakes_in_a_stream_say_the_way_out(spark: SparkSession, kafka_topic: Topic) -> None:
    for mistake, message in (
        ({"format": "jsno"}, "did you mean json"),
        ({"format": "json"}, 'format "json" needs a schema'),
        ({"format": "avro", "schema": "{}"}, "--spark-package spark-avro"),
        ({"format": "text", "schema": ORDERS}, 'format "text" has no schema'),
        ({"schema": ORDERS, "key": "sku"}, "two columns would have the same name: sku, quantity"),
        ({"key": "a", "timestamp": "a"}, "two columns would have the same name: value, a, a"),
    ):
        with pytest.raises(ConfigError, match=message):
            kafka_topic.stream(spark, **mistake)  # type: ignore[arg-type]  # a mistake


def test_a_job_is_tested_in_one_call(spark: SparkSession, kafka: EmbeddedKafka) -> None:
    given: list[Any] = [("a", 2), ("b", 1), ("a", 3)]

    def totals(orders: DataFrame) -> DataFrame:
        return orders.groupBy("sku").agg(F.sum("quantity").alias("total"))

    how: dict[str, Any] = {"given": given, "schema": ORDERS, "job": totals}
    expected = [("a", 5), {"sku": "b", "total": 1}]
    assert_stream(kafka, spark, **how, expected=expected, output_mode="complete")
    with pytest.raises(AssertionError, match="total: expected 6, found 5"):
        assert_stream(kafka, spark, **how, expected=[("a", 6), ("b", 1)], output_mode="update")


def test_a_job_with_two_inputs_gets_them_by_name(spark: SparkSession, kafka: EmbeddedKafka) -> None:
    assert_stream(
        kafka,
        spark,
        given={"orders": [("a", 2)], "prices": [("a", 1.5)]},
        schema={"orders": ORDERS, "prices": "sku STRING, price DOUBLE"},
        job=lambda orders, prices: orders.join(prices, "sku").selectExpr(
            "sku", "quantity * price AS total"
        ),
        expected=[{"sku": "a", "total": 3.0}],
    )


def test_a_topic_is_compared_with_the_types_of_a_schema(
    spark: SparkSession, kafka_topic: Topic
) -> None:
    kafka_topic.send_json({"sku": "a", "at": "2026-01-01T10:00:00Z"})
    kafka_topic.send_json({"sku": "b"})
    schema = "sku STRING, at TIMESTAMP"
    at = datetime(2026, 1, 1, 10)
    assert_topic_equals(kafka_topic, [("a", at), ("b", None)], schema=schema)
    expected = spark.createDataFrame([("b", None), ("a", at)], schema)
    assert_topic_equals(kafka_topic, expected, schema=schema)
    with pytest.raises(AssertionError, match=r"at: expected .*11, 0\), found .*10, 0\)"):
        assert_topic_equals(kafka_topic, [{"sku": "b"}, ("a", at.replace(hour=11))], schema=schema)
    with pytest.raises(ConfigError, match="no field 'sky', only sku, at"):
        assert_topic_equals(kafka_topic, [{"sky": "b"}], schema=schema)


def test_spark_keeps_no_producer_of_a_closed_cluster(
    spark: SparkSession, kafka_topic: Topic
) -> None:
    def producers() -> set[str]:
        jvm: Any = spark._jvm
        threads = jvm.java.lang.Thread.getAllStackTraces().keySet()
        return {name for each in threads if "kafka-producer" in (name := each.getName())}

    frame = spark.createDataFrame([("x",)], "value STRING")
    kafka_topic.write(frame)
    before = producers()
    with EmbeddedKafka(brokers=2) as other:
        other.topic("gone").write(frame)
        assert len(producers()) == len(before) + 1
    assert producers() == before
    kafka_topic.write(frame)
    assert len(kafka_topic.read()) == 2
