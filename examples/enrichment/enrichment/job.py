"""Orders become rows of a database, each exactly once.

Spark runs a batch again if the driver died after the write of `foreachBatch` and before the commit
of the batch. So the rows and the number of a batch go into the database in one transaction, and a
batch whose number is there already is left out.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

ORDER = "order_id INT, customer_id INT, amount DOUBLE"
TABLES = """
CREATE TABLE IF NOT EXISTS customers (customer_id INTEGER PRIMARY KEY, name TEXT, country TEXT);
CREATE TABLE IF NOT EXISTS enriched (order_id INTEGER, name TEXT, country TEXT, amount REAL);
CREATE TABLE IF NOT EXISTS batches (batch_id INTEGER PRIMARY KEY);
"""
ENRICH = """
INSERT INTO enriched
SELECT given.order_id, name, country, amount
FROM (SELECT ? AS order_id, ? AS customer_id, ? AS amount) AS given
LEFT JOIN customers USING (customer_id)
"""


def create_tables(database: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript(TABLES)


def start(
    spark: SparkSession,
    *,
    source: Mapping[str, str],
    database: str,
    checkpoint: str,
    trigger: Mapping[str, Any],
) -> StreamingQuery:
    """Starts the query; `source` has the options of Spark's Kafka source."""
    records = spark.readStream.format("kafka").options(**source).load()
    order = F.from_json(F.col("value").cast("string"), ORDER)
    orders = records.select(order.alias("row")).select("row.*")
    writer = orders.writeStream.foreachBatch(partial(store, database))
    return writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()


def store(database: str, orders: DataFrame, batch_id: int) -> None:
    """Adds the orders of a batch, with their customers, unless the batch has been added."""
    rows = [tuple(row) for row in orders.toLocalIterator()]
    with closing(sqlite3.connect(database)) as connection, connection:
        known = connection.execute("INSERT OR IGNORE INTO batches VALUES (?)", (batch_id,))
        if known.rowcount:
            connection.executemany(ENRICH, rows)
