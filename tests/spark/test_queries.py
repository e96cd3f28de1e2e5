"""Draining, restarting and crashing queries."""

import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState

from embedkafka import AwaitTimeout, ConfigError, EmbeddedKafka, QueryFailed, Topic
from embedkafka.spark import (
    crash_between_write_and_commit,
    drain,
    immediate_triggers,
    latest_by_key,
    progress,
    restart,
)
from embedkafka.spark.frames import stream
from tests.spark.conftest import TableQuery

MANY = 40
START_MS = 1_700_000_000_000
# Triggers fire at multiples of their interval since 1970. An hour may end during a test.
RARELY = {"processingTime": "300000 hours"}
EACH_SECOND = {"processingTime": "1 second"}
AVAILABLE_NOW = {"availableNow": True}


def seen(query: TableQuery) -> list[str]:
    return sorted(row.value for row in query.rows())


def windows(spark: SparkSession, topic: Topic) -> DataFrame:
    timed = stream(spark, topic).withWatermark("timestamp", "10 seconds")
    return timed.groupBy(F.window("timestamp", "10 seconds")).count()


def stopping(query: StreamingQuery, started: list[StreamingQuery]) -> StreamingQuery:
    started.append(query)
    return query


@pytest.fixture
def started() -> Iterator[list[StreamingQuery]]:
    """Queries to stop after the test."""
    queries: list[StreamingQuery] = []
    yield queries
    for query in queries:
        query.stop()


def into_topic(
    frame: DataFrame, sink: Topic, checkpoint: Path, started: list[StreamingQuery]
) -> StreamingQuery:
    writer = frame.select("value").writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", sink.bootstrap_servers)
    writer = writer.option("topic", sink.name).option("checkpointLocation", str(checkpoint))
    return stopping(writer.queryName("copy").start(), started)


def test_a_drained_query_has_processed_what_was_there(
    spark: SparkSession, kafka: EmbeddedKafka, start_query: Callable[..., TableQuery]
) -> None:
    topic = kafka.topic(partitions=3)
    topic.send_many(str(n) for n in range(MANY))
    query = start_query(stream(spark, topic, options={"maxOffsetsPerTrigger": 15}))
    drain(query)
    assert len(seen(query)) == MANY
    topic.send("late")
    drain(query)
    assert "late" in seen(query)
    assert query.lastProgress is not None
    assert query.lastProgress["numInputRows"] == 1
    drain(query)  # there is nothing to do


@pytest.mark.parametrize(
    "trigger",
    [None, EACH_SECOND, AVAILABLE_NOW],
    ids=["default", "processingTime", "availableNow"],
)
def test_draining_closes_the_windows_that_the_watermark_has_passed(
    spark: SparkSession,
    kafka_topic: Topic,
    start_query: Callable[..., TableQuery],
    trigger: dict[str, Any] | None,
) -> None:
    kafka_topic.send("first", timestamp_ms=START_MS)
    query = start_query(windows(spark, kafka_topic), trigger=trigger)
    drain(query)
    kafka_topic.send("a minute later", timestamp_ms=START_MS + 60_000)
    if trigger == AVAILABLE_NOW:
        query = start_query(windows(spark, kafka_topic), trigger=trigger)
    drain(query)
    assert [row["count"] for row in query.rows()] == [1]
    assert query.lastProgress is not None
    assert query.lastProgress["numInputRows"] == 0, "the batch without data is told too"


def test_draining_gives_the_rows_of_an_outer_join_that_the_watermark_has_passed(
    spark: SparkSession,
    kafka: EmbeddedKafka,
    start_query: Callable[..., TableQuery],
) -> None:
    seen_at, clicked_at = kafka.topic(), kafka.topic()
    for topic in (seen_at, clicked_at):
        topic.send("a", key="alone" if topic is seen_at else "other", timestamp_ms=START_MS)
        topic.send("b", key="later", timestamp_ms=START_MS + 60_000)
    seen, clicked = (
        topic.stream(spark, key=key, timestamp=at).withWatermark(at, "10 seconds")
        for topic, key, at in ((seen_at, "ad", "seen_at"), (clicked_at, "clicked", "at"))
    )
    in_time = F.expr("ad = clicked AND at BETWEEN seen_at AND seen_at + interval 5 seconds")
    joined = seen.join(clicked, in_time, "leftOuter").select("ad", "clicked")
    query = start_query(joined, trigger=EACH_SECOND)
    drain(query)
    assert sorted(map(tuple, query.rows())) == [("alone", None), ("later", "later")]


