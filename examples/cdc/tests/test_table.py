"""The database has the table, whatever happens: two merges that look right, and one that is."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from cdc.table import MERGE, TABLE, Merge, merge, rows_in, start_table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from embedkafka import EmbeddedKafka
from embedkafka.explore import Input, Options, Refuted, explore

ADA = {"id": 1, "name": "Ada", "city": "London"}
GRACE = {"id": 2, "name": "Grace", "city": "New York"}


def change(lsn: int, op: str, row: dict[str, Any]) -> dict[str, Any]:
    before, after = (row, None) if op == "d" else (None, row)
    return {"op": op, "before": before, "after": after, "source": {"lsn": lsn}}


CHANGES = [
    change(1, "c", ADA),
    change(2, "c", GRACE),
    change(3, "d", ADA),
    change(4, "c", {**ADA, "city": "Marylebone"}),
    change(5, "d", GRACE),
]


def id_of(change: dict[str, Any]) -> int:
    row = change["after"] or change["before"]
    number: int = row["id"]
    return number


def upserts_then_deletions(changes: DataFrame, database: str) -> None:
    """Looks right, but a row that was deleted and made again in one batch is gone."""
    rows = [tuple(row) for row in changes.collect()]
    with closing(sqlite3.connect(database)) as store, store:
        store.execute(f"CREATE TABLE IF NOT EXISTS {TABLE}")
        upsert = "INSERT OR REPLACE INTO customers VALUES (?, ?, ?, ?, ?)"
        store.executemany(upsert, [row for row in rows if not row[4]])
        store.executemany("DELETE FROM customers WHERE id = ?", [row[:1] for row in rows if row[4]])


def last_of_batch(changes: DataFrame, database: str) -> None:
    """Looks right, but the last change of a batch may be older than what the table has."""
    last = changes.groupBy("id").agg(F.max_by(F.struct("*"), "lsn").alias("last")).select("last.*")
    rows = [tuple(row) for row in last.collect()]
    with closing(sqlite3.connect(database)) as store, store:
        store.execute(f"CREATE TABLE IF NOT EXISTS {TABLE}")
        store.executemany(MERGE.partition("WHERE")[0], rows)


def is_the_table(out: dict[str, Any], given: dict[str, Any]) -> bool:
    """Whether the database has what the changes, one after the other, leave."""
    rows: dict[int, tuple[str, str]] = {}
    for each in given["customer-changes"]:
        if each["op"] == "d":
            rows.pop(id_of(each), None)
        else:
            rows[id_of(each)] = (each["after"]["name"], each["after"]["city"])
    return bool(out["customers"] == rows)


def explore_merge(kafka: EmbeddedKafka, spark: SparkSession, merge: Merge, **more: Any) -> None:
    def job(spark: SparkSession, options: Options) -> StreamingQuery:
        return start_table(
            spark,
            source=options.read("customer-changes"),
            database=options.path("customers.db"),
            checkpoint=options.checkpoint(),
            trigger=options.trigger,
            merge=merge,
        )

    def customers(spark: SparkSession, options: Options) -> dict[int, tuple[str, str]]:
        return rows_in(options.path("customers.db"))

    explore(
        kafka,
        spark,
        job=job,
        inputs={"customer-changes": Input(CHANGES, key=id_of, resends=True)},
        outputs={"customers": customers},
        **more,
    )


def test_deletions_behind_upserts_are_refuted(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    """All changes in one batch are wrong already: that is the plain schedule."""
    with pytest.raises(Refuted, match="the invariant does not hold under the plain schedule"):
        explore_merge(kafka, spark, upserts_then_deletions, invariant=is_the_table)


def test_without_an_invariant_the_two_results_differ(
    kafka: EmbeddedKafka, spark: SparkSession
) -> None:
    with pytest.raises(Refuted, match="they differ") as refuted:
        explore_merge(kafka, spark, upserts_then_deletions, seed=1)
    assert "Marylebone" in str(refuted.value)


def test_the_last_change_of_a_batch_is_refuted(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    with pytest.raises(Refuted, match="arrives again, from a producer that retries or restarts"):
        explore_merge(kafka, spark, last_of_batch, invariant=is_the_table, seed=1)


def test_the_merge_depends_on_no_schedule(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    explore_merge(kafka, spark, merge, invariant=is_the_table, schedules=8, seed=1)
