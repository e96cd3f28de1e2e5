"""Pairs about state and watermarks: records that come late, and records that are gone."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from embedkafka.explore import Input, Options, all_records, files
from tests.spark.corpus.parts import Given, columns, to_files, to_topic


class LateForWindow:
    """Waits a minute for records that come up to two and a half minutes late, or long enough."""

    says = "they differ"

    def wrong(self) -> Given:
        return self._given("1 minute")

    def right(self) -> Given:
        return self._given("150 seconds")

    def _given(self, delay: str) -> Given:
        def job(spark: SparkSession, options: Options) -> StreamingQuery:
            events = columns(spark, options, "in", "sensor STRING, at TIMESTAMP")
            late = events.withWatermark("at", delay)
            counts = late.groupBy("sensor", F.window("at", "1 minute")).count()
            return to_files(counts.selectExpr("sensor", "window.start", "count"), options)

        minutes = [*range(6), 30]
        events = [{"sensor": "a", "at": f"2026-01-01T10:{at:02}:00"} for at in minutes]
        source = Input(events, event_time="at", lateness_s=150, partitions=2)
        return {"job": job, "inputs": {"in": source}, "outputs": {"out": files("out")}}


class LateForSession:
    """Closes a session before a late record could have joined it to the next one, or after."""

    says = "they differ"

    def wrong(self) -> Given:
        return self._given("10 seconds")

    def right(self) -> Given:
        return self._given("200 seconds")

    def _given(self, delay: str) -> Given:
        def job(spark: SparkSession, options: Options) -> StreamingQuery:
            events = columns(spark, options, "in", "user STRING, at TIMESTAMP")
            late = events.withWatermark("at", delay)
            sessions = late.groupBy("user", F.session_window("at", "1 minute")).count()
            return to_files(sessions.selectExpr("user", "session_window.*", "count"), options)

        seconds = [0, 50, 100, 150, 1000]
        events = [
            {"user": "a", "at": f"2026-01-01T10:{at // 60:02}:{at % 60:02}"} for at in seconds
        ]
        source = Input(events, key="user", event_time="at", lateness_s=200)
        return {"job": job, "inputs": {"in": source}, "outputs": {"out": files("out")}}


class ExpiredRecords:
    """Goes on without records that expired while it was down, or refuses to."""

    says = "lost"

    def wrong(self) -> Given:
        return self._given("false")

    def right(self) -> Given:
        return self._given("true")

    def _given(self, fails: str) -> Given:
        def job(spark: SparkSession, options: Options) -> StreamingQuery:
            source = options.read("in", failOnDataLoss=fails)
            read = spark.readStream.format("kafka").options(**source).load()
            return to_topic(read.select("value"), options)

        return {
            "job": job,
            "inputs": {"in": list("abcd")},
            "outputs": {"out": all_records(duplicates=True)},
            "expire": True,
        }
