"""The corpus: for each fault that deployments meet, the smallest job that has it, and one without.

A pair's methods return the arguments of `explore`; a new pair is made for each exploration.
"""

from typing import Any, Final, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from embedkafka.explore import Options, files

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


def start(writer: DataStreamWriter, options: Options) -> StreamingQuery:
    checkpointed = writer.option("checkpointLocation", options.checkpoint())
    return checkpointed.trigger(**options.trigger).start()


def to_files(rows: DataFrame, options: Options) -> StreamingQuery:
    return start(rows.writeStream.format("parquet").option("path", options.path("out")), options)


class TimeOfProcessing:
    """Each row has the time when it was processed."""

    says = "What varies in out: processed_at."

    def wrong(self) -> Given:
        return {"job": self._job, "inputs": {"in": list("abc")}, "outputs": {"out": files("out")}}

    def right(self) -> Given:
        return {**self.wrong(), "outputs": {"out": files("out", ignore=["processed_at"])}}

    def _job(self, spark: SparkSession, options: Options) -> StreamingQuery:
        rows = lines(spark, options, "in").selectExpr("value", "now() AS processed_at")
        return to_files(rows, options)


PAIRS: Final[list[type[Pair]]] = [TimeOfProcessing]
