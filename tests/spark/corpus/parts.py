"""What the jobs of the corpus share: their arguments of `explore`, their sources and sinks."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from embedkafka.explore import Options

Given = dict[str, Any]


class Pair(Protocol):
    """A wrong job and its mended twin."""

    says: str
    """Is in the message about the wrong one."""

    def wrong(self) -> Given: ...
    def right(self) -> Given: ...


def lines(spark: SparkSession, options: Options, topic: str) -> DataFrame:
    """The values of a topic, as text."""
    source = spark.readStream.format("kafka").options(**options.read(topic)).load()
    return source.selectExpr("cast(value AS string) AS value")


def columns(spark: SparkSession, options: Options, topic: str, schema: str) -> DataFrame:
    """The values of a topic, parsed as JSON."""
    parsed = lines(spark, options, topic).selectExpr(f"from_json(value, '{schema}') AS row")
    return parsed.select("row.*")


def start(writer: DataStreamWriter, options: Options) -> StreamingQuery:
    checkpointed = writer.option("checkpointLocation", options.checkpoint())
    return checkpointed.trigger(**options.trigger).start()


def to_files(rows: DataFrame, options: Options) -> StreamingQuery:
    return start(rows.writeStream.format("parquet").option("path", options.path("out")), options)


def to_topic(rows: DataFrame, options: Options, mode: str = "append") -> StreamingQuery:
    writer = rows.writeStream.format("kafka").options(**options.sink("out")).outputMode(mode)
    return writer.trigger(**options.trigger).start()


def to_function(rows: DataFrame, options: Options, save: Callable[..., None]) -> StreamingQuery:
    """Starts `foreachBatch` with a function of the batch, its number, and the options."""

    def call(batch: DataFrame, number: int) -> None:
        save(batch, number, options)

    return start(rows.writeStream.foreachBatch(call), options)


class Store:
    """A database in a file of the schedule's, which outlives the job."""

    def __init__(self, table: str) -> None:
        """`table` is the name and the columns of its only table."""
        self._table = table

    def open(self, options: Options) -> sqlite3.Connection:
        store = sqlite3.connect(options.path("store.db"))
        store.execute(f"CREATE TABLE IF NOT EXISTS {self._table}")
        return store

    def change(self, options: Options, statement: str, rows: Sequence[Any] = ((),)) -> None:
        """Runs a statement for each row, in one transaction."""
        store = self.open(options)
        with store:
            store.executemany(statement, rows)
        store.close()

    def rows(self, spark: SparkSession, options: Options) -> list[dict[str, Any]]:
        """What the table has, as an output."""
        store = self.open(options)
        store.row_factory = sqlite3.Row
        name = self._table.partition("(")[0]
        found = [dict(row) for row in store.execute(f"SELECT * FROM {name}")]
        store.close()
        return found