@pytest.mark.gate
def test_draining_lets_timeouts_fire_that_the_watermark_has_passed(
    spark: SparkSession,
    kafka_topic: Topic,
    start_query: Callable[..., TableQuery],
) -> None:
    def count(key: Any, frames: Any, state: GroupState) -> Iterator[Any]:
        pandas = import_module("pandas")  # Any: it has no types
        if state.hasTimedOut:
            state.remove()
            yield pandas.DataFrame({"user": [key[0]]})
        else:
            state.update((sum(map(len, frames)),))
            state.setTimeoutTimestamp(START_MS + 10_000)

    clicks = kafka_topic.stream(spark, key="user", timestamp="at").withWatermark("at", "1 second")
    idle = clicks.groupBy("user").applyInPandasWithState(
        count, "user STRING", "clicks INT", "append", "EventTimeTimeout"
    )
    for user, later_ms in (("a", 0), ("b", 60_000)):
        kafka_topic.send("click", key=user, timestamp_ms=START_MS + later_ms)
    # A batch that starts a Python worker takes longer than a second.
    query = start_query(idle, trigger={"processingTime": "10 seconds"})
    drain(query)
    assert sorted(row.user for row in query.rows()) == ["a", "b"]


@pytest.mark.parametrize("owing", ["no state", "complete", "no batches without data"])
def test_a_query_that_waits_for_no_watermark_is_drained_before_its_next_trigger(
    spark: SparkSession, kafka_topic: Topic, start_query: Callable[..., TableQuery], owing: str
) -> None:
    kafka_topic.send("first", timestamp_ms=START_MS)
    frame, mode = windows(spark, kafka_topic), "append"
    if owing == "no state":
        frame = stream(spark, kafka_topic).withWatermark("timestamp", "10 seconds")
    if owing == "complete":
        mode = "complete"
    is_allowed = "spark.sql.streaming.noDataMicroBatches.enabled"
    spark.conf.set(is_allowed, str(owing != "no batches without data").lower())
    try:
        query = start_query(frame, trigger=RARELY, output_mode=mode)
        drain(query)
    finally:
        spark.conf.unset(is_allowed)


def test_available_now_and_intervals_are_drained_too(
    spark: SparkSession, kafka_topic: Topic, start_query: Callable[..., TableQuery]
) -> None:
    kafka_topic.send("one")
    frame = stream(spark, kafka_topic)
    ending = start_query(frame, trigger={"availableNow": True})
    rare = start_query(frame, trigger=RARELY)
    drain(ending)
    assert not ending.isActive
    assert seen(ending) == ["one"]
    drain(rare)
    assert seen(rare) == ["one"]
    kafka_topic.send("two")
    with pytest.raises(AwaitTimeout, match=r"has ended before .*-0 at 1 of 2; it takes what is"):
        drain(ending)
    waits = (
        r"-0 at 1 of 2; .*trigger processingTime 300000 hours; it waits for the next trigger of "
        r"processingTime 300000 hours, in \d+ s; `embedkafka\.spark\.immediate_triggers\(\)`"
    )
    with pytest.raises(AwaitTimeout, match=waits):
        drain(rare, timeout_s=0.1)


def test_immediate_triggers_fire_as_soon_as_there_is_data_and_only_inside(
    spark: SparkSession,
    kafka: EmbeddedKafka,
    start_query: Callable[..., TableQuery],
) -> None:
    topic = kafka.topic()
    with immediate_triggers() as replaced:
        query = start_query(stream(spark, topic), trigger=RARELY)
        ending = start_query(stream(spark, topic), trigger=AVAILABLE_NOW)
    after = start_query(stream(spark, topic), trigger=RARELY)
    assert replaced == ["300000 hours"]
    drain(query, ending, after)
    topic.send("one")
    drain(query)
    assert seen(query) == ["one"]
    with pytest.raises(AwaitTimeout, match="has ended"):
        drain(ending)
    with pytest.raises(AwaitTimeout, match="processingTime 300000 hours"):
        drain(after, timeout_s=0.1)


def test_an_interval_that_spark_does_not_take_is_refused_by_spark(
    spark: SparkSession, kafka_topic: Topic
) -> None:
    writer = stream(spark, kafka_topic).writeStream
    with immediate_triggers() as replaced, pytest.raises(PySparkException, match="fortnight"):
        writer.trigger(processingTime="1 fortnight")
    assert replaced == []


