"""Pairs about Delta and Iceberg tables: what a batch that runs again leaves in them.

They need a session with the jars and catalogs of both.
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from embedkafka.explore import Input, Options, delta, iceberg
from tests.spark.corpus.parts import Given, Pair, columns, to_function

ORDERS: Final = Input([{"id": n, "sku": f"sku {n % 2}"} for n in range(4)], key="sku")
SCHEMA: Final = "id INT, sku STRING"


def writing(save: Callable[[DataFrame, int, Options], None]) -> Given:
    """A job that gives the orders of a batch to a function."""
    return {
        "job": lambda spark, options: to_function(
            columns(spark, options, "in", SCHEMA), options, save
        ),
        "inputs": {"in": ORDERS},
    }


def append_to_delta(batch: DataFrame, options: Options, **transaction: str) -> None:
    writer = batch.write.format("delta").mode("append").options(**transaction)
    writer.save(options.path("orders"))


def append_once(batch: DataFrame, number: int, options: Options) -> None:
    """Delta skips a transaction whose number it has seen."""
    append_to_delta(batch, options, txnAppId="orders", txnVersion=str(number))


def merge(batch: DataFrame, table: str) -> None:
    """Writes the rows of a batch by their keys."""
    batch.createOrReplaceTempView("changes")
    batch.sparkSession.sql(
        f"MERGE INTO {table} AS t USING changes AS c ON t.id = c.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


class AppendedToDelta:
    """Appends each batch to a Delta table, or each batch once."""

    says = "doubled"

    def wrong(self) -> Given:
        def append(batch: DataFrame, number: int, options: Options) -> None:
            append_to_delta(batch, options)

        return {**writing(append), "outputs": {"orders": delta("orders", key="id")}}

    def right(self) -> Given:
        return {**writing(append_once), "outputs": {"orders": delta("orders", key="id")}}


class RestartedDelta:
    """Numbers its transactions by batches, which begin at 0 again: Delta skips the new ones."""

    says = "lost"

    def wrong(self) -> Given:
        return self._given(append_once)

    def right(self) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            table = f"delta.`{options.path('orders')}`"
            batch.sparkSession.sql(f"CREATE TABLE IF NOT EXISTS {table} ({SCHEMA}) USING delta")
            merge(batch, table)

        return self._given(save)

    def _given(self, save: Callable[[DataFrame, int, Options], None]) -> Given:
        outputs = {"orders": delta("orders", key="id")}
        return {**writing(save), "outputs": outputs, "rebuild": True}


class AppendedToIceberg:
    """Appends each batch to an Iceberg table, which does not know batches, or merges by the key."""

    says = "doubled"

    def wrong(self) -> Given:
        def append(batch: DataFrame, table: str) -> None:
            batch.writeTo(table).append()

        return self._given(append)

    def right(self) -> Given:
        return self._given(merge)

    def _given(self, write: Callable[[DataFrame, str], None]) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            table = options.table("iceberg.shop.orders")
            create = f"CREATE TABLE IF NOT EXISTS {table} ({SCHEMA}) USING iceberg"
            batch.sparkSession.sql(create)
            write(batch, table)

        outputs = {"orders": iceberg("iceberg.shop.orders", key="id")}
        return {**writing(save), "outputs": outputs}


class StreamedIntoIceberg:
    """Streams into an Iceberg table, which knows the batches of a query: of one checkpoint only."""

    says = "doubled"

    def wrong(self) -> Given:
        return {**self.right(), "rebuild": True}

    def right(self) -> Given:
        def job(spark: SparkSession, options: Options) -> StreamingQuery:
            table = options.table("iceberg.shop.stream")
            spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({SCHEMA}) USING iceberg")
            writer = columns(spark, options, "in", SCHEMA).writeStream.format("iceberg")
            checkpointed = writer.option("checkpointLocation", options.checkpoint())
            return checkpointed.trigger(**options.trigger).toTable(table)

        return {
            "job": job,
            "inputs": {"in": ORDERS},
            "outputs": {"orders": iceberg("iceberg.shop.stream", key="id")},
        }


TABLE_PAIRS: Final[list[type[Pair]]] = [
    AppendedToDelta,
    RestartedDelta,
    AppendedToIceberg,
    StreamedIntoIceberg,
]
