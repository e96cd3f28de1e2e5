"""A small Spark job that uses what tests of Spark jobs use, to fill an archive of classes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from embedkafka.cluster.embedded import EmbeddedKafka
from embedkafka.spark.class_archive import NEW
from embedkafka.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMA = "id int, name string, amount double, at timestamp"


def make_class_archive(packages: Sequence[str] = ()) -> None:
    """Runs the job in a session that archives its classes when it ends."""
    with local_session(packages=packages, archive=NEW) as spark, EmbeddedKafka(brokers=1) as kafka:
        train(spark, kafka)


def train(spark: "SparkSession", kafka: EmbeddedKafka) -> None:
    """Batches and streams between two topics, with JSON, joins, windows and state."""
    from pyspark.sql import functions as F

    given, made = kafka.topic("given"), kafka.topic("made")
    rows: Any = [(n, f"n{n % 2}", n * 1.5, None) for n in range(4)]  # Any: PySpark's type of rows
    given.write(spark.createDataFrame(rows, _SCHEMA), key="id")
    frame = given.to_df(spark, schema=_SCHEMA).select("value.*")
    frame.join(frame.groupBy("name").agg(F.sum("amount")), "name").orderBy("id").collect()

    source = spark.readStream.format("kafka").options(**given.spark_options()).load()
    parsed = source.select(
        "timestamp", F.from_json(F.col("value").cast("string"), _SCHEMA).alias("v")
    )
    counted = (
        parsed.withWatermark("timestamp", "1 minute")
        .groupBy(F.window("timestamp", "1 minute"), "v.name")
        .agg(F.count("*").alias("count"), F.sum("v.amount").alias("total"))
        .select(F.col("name").alias("key"), F.to_json(F.struct("count", "total")).alias("value"))
    )
    query = (
        counted.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("topic", made.name)
        .option("checkpointLocation", str(kafka.scratch_dir("training")))
        .outputMode("update")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    table = parsed.writeStream.format("memory").queryName("training").start()
    table.processAllAvailable()
    table.stop()
    spark.table("training").collect()
