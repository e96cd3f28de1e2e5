"""One query: `clicks` become `sessions`, by the time that each click carries.

Phones send clicks when they are online again, so clicks arrive late and out of order. A session is
written once, when no click can join it any more.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

CLICK = "user string, page string, at timestamp"
PAUSE = "30 minutes"
"""A longer pause between two clicks ends a session."""
LATENESS = "10 minutes"
"""How long a session waits for clicks that are on their way."""
AHEAD = "5 minutes"
"""How far the clock of a phone may be ahead of the brokers' clock."""


def clicks(records: DataFrame) -> DataFrame:
    """The clicks in the topic, without those from the future.

    A phone whose clock is years ahead would take the watermark along, and then everyone else's
    clicks would be late. `timestamp` is the brokers' clock if the topic has
    `message.timestamp.type=LogAppendTime`.
    """
    click = F.from_json(F.col("value").cast("string"), CLICK)
    parsed = records.select(click.alias("click"), F.col("timestamp").alias("arrived"))
    is_possible = F.col("click.at") <= F.col("arrived") + F.expr(f"INTERVAL {AHEAD}")
    return parsed.where(is_possible).select("click.*")


def sessions(clicks: DataFrame, lateness: str = LATENESS) -> DataFrame:
    """The sessions of each user: when, how many clicks, the first page and the last."""
    visit = F.struct("at", "page")  # the time comes first: it decides what is first and last
    by_session = clicks.withWatermark("at", lateness).groupBy("user", F.session_window("at", PAUSE))
    found = by_session.agg(
        F.min("at").alias("began"),
        F.max("at").alias("ended"),
        F.count("*").alias("clicks"),
        F.min(visit)["page"].alias("entry"),
        F.max(visit)["page"].alias("exit"),
    )
    return found.drop("session_window")


def start(
    spark: SparkSession,
    *,
    source: Mapping[str, str],
    sink: Mapping[str, str],
    trigger: Mapping[str, Any] | None = None,
    lateness: str = LATENESS,
) -> StreamingQuery:
    """Starts the query, with the options of Spark's `kafka` source and sink.

    `trigger` has the arguments of `DataStreamWriter.trigger`, which have several types.
    The key names the session, so a batch that runs again after a crash replaces what it wrote.
    """
    records = spark.readStream.format("kafka").options(**source).load()
    found = sessions(clicks(records), lateness)
    key = F.concat_ws("@", "user", F.date_format("began", "yyyy-MM-dd'T'HH:mm:ss"))
    rows = found.select(key.alias("key"), F.to_json(F.struct("*")).alias("value"))
    writer = rows.writeStream.format("kafka").options(**sink).outputMode("append")
    return (writer.trigger(**trigger) if trigger else writer).start()
