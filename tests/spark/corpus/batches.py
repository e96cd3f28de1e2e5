"""Pairs about batches: what depends on where they end, on partitions, on chance."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from embedkafka.explore import Input, Options, all_records, files
from tests.spark.corpus.parts import (
    Given,
    Store,
    columns,
    lines,
    start,
    to_files,
    to_function,
    to_topic,
)

READINGS = [{"sensor": sensor, "n": n} for n in (9, 6, 3) for sensor in "ab"]


def reading(schema: str, save: Callable[[DataFrame, int, Options], None]) -> Given:
    """A job that gives readings to a function."""
    return {
        "job": lambda spark, options: to_function(
            columns(spark, options, "in", schema), options, save
        ),
        "inputs": {"in": Input(READINGS, key="sensor")},
    }


class TotalOfBatch:
    """Keeps the totals of the last batch, or those of all."""

    says = "they differ"

    def __init__(self) -> None:
        self._totals = Store("totals (sensor TEXT PRIMARY KEY, n INTEGER)")

    def wrong(self) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            self._replace(batch.groupBy("sensor").sum("n"), number, options)

        return {**reading("sensor STRING, n INT", save), "outputs": {"out": self._totals.rows}}

    def right(self) -> Given:
        def job(spark: SparkSession, options: Options) -> StreamingQuery:
            totals = columns(spark, options, "in", "sensor STRING, n INT").groupBy("sensor").sum()
            writer = totals.writeStream.outputMode("update")
            return start(
                writer.foreachBatch(lambda batch, n: self._replace(batch, n, options)), options
            )

        return {**self.wrong(), "job": job}

    def _replace(self, batch: DataFrame, number: int, options: Options) -> None:
        rows = [tuple(row) for row in batch.collect()]
        self._totals.change(options, "INSERT OR REPLACE INTO totals VALUES (?, ?)", rows)


class TopOfBatch:
    """Keeps the highest reading of the last batch, or of all."""

    says = "they differ"

    def __init__(self) -> None:
        self._top = Store("top (sensor TEXT PRIMARY KEY, n INTEGER)")

    def wrong(self) -> Given:
        return self._given("INSERT OR REPLACE INTO top VALUES (?, ?)")

    def right(self) -> Given:
        return self._given(
            "INSERT INTO top VALUES (?, ?) ON CONFLICT DO UPDATE SET n = max(n, excluded.n)"
        )

    def _given(self, statement: str) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            highest = batch.groupBy("sensor").agg(F.max("n"))
            self._top.change(options, statement, [tuple(row) for row in highest.collect()])

        return {**reading("sensor STRING, n INT", save), "outputs": {"out": self._top.rows}}


class AverageOfAverages:
    """Averages the average so far and that of a batch, or keeps sums and counts of batches."""

    says = "they differ"

    def __init__(self) -> None:
        self._parts = Store("parts (batch INTEGER PRIMARY KEY, n REAL, count INTEGER)")

    def wrong(self) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            values = [row.n for row in batch.collect()]
            if not values:
                return
            before = [row["n"] for row in self._parts.rows(batch.sparkSession, options)]
            average = sum(values) / len(values)
            average = (before[0] + average) / 2 if before else average
            self._replace(options, (0, average, 1))

        return self._given(save)

    def right(self) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            values = [row.n for row in batch.collect()]
            self._replace(options, (number, sum(values), len(values)))

        return self._given(save)

    def _given(self, save: Callable[[DataFrame, int, Options], None]) -> Given:
        return {**reading("n DOUBLE", save), "outputs": {"out": self._average}}

    def _replace(self, options: Options, row: tuple[float, ...]) -> None:
        self._parts.change(options, "INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", [row])

    def _average(self, spark: SparkSession, options: Options) -> list[dict[str, float]]:
        parts = self._parts.rows(spark, options)
        count = sum(part["count"] for part in parts)
        return [{"average": sum(part["n"] for part in parts) / count}] if count else []


class IdsOfBatch:
    """Numbers the rows of each batch from 0, or takes an id from the row."""

    says = "lost"

    def __init__(self) -> None:
        self._rows = Store("rows (id TEXT PRIMARY KEY, value TEXT)")

    def wrong(self) -> Given:
        return self._given("monotonically_increasing_id()")

    def right(self) -> Given:
        return self._given("sha2(value, 256)")

    def _given(self, id: str) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            rows = [tuple(row) for row in batch.selectExpr(id, "value").collect()]
            self._rows.change(options, "INSERT OR REPLACE INTO rows VALUES (?, ?)", rows)

        return {
            "job": lambda spark, options: to_function(lines(spark, options, "in"), options, save),
            "inputs": {"in": list("abcd")},
            "outputs": {"out": self._values},
        }

    def _values(self, spark: SparkSession, options: Options) -> list[str]:
        return [row["value"] for row in self._rows.rows(spark, options)]


class OverwrittenDay:
    """Overwrites the days of a batch, though other batches have rows of the same day."""

    says = "lost"

    def wrong(self) -> Given:
        return self._given("day")

    def right(self) -> Given:
        """By day and batch."""
        return self._given("day", "batch")

    def _given(self, *partitions: str) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            rows = batch.selectExpr("id", "day", f"{number} AS batch").select("id", *partitions)
            writer = rows.write.partitionBy(*partitions).mode("overwrite")
            writer.option("partitionOverwriteMode", "dynamic").text(options.path("out"))

        orders = [{"id": f"order {n}", "day": f"2026-01-0{1 + n // 3}"} for n in range(5)]
        return {
            "job": lambda spark, options: to_function(
                columns(spark, options, "in", "id STRING, day STRING"), options, save
            ),
            "inputs": {"in": Input(orders, key="day")},
            "outputs": {"out": files("out", format="text", ignore=["batch"])},
        }


class WindowsByName:
    """Stores the count of each window under its sensor, or under both."""

    says = "they differ"

    def wrong(self) -> Given:
        return self._given(Store("counts (sensor TEXT PRIMARY KEY, start TEXT, n INTEGER)"))

    def right(self) -> Given:
        return self._given(
            Store("counts (sensor TEXT, start TEXT, n INTEGER, PRIMARY KEY (sensor, start))")
        )

    def _given(self, store: Store) -> Given:
        def job(spark: SparkSession, options: Options) -> StreamingQuery:
            events = columns(spark, options, "in", "sensor STRING, at TIMESTAMP")
            counts = events.groupBy("sensor", F.window("at", "10 minutes")).count()
            rows = counts.selectExpr("sensor", "string(window.start)", "count")

            def save(batch: DataFrame, number: int) -> None:
                found = sorted(tuple(row) for row in batch.collect())
                store.change(options, "INSERT OR REPLACE INTO counts VALUES (?, ?, ?)", found)

            return start(rows.writeStream.outputMode("update").foreachBatch(save), options)

        events = [{"sensor": "a", "at": f"2026-01-01T10:{at:02}:00"} for at in (1, 11, 2, 3)]
        return {
            "job": job,
            "inputs": {"in": Input(events, key="sensor")},
            "outputs": {"out": store.rows},
        }


class FilledForward:
    """Fills gaps with the reading before: of the same batch, or the last one that was stored."""

    says = "they differ"

    def __init__(self) -> None:
        self._rows = Store("rows (id INTEGER PRIMARY KEY, n INTEGER)")

    def wrong(self) -> Given:
        return self._given(remembers=False)

    def right(self) -> Given:
        return self._given(remembers=True)

    def _given(self, *, remembers: bool) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            rows = sorted(tuple(row) for row in batch.collect())
            there = self._rows.rows(batch.sparkSession, options) if remembers else []
            before = [row["n"] for row in there if not rows or row["id"] < rows[0][0]]
            last = before[-1] if before else None
            filled = [(id, last := last if n is None else n) for id, n in rows]
            self._rows.change(options, "INSERT OR REPLACE INTO rows VALUES (?, ?)", filled)

        readings = [{"id": n, "n": None if n % 2 else n} for n in range(6)]
        return {
            "job": lambda spark, options: to_function(
                columns(spark, options, "in", "id INT, n INT"), options, save
            ),
            "inputs": {"in": Input(readings, key=lambda reading: "one sensor")},
            "outputs": {"out": self._rows.rows},
        }


class CountedUsers:
    """Adds the number of a batch's users to that of all, or counts them over all batches."""

    says = "they differ"

    def __init__(self) -> None:
        self._users = Store("users (batch INTEGER, user TEXT, PRIMARY KEY (batch, user))")

    def wrong(self) -> Given:
        return self._given(lambda found: [user for users in found for user in users])

    def right(self) -> Given:
        return self._given(lambda found: {user for users in found for user in users})

    def _given(self, unite: Callable[[list[set[str]]], Any]) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            rows = [(number, row.sensor) for row in batch.select("sensor").distinct().collect()]
            self._users.change(options, "INSERT OR REPLACE INTO users VALUES (?, ?)", rows)

        def count(spark: SparkSession, options: Options) -> list[dict[str, int]]:
            batches: dict[int, set[str]] = {}
            for row in self._users.rows(spark, options):
                batches.setdefault(row["batch"], set()).add(row["user"])
            return [{"users": len(unite(list(batches.values())))}]

        return {**reading("sensor STRING", save), "outputs": {"out": count}}


