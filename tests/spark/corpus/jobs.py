"""Pairs for the classes of faults that public jobs had.

A pair's methods return the arguments of `explore`; a new pair is made for each exploration.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from embedkafka.explore import Input, Options, all_records, files, latest_by
from tests.spark.corpus.parts import Given, columns, lines, start, to_files, to_topic


class TimeOfProcessing:
    """Each row has the time when it was processed."""

    says = "What varies in out: processed_at."

    def wrong(self) -> Given:
        return {"job": self._job, "inputs": {"in": list("abc")}, "outputs": {"out": files("out")}}

    def right(self) -> Given:
        return {**self.wrong(), "outputs": {"out": files("out", ignore=["processed_at"])}}

    def _job(self, spark: SparkSession, options: Options) -> StreamingQuery:
        rows = lines(spark, options, "in").selectExpr("value", "now() AS processed_at")
        return to_files(rows, options)


class CopiesIntoTopic:
    """Spark's Kafka sink repeats a batch after a crash; the test counts each record."""

    says = "promises each record at least once"

    def wrong(self) -> Given:
        inputs = {"in": Input([("a", "1"), ("b", "2"), ("c", "3")])}
        return {"job": self._job, "inputs": inputs, "outputs": {"out": all_records()}}

    def right(self) -> Given:
        return {**self.wrong(), "outputs": {"out": all_records(duplicates=True)}}

    def _job(self, spark: SparkSession, options: Options) -> StreamingQuery:
        return to_topic(lines(spark, options, "in"), options)


class UpdatesWithoutKey:
    """Update mode into a topic without a key: how many updates there are depends on the batches."""

    says = "they differ"

    def wrong(self) -> Given:
        readings = [{"sensor": sensor, "n": n} for n in range(3) for sensor in "ab"]
        inputs = {"in": Input(readings, key="sensor")}
        return {"job": self._job, "inputs": inputs, "outputs": {"out": all_records()}}

    def right(self) -> Given:
        return {**self.wrong(), "outputs": {"out": latest_by("sensor")}}

    def _job(self, spark: SparkSession, options: Options) -> StreamingQuery:
        counts = columns(spark, options, "in", "sensor STRING").groupBy("sensor").count()
        return to_topic(counts.selectExpr("to_json(struct(*)) AS value"), options, "update")


class ClicksOfImpressions:
    """Joins each impression with its click: with those that are there, or with those to come.

    After a restart, the right one gives an impression without a click only once both inputs go on.
    """

    says = "they differ"

    def wrong(self) -> Given:
        shown = [{"id": n, "at": f"2026-01-01T10:{n * 7:02}:00"} for n in range(6)]
        clicked = [{"click": n, "on": f"2026-01-01T10:{n * 7 + 1:02}:00"} for n in (1, 2, 4, 5)]
        return {
            "job": self._looks_up,
            "inputs": {
                "shown": Input(shown, key="id", event_time="at"),
                "clicked": Input(clicked, key="click", event_time="on"),
            },
            "outputs": {"out": files("out", key="id")},
        }

    def right(self) -> Given:
        return {**self.wrong(), "job": self._joins}

    def _looks_up(self, spark: SparkSession, options: Options) -> StreamingQuery:
        there = spark.read.format("kafka").options(**options.read("clicked")).load()
        clicks = there.selectExpr("from_json(string(value), 'click INT') AS row").select("row.*")
        shown = columns(spark, options, "shown", "id INT, at TIMESTAMP")
        return to_files(shown.join(clicks, F.expr("id = click"), "left"), options)

    def _joins(self, spark: SparkSession, options: Options) -> StreamingQuery:
        shown = columns(spark, options, "shown", "id INT, at TIMESTAMP")
        clicked = columns(spark, options, "clicked", "click INT, on TIMESTAMP")
        in_time = F.expr("id = click AND on BETWEEN at AND at + INTERVAL 10 MINUTES")
        late = "5 minutes"
        both = shown.withWatermark("at", late).join(
            clicked.withWatermark("on", late), in_time, "left"
        )
        return to_files(both.select("id", "click"), options)


