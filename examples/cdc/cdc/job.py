"""Changes of a database table become the table, as a compacted topic.

A change has the row before and after it, as Debezium writes it. The topic has one key per row, its
last value is the row as it is now, and a tombstone says that the row is gone. To write a change a
second time does no harm, so Spark's sink, which writes at least once, is good enough.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

CUSTOMER = "id INT, name STRING, city STRING"
CHANGE = f"op STRING, before STRUCT<{CUSTOMER}>, after STRUCT<{CUSTOMER}>"


def upserts(changes: DataFrame) -> DataFrame:
    """Each record of the changes with the key and value that the table's topic gets for it."""
    change = F.from_json(F.col("value").cast("string"), CHANGE)
    row = F.when(change["op"] != "d", change["after"])
    key = F.coalesce(change["after"]["id"], change["before"]["id"]).cast("string")
    return changes.withColumns({"key": key, "value": F.to_json(row)})


def start(
    spark: SparkSession,
    *,
    source: Mapping[str, str],
    sink: Mapping[str, str],
    trigger: Mapping[str, Any],
) -> StreamingQuery:
    """Starts the query. Changes of a key are in one partition, and so keep their order."""
    changes = spark.readStream.format("kafka").options(**source).load()
    writer = upserts(changes).select("key", "value").writeStream.format("kafka").options(**sink)
    return writer.trigger(**trigger).start()