def test_a_pipeline_is_drained_in_its_order(
    spark: SparkSession,
    kafka: EmbeddedKafka,
    checkpoint: Path,
    start_query: Callable[..., TableQuery],
    started: list[StreamingQuery],
) -> None:
    source, middle = kafka.topic(), kafka.topic()
    first = into_topic(stream(spark, source), middle, checkpoint, started)
    second = start_query(stream(spark, middle))
    source.send_many(["one", "two"])
    drain(first, second)
    assert seen(second) == ["one", "two"]


def test_of_several_queries_any_that_fails_ends_the_wait(
    spark: SparkSession, kafka_topic: Topic, start_query: Callable[..., TableQuery]
) -> None:
    frame = stream(spark, kafka_topic)
    rare = start_query(frame, trigger=RARELY)
    drain(rare)
    failing = start_query(frame.selectExpr("raise_error('no such sku')"))
    kafka_topic.send("one")
    for queries in ((rare, failing), (failing, rare)):
        with pytest.raises(StreamingQueryException, match="no such sku"):
            drain(*queries)


def test_a_continuous_query_is_drained_by_its_epochs(
    spark: SparkSession, kafka: EmbeddedKafka, checkpoint: Path, started: list[StreamingQuery]
) -> None:
    source, sink = kafka.topic(), kafka.topic()
    writer = stream(spark, source).select("value").writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    writer = writer.option("topic", sink.name).option("checkpointLocation", str(checkpoint))
    query = stopping(writer.trigger(continuous="200 milliseconds").start(), started)
    source.send_many(["one", "two"])
    drain(query)
    assert [message.text for message in sink.read()] == ["one", "two"]
    with pytest.raises(ConfigError, match="is continuous"):
        restart(query)


def test_markers_of_transactions_are_passed_and_open_ones_are_not_waited_for(
    spark: SparkSession, kafka_topic: Topic, start_query: Callable[..., TableQuery]
) -> None:
    servers = {"bootstrap.servers": kafka_topic.bootstrap_servers}
    producers = [Producer({**servers, "transactional.id": name}) for name in ("done", "open")]
    for producer in producers:
        producer.init_transactions(30)
        producer.begin_transaction()
    producers[0].produce(kafka_topic.name, "committed")
    producers[0].commit_transaction(30)
    producers[1].produce(kafka_topic.name, "open")
    assert producers[1].flush(30) == 0
    options = {"kafka.isolation.level": "read_committed"}
    query = start_query(stream(spark, kafka_topic, options=options))
    drain(query)
    assert seen(query) == ["committed"]
    producers[1].abort_transaction(30)
    drain(query)
    assert seen(query) == ["committed"]


def test_a_query_that_fails_ends_the_wait_with_its_exception(
    spark: SparkSession, kafka_topic: Topic, start_query: Callable[..., TableQuery]
) -> None:
    kafka_topic.send("not a number")
    query = start_query(stream(spark, kafka_topic).selectExpr("raise_error('no such sku')"))
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="no such sku"):
            drain(query)


def test_a_wait_on_a_topic_ends_with_the_query_that_should_write_there(
    spark: SparkSession,
    kafka: EmbeddedKafka,
    checkpoint: Path,
    started: list[StreamingQuery],
    start_query: Callable[..., TableQuery],
) -> None:
    orders, prices, others = kafka.topic(), kafka.topic(), kafka.topic()
    frame = stream(spark, orders)
    start_query(frame)  # runs on, and is known to write elsewhere
    frame = frame.selectExpr("if(value = 'good', value, raise_error('no such sku')) as value")
    into_topic(frame, prices, checkpoint, started)
    orders.send("good")
    prices.wait_for(1)
    orders.send("bad")
    with pytest.raises(QueryFailed, match=r"2 records of (?s:.*) query copy .*no such sku") as wait:
        prices.wait_for(2)
    assert isinstance(wait.value.exception, StreamingQueryException)
    assert len(prices.wait_for(1)) == 1, "it was written before"
    with pytest.raises(QueryFailed, match="no such sku"):
        prices.await_offsets(2)
    with pytest.raises(AwaitTimeout, match="no such sku") as other:
        others.wait_for(1, timeout_s=0.1)
    assert not isinstance(other.value, QueryFailed), "another program may write there"

    is_awaited = threading.Event()

    def write(rows: DataFrame, batch: int) -> None:
        is_awaited.wait(60)
        raise ValueError("in the sink")

    stopping(stream(spark, orders).writeStream.foreachBatch(write).start(), started)
    with pytest.raises(QueryFailed, match="in the sink"):
        others.wait_for(lambda _: is_awaited.set())