class OnceIntoLedger:
    """Drops duplicates behind a watermark, and appends each batch to a ledger.

    The last batch has no records, so only a crash of the one before appends anything twice.
    """

    says = "doubled"

    def __init__(self) -> None:
        self._batches: list[tuple[int, list[dict[str, Any]]]] = []

    def wrong(self) -> Given:
        events = [{"id": n, "at": f"2026-01-05T10:{n * 5:02}:00"} for n in range(6)]
        return {
            "job": self._job,
            "inputs": {"in": Input(events, key="id", event_time="at")},
            "outputs": {"ledger": lambda spark: [row for _, rows in self._batches for row in rows]},
            "reset": self._batches.clear,
        }

    def right(self) -> Given:
        """By the number of the batch."""
        unique = {
            "ledger": lambda spark: [row for rows in dict(self._batches).values() for row in rows]
        }
        return {**self.wrong(), "outputs": unique}

    def _job(self, spark: SparkSession, options: Options) -> StreamingQuery:
        events = columns(spark, options, "in", "id INT, at TIMESTAMP")
        once = events.withWatermark("at", "10 minutes").dropDuplicates(["id", "at"])
        return start(once.select("id").writeStream.foreachBatch(self._append), options)

    def _append(self, batch: DataFrame, number: int) -> None:
        self._batches.append((number, [row.asDict() for row in batch.collect()]))


class MarkedBeforeRows:
    """Notes a batch as done, then appends its rows: a driver that dies in between loses them."""

    says = "lost"

    def __init__(self) -> None:
        self._done: set[int] = set()
        self._rows: list[dict[str, Any]] = []

    def wrong(self) -> Given:
        return {
            "job": lambda spark, options: self._start(spark, options, self._mark_and_append),
            "inputs": {"in": list("abcd")},
            "outputs": {"rows": lambda spark: self._rows},
            "reset": lambda: (self._done.clear(), self._rows.clear()),
        }

    def right(self) -> Given:
        """Both at once."""
        return {
            **self.wrong(),
            "job": lambda spark, options: self._start(spark, options, self._append_and_mark),
        }

    def _start(
        self, spark: SparkSession, options: Options, write: Callable[[DataFrame, int], None]
    ) -> StreamingQuery:
        return start(lines(spark, options, "in").writeStream.foreachBatch(write), options)

    def _mark_and_append(self, batch: DataFrame, number: int) -> None:
        if number not in self._done:
            self._done.add(number)
            rows = [row.asDict() for row in batch.collect()]
            self._rows.extend(rows)

    def _append_and_mark(self, batch: DataFrame, number: int) -> None:
        rows = [row.asDict() for row in batch.collect()]
        if number not in self._done:
            self._rows, self._done = [*self._rows, *rows], {*self._done, number}


class SwallowedFailure:
    """Logs that a write has failed, and goes on with the next batch."""

    says = "lost"

    def wrong(self) -> Given:
        return {
            "job": lambda spark, options: self._start(spark, options, OSError, Exception),
            "inputs": {"in": list("abcd")},
            "outputs": {"out": self._written},
        }

    def right(self) -> Given:
        """It lets the query fail, which starts again."""
        return {**self.wrong(), "job": lambda spark, options: self._start(spark, options, OSError)}

    def _start(
        self, spark: SparkSession, options: Options, *caught: type[Exception]
    ) -> StreamingQuery:
        def write(batch: DataFrame, number: int) -> None:
            try:
                batch.write.mode("overwrite").parquet(options.path(f"out/batch={number}"))
            except caught as error:
                print(f"batch {number} failed: {type(error).__name__}")

        return start(lines(spark, options, "in").writeStream.foreachBatch(write), options)

    def _written(self, spark: SparkSession, options: Options) -> Any:
        found = Path(options.path("out"))
        return spark.read.parquet(str(found)).select("value") if found.exists() else []