class SampledByChance:
    """Keeps half of the rows, by chance or by their values: no schedule is to blame."""

    says = "the schedule is not to blame"

    def wrong(self) -> Given:
        return self._given("rand() < 0.5")

    def right(self) -> Given:
        return self._given("crc32(value) % 2 = 0")

    def _given(self, condition: str) -> Given:
        def job(spark: SparkSession, options: Options) -> StreamingQuery:
            return to_files(lines(spark, options, "in").where(condition), options)

        values = [f"value {n}" for n in range(40)]
        return {"job": job, "inputs": {"in": values}, "outputs": {"out": files("out")}}


class RandomIds:
    """Gives each row a random id, or one that follows from the row."""

    says = "What varies in out: id."

    def wrong(self) -> Given:
        return self._given("uuid()")

    def right(self) -> Given:
        return self._given("sha2(value, 256)")

    def _given(self, id: str) -> Given:
        def job(spark: SparkSession, options: Options) -> StreamingQuery:
            return to_files(lines(spark, options, "in").selectExpr(f"{id} AS id", "value"), options)

        return {"job": job, "inputs": {"in": list("abc")}, "outputs": {"out": files("out")}}


class AssignedPartition:
    """Reads the partitions that the topic had once, or all that it has."""

    says = "lost"

    def wrong(self) -> Given:
        return self._given(self._assigned)

    def right(self) -> Given:
        return self._given(lambda options: options.read("in"))

    def _given(self, source: Callable[[Options], dict[str, str]]) -> Given:
        def job(spark: SparkSession, options: Options) -> StreamingQuery:
            read = spark.readStream.format("kafka").options(**source(options)).load()
            return to_topic(read.select("value"), options)

        outputs = {"out": all_records(duplicates=True)}
        return {"job": job, "inputs": {"in": list("abcd")}, "outputs": outputs}

    def _assigned(self, options: Options) -> dict[str, str]:
        source = options.read("in", assign=json.dumps({options.topic("in"): [0]}))
        del source["subscribe"]
        return source


