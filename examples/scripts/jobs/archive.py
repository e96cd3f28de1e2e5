"""Adds the orders since the last run to the lake, and tells so: a nightly job."""

import os
import sys

from confluent_kafka import Producer
from pyspark.sql import SparkSession

BROKERS = os.environ.get("KAFKA_BROKERS", "kafka-1:9092,kafka-2:9092")
LAKE = "s3a://lake/orders"


def archive(spark: SparkSession) -> None:
    orders = (
        spark.readStream.format("kafka")
        .options(subscribe="orders", startingOffsets="earliest")
        .option("kafka.bootstrap.servers", BROKERS)
        .load()
    )
    lines = orders.selectExpr("CAST(value AS STRING) AS line", "timestamp")
    writer = lines.writeStream.trigger(availableNow=True).format("parquet")
    writer.option("checkpointLocation", "checkpoints/archive").start(LAKE).awaitTermination()


def tell(count: int) -> None:
    producer = Producer({"bootstrap.servers": BROKERS})
    producer.produce("archived", str(count))
    producer.flush()


if __name__ == "__main__":
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--packages org.apache.hadoop:hadoop-aws:3.4.1 pyspark-shell"
    )
    session = SparkSession.builder.appName("archive").getOrCreate()
    try:
        archive(session)
        tell(session.read.parquet(LAKE).count())
    finally:
        session.stop()
    sys.exit(0)
