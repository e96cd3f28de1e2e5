"""Changes of a database table become the table, as a compacted topic. Both are in Avro.

A change has the row before and after it, as Debezium writes it. The topic has one key per row, its
last value is the row as it is now, and a tombstone says that the row is gone. To write a change a
second time does no harm, so Spark's sink, which writes at least once, is good enough.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.streaming.query import StreamingQuery

CUSTOMER: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Customer",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "name", "type": "string"},
        {"name": "city", "type": "string"},
    ],
}
CHANGE: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Change",
    "fields": [
        {"name": "op", "type": "string"},
        {"name": "before", "type": ["null", CUSTOMER]},
        {"name": "after", "type": ["null", "Customer"]},
    ],
}


def upserts(changes: DataFrame) -> DataFrame:
    """Each record of the changes with the key and value that the table's topic gets for it."""
    change = from_avro(F.col("value"), json.dumps(CHANGE))
    row = F.when(change["op"] != "d", change["after"])
    key = F.coalesce(change["after"]["id"], change["before"]["id"]).cast("string")
    return changes.withColumns({"key": key, "value": to_avro(row, json.dumps(CUSTOMER))})


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