class ChainOfTopics:
    """Counts the records of a topic that another query may write twice."""

    says = "they differ"

    def __init__(self) -> None:
        self._counts = Store("counts (sensor TEXT PRIMARY KEY, n INTEGER)")

    def wrong(self) -> Given:
        return self._given(lambda rows: rows)

    def right(self) -> Given:
        return self._given(lambda rows: rows.dropDuplicates(["sensor", "n"]))

    def _given(self, once: Callable[[DataFrame], DataFrame]) -> Given:
        def job(spark: SparkSession, options: Options) -> Sequence[StreamingQuery]:
            copied = lines(spark, options, "in").writeStream.format("kafka")
            copies = copied.options(**options.sink("middle")).trigger(**options.trigger).start()
            rows = columns(spark, options, "middle", "sensor STRING, n INT")
            counts = once(rows).groupBy("sensor").count()

            def save(batch: DataFrame, number: int) -> None:
                found = [tuple(row) for row in batch.collect()]
                replace = "INSERT OR REPLACE INTO counts VALUES (?, ?)"
                self._counts.change(options, replace, found)

            writer = counts.writeStream.outputMode("update").foreachBatch(save)
            return [copies, start(writer, options)]

        return {
            "job": job,
            "inputs": {"in": Input(READINGS[:4], key="sensor")},
            "outputs": {"middle": all_records(duplicates=True), "out": self._counts.rows},
        }
