"""Orders from a topic into a table, and large ones into another topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
SERVERS = str(spark.conf.get("orders.bootstrap.servers"))

dp.create_sink(
    "large_orders", "kafka", {"kafka.bootstrap.servers": SERVERS, "topic": "large-orders"}
)


@dp.table
def orders() -> DataFrame:
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", SERVERS)
    records = source.option("subscribe", "orders").option("startingOffsets", "earliest").load()
    fields = "from_json(cast(value AS string), 'sku STRING, quantity INT') AS order"
    return records.selectExpr(fields).select("order.*")


@dp.materialized_view
def totals() -> DataFrame:
    return spark.read.table("orders").groupBy("sku").agg(F.sum("quantity").alias("total"))


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    return spark.readStream.table("orders").where("quantity > 9").selectExpr("sku AS value")
