"""Two queries: orders and prices become `enriched`, and `enriched` becomes `revenue`.

The first joins two streams, the second counts. Both take what is there and end (`availableNow`),
and go on from their checkpoints when they are started again.
"""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ORDER = "order_id int, sku string, quantity int, at timestamp"
PRICE = "sku string, price decimal(10, 2), valid_from timestamp"
ENRICHED = "order_id int, sku string, quantity int, price decimal(10, 2), total decimal(12, 2)"


@dataclass(frozen=True, kw_only=True)
class Topics:
    """Where the job reads and writes."""

    orders: str = "orders"
    prices: str = "prices"
    enriched: str = "enriched"
    revenue: str = "revenue"


def enrich(orders: DataFrame, prices: DataFrame) -> DataFrame:
    """Each order with the price of its day; prices are published daily.

    The watermarks and the time in the condition let Spark forget old rows on both sides.
    """
    o = orders.withWatermark("at", "1 hour").alias("o")
    p = prices.withWatermark("valid_from", "1 hour").alias("p")
    same_day = F.expr(
        "o.sku = p.sku AND o.at >= p.valid_from AND o.at < p.valid_from + INTERVAL 1 DAY"
    )
    total = (F.col("quantity") * F.col("price")).cast("decimal(12, 2)").alias("total")
    return o.join(p, same_day).select("order_id", "o.sku", "quantity", "price", total)


def revenue(enriched: DataFrame) -> DataFrame:
    """What each article has brought in so far."""
    return enriched.groupBy("sku").agg(
        F.count("*").alias("orders"),
        F.sum("quantity").alias("pieces"),
        F.sum("total").cast("decimal(12, 2)").alias("revenue"),
    )


def run(
    spark: SparkSession, bootstrap_servers: str, checkpoints: Path, topics: Topics | None = None
) -> None:
    """Carries everything that is in `orders` and `prices` now through both queries."""
    topics = topics or Topics()

    def read(topic: str, schema: str) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
        source = spark.readStream.format("kafka").options(**options).load()
        parsed = F.from_json(F.col("value").cast("string"), schema)
        return source.select(parsed.alias("value")).select("value.*")

    def write(rows: DataFrame, topic: str, output_mode: str) -> None:
        options = {
            "kafka.bootstrap.servers": bootstrap_servers,
            "topic": topic,
            "checkpointLocation": str(checkpoints / topic),
        }
        records = rows.select(F.col("sku").alias("key"), F.to_json(F.struct("*")).alias("value"))
        writer = records.writeStream.format("kafka").options(**options).outputMode(output_mode)
        writer.trigger(availableNow=True).start().awaitTermination()

    enriched = enrich(read(topics.orders, ORDER), read(topics.prices, PRICE))
    write(enriched, topics.enriched, "append")
    write(revenue(read(topics.enriched, ENRICHED)), topics.revenue, "update")
