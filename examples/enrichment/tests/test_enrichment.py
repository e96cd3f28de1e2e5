"""Each order is in the database once, whatever happens between a write and its commit."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from enrichment.job import create_tables, start, store
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from embedkafka import EmbeddedKafka
from embedkafka.explore import Input, Options, explore
from embedkafka.spark import crash_between_write_and_commit, restart

CUSTOMERS = [(1, "Ada", "GB"), (2, "Grace", "US")]
ORDERS = [
    {"order_id": number, "customer_id": customer, "amount": 2.5 * number}
    for number, customer in enumerate((1, 2, 1, 9, 2, 1), start=1)
]
ENRICHED = [
    (1, "Ada", "GB", 2.5),
    (2, "Grace", "US", 5.0),
    (3, "Ada", "GB", 7.5),
    (4, None, None, 10.0),
    (5, "Grace", "US", 12.5),
    (6, "Ada", "GB", 15.0),
]
NOW = {"availableNow": True}


def fill(database: Path) -> str:
    """A database with two customers; the explorer gives each schedule another one."""
    database.parent.mkdir(parents=True, exist_ok=True)
    create_tables(str(database))
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executemany("INSERT OR IGNORE INTO customers VALUES (?, ?, ?)", CUSTOMERS)
    return str(database)


def enriched(database: str) -> list[Any]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT * FROM enriched ORDER BY order_id").fetchall()


def test_a_batch_is_stored_once(spark: SparkSession, tmp_path: Path) -> None:
    database = fill(tmp_path / "orders.db")
    rows = spark.createDataFrame([(1, 1, 2.5)], "order_id INT, customer_id INT, amount DOUBLE")
    for batch_id in (0, 0, 1):
        store(database, rows, batch_id)
    assert enriched(database) == [ENRICHED[0]] * 2


def test_a_crash_between_write_and_commit_adds_no_row(
    kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    orders, database = kafka.topic(partitions=2), fill(tmp_path / "orders.db")
    for order in ORDERS:
        orders.send_json(order)
    checkpoint = str(tmp_path / "checkpoint")
    query = start(
        spark,
        source=orders.spark_options(),
        database=database,
        checkpoint=checkpoint,
        trigger=NOW,
    )
    query.awaitTermination()
    assert enriched(database) == ENRICHED

    crash_between_write_and_commit(query)
    restart(query).awaitTermination()

    assert enriched(database) == ENRICHED


def test_the_rows_do_not_depend_on_the_schedule(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    def job(spark: SparkSession, options: Options) -> StreamingQuery:
        return start(
            spark,
            source=options.read("orders"),
            database=fill(Path(options.path("orders.db"))),
            checkpoint=options.checkpoint("orders"),
            trigger=options.trigger,
        )

    explore(
        kafka,
        spark,
        job=job,
        inputs={"orders": Input(ORDERS, key="customer_id")},
        outputs={"rows": lambda spark, options: enriched(options.path("orders.db"))},
        invariant=lambda out, given: out["rows"] == ENRICHED,
        schedules=6,
        seed=1,
    )
