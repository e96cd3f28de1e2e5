"""Every helper of `embedkafka.spark`, once, on any PySpark: classic, and as Spark Connect.

`make matrix` runs this file with each release of PySpark, and again on a Spark Connect server:

    pytest -m gate -n 1 --spark-xdist=shared tests/spark/test_every_helper.py

Not here: what the helpers do in particular (`test_queries`, `test_helpers`, `test_audit`).
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import embedkafka.spark
from embedkafka import EmbeddedKafka, QueryFailed, Topic
from embedkafka.spark import (
    AddRecords,
    AdvanceClock,
    CheckLatest,
    CheckTopic,
    Crash,
    Restart,
    RunningScript,
    ScriptFailed,
    assert_delivered,
    assert_stream,
    assert_topic_equals,
    audit,
    check_stream,
    crash_between_write_and_commit,
    drain,
    immediate_triggers,
    latest_by_key,
    progress,
    restart,
    run_script,
)
from embedkafka.spark.report import describe_query
from embedkafka.spark.steps import Action

pytestmark = pytest.mark.gate

ORDERS = "sku STRING, quantity INT"


class Copy:
    """A query from one topic to another."""

    def __init__(
        self,
        spark: SparkSession,
        source: Topic,
        sink: Topic,
        checkpoint: Path,
        interval: str = "0 seconds",
    ) -> None:
        frame = source.stream(spark, key="key").selectExpr(
            "key", "if(value = 'bad', raise_error('no such sku'), value) AS value"
        )
        writer = frame.writeStream.format("kafka").options(**sink.sink_options())
        writer = writer.option("checkpointLocation", str(checkpoint))
        writer = writer.trigger(processingTime=interval)
        self.source, self.sink = source, sink
        self.query = writer.queryName(f"copy_to_{sink.name.replace('-', '_')}").start()

    def drain(self) -> None:
        drain(self.query, topics=[self.source])


@pytest.fixture
def copy(spark: SparkSession, kafka: EmbeddedKafka, checkpoint: Path) -> Iterator[Copy]:
    copy = Copy(spark, kafka.topic(partitions=2), kafka.topic(), checkpoint)
    yield copy
    copy.query.stop()


def test_each_helper_is_used_here() -> None:
    used = set(globals()) | {"local_session"}  # the fixture `spark`
    used |= {"run_pipeline", "PipelineFailed"}  # `examples/pipeline`, from Spark 4.1 on
    assert set(embedkafka.spark.__all__) <= used


def test_a_query_is_drained_described_audited_and_mourned(copy: Copy) -> None:
    copy.source.send_many(["a", "b", "c"], keys=["1", "2", "3"])
    copy.drain()
    heading, *batches = progress(copy.query).splitlines()
    assert heading.endswith("read up to")
    ends = copy.source.end_offsets()
    said = " ".join(f"{copy.source.name}-{number}:{end}" for number, end in ends.items())
    assert batches[-1].endswith(said)
    assert said in describe_query(copy.query), "the failure report has the table"
    assert audit(copy.source, copy.sink).delivered == 3
    assert assert_delivered(copy.source, copy.sink).ok
    copy.source.send("bad")
    with pytest.raises(QueryFailed, match="no such sku"):
        copy.sink.wait_for(4, timeout_s=60)
    assert "no such sku" in describe_query(copy.query)


def test_a_job_is_tested_in_one_call(spark: SparkSession, kafka: EmbeddedKafka) -> None:
    def totals(orders: DataFrame) -> DataFrame:
        return orders.groupBy("sku").agg(F.sum("quantity").alias("total"))

    given: list[Any] = [("a", 2), ("b", 1), ("a", 3)]
    expected = [("a", 5), ("b", 1)]
    assert_stream(
        kafka,
        spark,
        given=given,
        schema=ORDERS,
        job=totals,
        expected=expected,
        output_mode="complete",
    )


def test_topics_are_written_read_and_compared(spark: SparkSession, kafka_topic: Topic) -> None:
    kafka_topic.write(spark.createDataFrame([("a", 1), ("b", 3)], ORDERS), key="sku")
    assert_topic_equals(kafka_topic, [("a", 1), ("b", 3)], schema=ORDERS)
    kafka_topic.send_json({"sku": "a", "quantity": 2}, key="a")
    assert latest_by_key(kafka_topic)["a"] == {"sku": "a", "quantity": 2}
    assert latest_by_key(kafka_topic, ORDERS)["a"]["quantity"] == 2
    rows = kafka_topic.to_df(spark, schema=ORDERS).where("key = 'b'").collect()
    assert [row.value.quantity for row in rows] == [3]


def test_long_triggers_fire_at_once(
    spark: SparkSession, kafka: EmbeddedKafka, checkpoint: Path
) -> None:
    with immediate_triggers() as replaced:
        hourly = Copy(spark, kafka.topic(), kafka.topic(), checkpoint, "1 hour")
    assert replaced == ["1 hour"]
    for value in ("one", "two"):
        hourly.source.send(value)
        hourly.drain()
    hourly.query.stop()
    assert [record.text for record in hourly.sink.read()] == ["one", "two"]


def test_a_script_runs_as_it_is(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path) -> None:
    def write() -> None:
        session = SparkSession.builder.getOrCreate()
        session.range(3).write.parquet("/out")
        sys.exit("no more numbers")

    script: RunningScript = run_script(write, kafka=kafka, spark=spark, directory=tmp_path)
    with pytest.raises(ScriptFailed, match="no more numbers"), script:
        script.wait()
    assert spark.read.parquet(str(script.path("/out"))).count() == 3


def test_a_query_crashes_and_is_restarted(copy: Copy) -> None:
    copy.source.send("one")
    copy.drain()
    crash_between_write_and_commit(copy.query)
    copy.query = restart(copy.query)
    copy.drain()
    assert [record.text for record in copy.sink.read()] == ["one", "one"]


def test_a_job_is_tested_in_steps(
    spark: SparkSession, kafka: EmbeddedKafka, checkpoint: Path
) -> None:
    source, sink = kafka.topic(), kafka.topic()

    def job(spark: SparkSession) -> StreamingQuery:
        return Copy(spark, source, sink, checkpoint).query

    steps: list[Action] = [
        AddRecords(source, "one", key="a"),
        CheckTopic(sink, ["one"]),
        AddRecords(source, {"n": 2}, None, key="n"),
        CheckTopic(sink, ["one", {"n": 2}, None], ignore_order=False),
        CheckLatest(sink, {"a": "one", "2": {"n": 2}}),
        AdvanceClock(days=1),
    ]
    check_stream(kafka, spark, job, steps)
    source.send("three", key="c")
    repeated = ["one", {"n": 2}, None, "three", "three"]
    crashed: list[Action] = [Crash(), Restart(), CheckTopic(sink, repeated)]
    check_stream(kafka, spark, job, crashed)
