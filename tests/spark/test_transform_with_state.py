"""`transformWithState`: timers, and state that goes on after a crash and with a new release."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from embedkafka import EmbeddedKafka, Topic
from embedkafka.spark import AddRecords, CheckLatest, Crash, Restart, check_stream
from embedkafka.spark.connector.installed import release_numbers, require_installed_spark

pytestmark = [
    pytest.mark.gate,
    pytest.mark.skipif(
        release_numbers(require_installed_spark().release) < (4, 0),
        reason="transformWithState came with Spark 4.0",
    ),
]

STATE = "spark.sql.streaming.stateStore."
SETTINGS = {
    f"{STATE}providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
    f"{STATE}encodingFormat": "avro",  # with which the fields of a state may change
}
START_MS = 1_700_000_000_000
LATER_MS = START_MS + 60_000


def clicks_counter(fields: str, *more: object) -> Any:
    """Counts the clicks of a user, and says farewell 10 seconds of event time after the last.

    `fields` are those of the state: the count, and `more`. Any: Spark calls it by its methods'
    names. The class is pickled by value, because Spark's workers cannot import this module.
    """

    def said(user: str, text: str) -> Any:
        return import_module("pandas").DataFrame({"key": [user], "value": [text]})

    class Clicks:
        def init(self, handle: Any) -> None:
            self._handle = handle
            self._state = handle.getValueState("clicks", fields)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            before, frames = self._state.get()[0] if self._state.exists() else 0, list(rows)
            count = before + sum(map(len, frames))
            last_ms = max(frame["at"].max().timestamp() * 1000 for frame in frames)
            self._state.update((count, *more))
            for timer in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer)
            self._handle.registerTimer(int(last_ms) + 10_000)
            yield said(key[0], str(count))

        def handleExpiredTimer(
            self, key: Any, timerValues: Any, expiredTimerInfo: Any
        ) -> Iterator[Any]:
            count = self._state.get()[0]
            self._state.clear()
            yield said(key[0], f"farewell after {count}")

        def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
            raise NotImplementedError

        def close(self) -> None:
            """Nothing is open."""

    return Clicks()


@pytest.fixture
def spark(spark: SparkSession) -> Iterator[SparkSession]:
    """With the state store that `transformWithState` needs."""
    for key, value in SETTINGS.items():
        spark.conf.set(key, value)
    yield spark
    for key in SETTINGS:
        spark.conf.unset(key)


@pytest.fixture
def clicks(kafka: EmbeddedKafka) -> Topic:
    return kafka.topic()


@pytest.fixture
def said(kafka: EmbeddedKafka) -> Topic:
    return kafka.topic()


@pytest.fixture
def job(clicks: Topic, said: Topic, checkpoint: Path) -> Callable[[Any], Any]:
    """A job with this processor, for `check_stream`."""

    def with_processor(processor: Any) -> Callable[[SparkSession], StreamingQuery]:
        def start(spark: SparkSession) -> StreamingQuery:
            timed = clicks.stream(spark, key="user", timestamp="at")
            users: Any = timed.withWatermark("at", "1 second").groupBy("user")
            rows = users.transformWithStateInPandas(
                processor, "key STRING, value STRING", "append", "EventTime"
            )
            writer = rows.writeStream.format("kafka").options(**said.sink_options())
            writer = writer.option("checkpointLocation", str(checkpoint))
            started: StreamingQuery = writer.start()
            return started

        return start

    return with_processor


def test_timers_fire_before_a_query_is_drained(
    spark: SparkSession, kafka: EmbeddedKafka, clicks: Topic, said: Topic, job: Callable[[Any], Any]
) -> None:
    check_stream(
        kafka,
        spark,
        job(clicks_counter("n INT")),
        [
            AddRecords(clicks, "click", "click", key="a", timestamp_ms=START_MS),
            CheckLatest(said, {"a": 2}),
            AddRecords(clicks, "click", key="b", timestamp_ms=LATER_MS),
            CheckLatest(said, {"a": "farewell after 2", "b": 1}),
        ],
    )


def test_a_state_counts_once_after_a_crash_and_may_change_its_fields(
    spark: SparkSession, kafka: EmbeddedKafka, clicks: Topic, said: Topic, job: Callable[[Any], Any]
) -> None:
    check_stream(
        kafka,
        spark,
        job(clicks_counter("n INT")),
        [
            AddRecords(clicks, "click", "click", key="a", timestamp_ms=START_MS),
            Crash(),
            Restart(),
            AddRecords(clicks, "click", key="a", timestamp_ms=START_MS),
            CheckLatest(said, {"a": 3}),
            Restart(job(clicks_counter("n INT, note STRING", "by the next release"))),
            AddRecords(clicks, "click", key="a", timestamp_ms=START_MS),
            CheckLatest(said, {"a": 4}),
        ],
    )
