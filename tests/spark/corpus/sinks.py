"""Pairs about sinks: what a batch that runs again, or a write that fails, leaves in them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from embedkafka.explore import Input, Options, all_records, files
from tests.spark.corpus.parts import Given, Store, columns, lines, start, to_function

Save = Callable[[DataFrame, int, Options], None]


def saving(save: Save) -> Given:
    """A job that gives the lines of a topic to a function, with four lines."""
    return {
        "job": lambda spark, options: to_function(lines(spark, options, "in"), options, save),
        "inputs": {"in": list("abcd")},
    }


def replace_batch(batch: DataFrame, number: int, options: Options) -> None:
    """Writes a batch to a directory of its own, which it replaces when it runs again."""
    batch.write.mode("overwrite").text(options.path(f"out/batch={number}"))


OUT = files("out", format="text", ignore=["batch"])


class AppendedFiles:
    """Appends each batch to a directory, or replaces what the batch has written before."""

    says = "doubled"

    def wrong(self) -> Given:
        return {**saving(self._append), "outputs": {"out": OUT}}

    def right(self) -> Given:
        return {**saving(replace_batch), "outputs": {"out": OUT}}

    def _append(self, batch: DataFrame, number: int, options: Options) -> None:
        batch.write.mode("append").text(options.path("out"))


class OverwriteFirst:
    """Overwrites the directory with the first batch and appends the others."""

    says = "doubled"

    def wrong(self) -> Given:
        return {**saving(self._write), "outputs": {"out": OUT}}

    def right(self) -> Given:
        return {**saving(replace_batch), "outputs": {"out": OUT}}

    def _write(self, batch: DataFrame, number: int, options: Options) -> None:
        batch.write.mode("overwrite" if number == 0 else "append").text(options.path("out"))


class AddedToTotal:
    """Adds the sum of a batch to a total, or keeps the sum of each batch under its number."""

    says = "they differ"

    def __init__(self) -> None:
        self._sums = Store("sums (batch INTEGER PRIMARY KEY, n INTEGER)")

    def wrong(self) -> Given:
        return self._given(
            lambda number: 0,
            "INSERT INTO sums VALUES (?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
        )

    def right(self) -> Given:
        return self._given(lambda number: number, "INSERT OR REPLACE INTO sums VALUES (?, ?)")

    def _given(self, name: Callable[[int], int], statement: str) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            total = sum(int(row.value) for row in batch.collect())
            self._sums.change(options, statement, [(name(number), total)])

        return {**saving(save), "inputs": {"in": ["1", "20", "300"]}, "outputs": {"out": self._sum}}

    def _sum(self, spark: SparkSession, options: Options) -> list[dict[str, int]]:
        return [{"total": sum(row["n"] for row in self._sums.rows(spark, options))}]


class AuditedOnce:
    """Skips a batch whose orders are there, though a driver died before their audit was written."""

    says = "they differ"

    def __init__(self) -> None:
        self._rows = Store("rows (kind TEXT, batch INTEGER, value TEXT)")

    def wrong(self) -> Given:
        return self._given(self._one_by_one)

    def right(self) -> Given:
        """Both in one transaction."""
        return self._given(self._at_once)

    def _given(self, save: Save) -> Given:
        def save_new(batch: DataFrame, number: int, options: Options) -> None:
            if all(row["batch"] != number for row in self._rows.rows(batch.sparkSession, options)):
                save(batch, number, options)

        return {**saving(save_new), "outputs": {"out": self._written}}

    def _written(self, spark: SparkSession, options: Options) -> list[dict[str, Any]]:
        rows = self._rows.rows(spark, options)
        return [{"kind": row["kind"], "value": row["value"]} for row in rows]

    def _one_by_one(self, batch: DataFrame, number: int, options: Options) -> None:
        values = [row.value for row in batch.collect()]
        for kind in ("order", "audit"):
            rows = [(kind, number, value) for value in values]
            self._rows.change(options, "INSERT INTO rows VALUES (?, ?, ?)", rows)

    def _at_once(self, batch: DataFrame, number: int, options: Options) -> None:
        values = [row.value for row in batch.collect()]
        rows = [(kind, number, value) for kind in ("order", "audit") for value in values]
        self._rows.change(options, "INSERT INTO rows VALUES (?, ?, ?)", rows)


class AppendedRows:
    """Appends each row to a file in `foreach`, or gives it a file of its name."""

    says = "doubled"

    def wrong(self) -> Given:
        return self._given(appends=True)

    def right(self) -> Given:
        return self._given(appends=False)

    def _given(self, *, appends: bool) -> Given:
        def job(spark: SparkSession, options: Options) -> StreamingQuery:
            directory = options.path("rows")
            Path(directory).mkdir(exist_ok=True)

            def write(row: Row) -> None:
                name, mode = ("rows", "a") if appends else (row.value, "w")
                with open(f"{directory}/{name}", mode) as file:
                    file.write(row.value)

            return start(lines(spark, options, "in").writeStream.foreach(write), options)

        return {"job": job, "inputs": {"in": list("abc")}, "outputs": {"out": self._written}}

    def _written(self, spark: SparkSession, options: Options) -> list[str]:
        return [row for file in Path(options.path("rows")).glob("*") for row in file.read_text()]


class RetriedWhole:
    """Writes again from the start when the second of two writes fails."""

    says = "doubled"

    def __init__(self) -> None:
        self._log = Store("log (batch INTEGER PRIMARY KEY)")

    def wrong(self) -> Given:
        def append(batch: DataFrame, number: int, options: Options) -> None:
            batch.write.mode("append").text(options.path("out"))

        return {**self._given(append), "without": ["crash", "inside"]}

    def right(self) -> Given:
        return self._given(replace_batch)

    def _given(self, first: Save) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            for is_last in (False, True):
                try:
                    first(batch, number, options)
                    self._log.change(options, "INSERT OR REPLACE INTO log VALUES (?)", [(number,)])
                    return
                except Exception:
                    if is_last:
                        raise

        return {**saving(save), "outputs": {"out": OUT}}


class WrittenInParallel:
    """Writes on threads, and does not ask them whether they could."""

    says = "lost"

    def wrong(self) -> Given:
        return self._given(asks=False)

    def right(self) -> Given:
        return self._given(asks=True)

    def _given(self, *, asks: bool) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            with ThreadPoolExecutor(2) as threads:
                written = threads.submit(replace_batch, batch, number, options)
            if asks:
                written.result()

        return {**saving(save), "outputs": {"out": self._written}}

    def _written(self, spark: SparkSession, options: Options) -> Any:
        found = Path(options.path("out"))
        return spark.read.text(str(found)).select("value") if found.exists() else []


class NotFlushed:
    """Sends through a producer of its own and does not wait until the brokers have it all."""

    says = "lost"

    def __init__(self) -> None:
        self._producer: Producer | None = None

    def close(self) -> None:
        """Ends the producer, for Spark keeps the functions of a job."""
        self._producer = None

    def wrong(self) -> Given:
        return self._given(flushes=False)

    def right(self) -> Given:
        return self._given(flushes=True)

    def _given(self, *, flushes: bool) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            self._producer = self._producer or Producer(
                {"bootstrap.servers": options.bootstrap_servers}
            )
            for row in batch.collect():
                self._producer.produce(options.topic("out"), row.value.encode())
            if flushes:
                self._producer.flush()

        return {**saving(save), "outputs": {"out": all_records(duplicates=True)}}


class RebuiltByNumber:
    """Skips batches by their numbers, which begin at 0 again with a new checkpoint."""

    says = "lost"

    def __init__(self) -> None:
        self._rows = Store("rows (batch INTEGER, id INTEGER PRIMARY KEY)")

    def wrong(self) -> Given:
        return self._given(skips=True)

    def right(self) -> Given:
        """By the key of each row."""
        return self._given(skips=False)

    def _given(self, *, skips: bool) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            there = self._rows.rows(batch.sparkSession, options)
            if not skips or all(row["batch"] < number for row in there):
                rows = [(number, row.id) for row in batch.collect()]
                self._rows.change(options, "INSERT OR REPLACE INTO rows VALUES (?, ?)", rows)

        return {
            "job": lambda spark, options: to_function(
                columns(spark, options, "in", "id INT"), options, save
            ),
            "inputs": {"in": Input([{"id": n} for n in range(4)], key="id")},
            "outputs": {"out": self._ids},
            "rebuild": True,
        }

    def _ids(self, spark: SparkSession, options: Options) -> list[dict[str, int]]:
        return [{"id": row["id"]} for row in self._rows.rows(spark, options)]