def test_a_query_without_kafka_says_what_to_do(
    spark: SparkSession, start_query: Callable[..., TableQuery]
) -> None:
    query = start_query(spark.readStream.format("rate").load())
    with pytest.raises(ConfigError, match="has no Kafka source; for others use"):
        drain(query)


def test_a_restarted_query_goes_on_from_its_checkpoint(
    spark: SparkSession, kafka: EmbeddedKafka, checkpoint: Path, started: list[StreamingQuery]
) -> None:
    source, sink = kafka.topic(), kafka.topic()
    source.send("before")
    query = into_topic(stream(spark, source), sink, checkpoint, started)
    drain(query)
    again = stopping(restart(query), started)
    assert not query.isActive
    assert (again.id, again.name) == (query.id, "copy")
    assert again.runId != query.runId
    drain(again)  # it has nothing to do, and no progress to tell of
    source.send("after")
    drain(again)
    assert [message.text for message in sink.read()] == ["before", "after"]


def test_a_crash_between_write_and_commit_repeats_the_last_batch(
    spark: SparkSession, kafka: EmbeddedKafka, checkpoint: Path, started: list[StreamingQuery]
) -> None:
    source, sink = kafka.topic(), kafka.topic()
    query = into_topic(stream(spark, source), sink, checkpoint, started)
    for value in ("one", "two"):
        source.send(value)
        drain(query)
    batch = crash_between_write_and_commit(query)
    assert crash_between_write_and_commit(query) == batch
    assert not query.isActive
    again = stopping(restart(query), started)
    source.send("three")
    drain(again)
    assert [message.text for message in sink.read()] == ["one", "two", "two", "three"]


def test_python_functions_and_state_survive_a_crash(
    spark: SparkSession, kafka_topic: Topic, checkpoint: Path, started: list[StreamingQuery]
) -> None:
    batches: list[tuple[int, dict[str, int]]] = []

    def keep(frame: DataFrame, batch: int) -> None:
        batches.append((batch, dict(frame.collect())))

    counts = stream(spark, kafka_topic).groupBy("value").count()
    writer = counts.writeStream.foreachBatch(keep).outputMode("update")
    query = stopping(writer.option("checkpointLocation", str(checkpoint)).start(), started)
    for _ in range(2):
        kafka_topic.send("a")
        drain(query)
    batch = crash_between_write_and_commit(query)
    query = stopping(restart(query), started)
    kafka_topic.send("a")
    drain(query)
    told = [(number, counted) for number, counted in batches if counted]
    assert told[-3:] == [(batch, {"a": 2}), (batch, {"a": 2}), (batch + 1, {"a": 3})]


def test_a_query_without_a_checkpoint_cannot_go_on(
    spark: SparkSession, kafka_topic: Topic, start_query: Callable[..., TableQuery]
) -> None:
    query = start_query(stream(spark, kafka_topic))
    for use in (restart, crash_between_write_and_commit):
        with pytest.raises(ConfigError, match="checkpointLocation"):
            use(query)
    assert query.isActive


def test_a_schema_gives_the_latest_values_types(spark: SparkSession, kafka: EmbeddedKafka) -> None:
    totals = kafka.topic(partitions=2)
    for total in (1, 2):
        totals.send_json({"total": total, "at": f"2026-01-0{total} 10:00:00"}, key="a")
    totals.send(None, key="gone")
    (found,) = latest_by_key(totals, "total int, at timestamp").values()
    assert (found["total"], found["at"].day) == (2, 2)


def test_an_empty_topic_has_nothing_to_drain(
    spark: SparkSession, kafka_topic: Topic, start_query: Callable[..., TableQuery]
) -> None:
    query = start_query(stream(spark, kafka_topic))
    drain(query)
    assert query.rows() == []


def test_progress_is_told_by_batches(
    spark: SparkSession, kafka_topic: Topic, start_query: Callable[..., TableQuery]
) -> None:
    kafka_topic.send("one")
    query = start_query(stream(spark, kafka_topic))
    drain(query)
    heading, first = progress(query).splitlines()
    assert heading.split()[0] == "batch"
    assert first.split()[:3] == ["0", "1", "1"]
    assert first.endswith(f"{kafka_topic.name}-0:1")
