"""Changes of a table, as Debezium writes them in JSON, become the table, in a database.

A row may be deleted and made again in one batch, a batch may run again, and a connector that
restarts sends old changes again. So each row keeps the position of its last change in the
database's log, `lsn`, and a deleted one stays as a tombstone: what is older changes nothing.
"""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

ROW: Final = "STRUCT<id: INT, name: STRING, city: STRING>"
ENVELOPE: Final = f"op STRING, before {ROW}, after {ROW}, source STRUCT<lsn: BIGINT>"

TABLE: Final = "customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT, lsn INTEGER, gone INTEGER)"
MERGE: Final = """
INSERT INTO customers VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET name = excluded.name, city = excluded.city, lsn = excluded.lsn, gone = excluded.gone
WHERE excluded.lsn > customers.lsn
"""

Merge = Callable[[DataFrame, str], None]


def changes_of(records: DataFrame) -> DataFrame:
    """The changes in records of Kafka: id and values of a row, and the place in the log."""
    change = F.from_json(F.col("value").cast("string"), ENVELOPE)
    changes = records.select(change.alias("change")).select("change.*").where("op IS NOT NULL")
    return changes.select(
        F.coalesce("after.id", "before.id").alias("id"),
        "after.name",
        "after.city",
        "source.lsn",
        (F.col("op") == "d").alias("gone"),
    )


def merge(changes: DataFrame, database: str) -> None:
    """Writes the last change of each row, unless the table has a newer one."""
    last = changes.groupBy("id").agg(F.max_by(F.struct("*"), "lsn").alias("last")).select("last.*")
    rows = [tuple(row) for row in last.collect()]
    with closing(sqlite3.connect(database)) as store, store:
        store.execute(f"CREATE TABLE IF NOT EXISTS {TABLE}")
        store.executemany(MERGE, rows)


def rows_in(database: str) -> dict[int, tuple[str, str]]:
    """The table: name and city of each customer."""
    with closing(sqlite3.connect(database)) as store:
        store.execute(f"CREATE TABLE IF NOT EXISTS {TABLE}")
        found = store.execute("SELECT id, name, city FROM customers WHERE NOT gone")
        return {id: (name, city) for id, name, city in found}


def start_table(
    spark: SparkSession,
    *,
    source: Mapping[str, str],
    database: str,
    checkpoint: str,
    trigger: Mapping[str, Any],
    merge: Merge = merge,
) -> StreamingQuery:
    """Starts the query, which merges each batch of changes."""
    changes = changes_of(spark.readStream.format("kafka").options(**source).load())
    writer = changes.writeStream.foreachBatch(lambda batch, number: merge(batch, database))
    return writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()
