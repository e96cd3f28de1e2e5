"""Revenue by product, as orders come in: `spark-submit jobs/totals.py --orders orders`."""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

BROKERS = "localhost:9092"

parser = argparse.ArgumentParser()
parser.add_argument("--orders", default="orders", help="the topic to read")
arguments = parser.parse_args()

spark = (
    SparkSession.builder.appName("totals")
    .master("local[*]")
    .config("spark.sql.shuffle.partitions", 2)
    .config("spark.driver.memory", "4g")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("WARN")

orders = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", BROKERS)
    .option("subscribe", arguments.orders)
    .option("startingOffsets", "earliest")
    .load()
    .select(F.from_json(F.col("value").cast("string"), "sku STRING, price DOUBLE").alias("order"))
    .select("order.*")
)
totals = orders.groupBy("sku").agg(F.sum("price").alias("revenue"))

query = (
    totals.select(F.col("sku").alias("key"), F.to_json(F.struct("sku", "revenue")).alias("value"))
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", BROKERS)
    .option("topic", "totals")
    .option("checkpointLocation", "/var/lib/spark/totals")
    .outputMode("update")
    .queryName("totals")
    .start()
)
query.awaitTermination()