class LastArrival:
    """Keeps the last change that arrived for each key, or the one with the highest version.

    A connector that restarts sends old changes again.
    """

    says = "they differ"

    def __init__(self) -> None:
        self._store: dict[int, dict[str, Any]] = {}

    def wrong(self) -> Given:
        changes = [{"id": 1, "version": n, "status": s} for n, s in enumerate(("new", "paid"))]
        return {
            "job": lambda spark, options: self._start(spark, options, lambda new, old: True),
            "inputs": {"in": Input([*changes, {**changes[0], "id": 2}], key="id", resends=True)},
            "outputs": {"store": lambda spark: list(self._store.values())},
            "reset": self._store.clear,
        }

    def right(self) -> Given:
        return {
            **self.wrong(),
            "job": lambda spark, options: self._start(
                spark, options, lambda new, old: new["version"] >= old["version"]
            ),
        }

    def _start(
        self, spark: SparkSession, options: Options, replaces: Callable[[Any, Any], bool]
    ) -> StreamingQuery:
        def upsert(batch: DataFrame, number: int) -> None:
            for row in map(Row.asDict, batch.collect()):
                if row["id"] not in self._store or replaces(row, self._store[row["id"]]):
                    self._store[row["id"]] = row

        changes = columns(spark, options, "in", "id INT, version INT, status STRING")
        return start(changes.writeStream.foreachBatch(upsert), options)


class OnceInBatch:
    """Drops the duplicates of a batch, though a copy may come in a later one."""

    says = "doubled"

    def __init__(self) -> None:
        self._batches: dict[int, list[str]] = {}

    def wrong(self) -> Given:
        return {
            "job": self._job,
            "inputs": {"in": Input(list("abc"), resends=True)},
            "outputs": {"out": lambda spark: [v for each in self._batches.values() for v in each]},
            "reset": self._batches.clear,
        }

    def right(self) -> Given:
        """Over all batches."""
        unique = {"out": lambda spark: sorted({v for each in self._batches.values() for v in each})}
        return {**self.wrong(), "outputs": unique}

    def _job(self, spark: SparkSession, options: Options) -> StreamingQuery:
        def write(batch: DataFrame, number: int) -> None:
            self._batches[number] = [row.value for row in batch.dropDuplicates(["value"]).collect()]

        return start(lines(spark, options, "in").writeStream.foreachBatch(write), options)


class RebuiltTable:
    """Appends rows to a table, or replaces those of the same key: then it may start over."""

    says = "doubled"

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._batches: set[int] = set()

    def wrong(self) -> Given:
        return {**self.right(), "outputs": {"rows": lambda spark: self._rows}}

    def right(self) -> Given:
        return {
            "job": self._job,
            "inputs": {"in": Input([{"id": n} for n in range(4)], key="id")},
            "outputs": {"rows": lambda spark: {row["id"]: row for row in self._rows}},
            "reset": self._rows.clear,
            "rebuild": True,
            "without": ["crash", "inside"],
        }

    def _job(self, spark: SparkSession, options: Options) -> StreamingQuery:
        def append(batch: DataFrame, number: int) -> None:
            self._rows.extend(row.asDict() for row in batch.collect())

        changes = columns(spark, options, "in", "id INT")
        return start(changes.writeStream.foreachBatch(append), options)


class AppendedPartitions:
    """Appends the rows of a partition to a file, or gives each row one of its name."""

    says = "doubled"

    def wrong(self) -> Given:
        return {
            "job": lambda spark, options: self._start(spark, options, appends=True),
            "inputs": {"in": list("abcd")},
            "outputs": {"out": self._written},
            "without": ["crash", "inside"],
        }

    def right(self) -> Given:
        return {
            **self.wrong(),
            "job": lambda spark, options: self._start(spark, options, appends=False),
            "without": [],
        }

    def _start(self, spark: SparkSession, options: Options, *, appends: bool) -> StreamingQuery:
        directory = options.path("rows")
        Path(directory).mkdir(exist_ok=True)

        def write(rows: Iterable[Row]) -> None:
            for row in rows:
                name, mode = ("rows", "a") if appends else (row.value, "w")
                with open(f"{directory}/{name}", mode) as file:
                    file.write(row.value)

        def save(batch: DataFrame, number: int) -> None:
            batch.foreachPartition(write)

        return start(lines(spark, options, "in").writeStream.foreachBatch(save), options)

    def _written(self, spark: SparkSession, options: Options) -> list[str]:
        return [row for file in Path(options.path("rows")).glob("*") for row in file.read_text()]
