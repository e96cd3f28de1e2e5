"""The scripts in `jobs/`, unchanged."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from embedkafka import EmbeddedKafka
from embedkafka.explore import Input, Script, explore
from embedkafka.explore import latest_by_key as latest
from embedkafka.spark import (
    RunningScript,
    crash_between_write_and_commit,
    drain,
    latest_by_key,
    restart,
)

TOTALS_JOB = Path(__file__).parents[1] / "jobs/totals.py"
ORDERS = [
    {"sku": "tea", "price": 2.5},
    {"sku": "cup", "price": 9.0},
    {"sku": "tea", "price": 3.5},
]
TOTALS = {"tea": {"sku": "tea", "revenue": 6.0}, "cup": {"sku": "cup", "revenue": 9.0}}


def test_revenue_is_right_even_if_the_driver_dies(
    kafka: EmbeddedKafka, spark_script: Callable[..., RunningScript]
) -> None:
    orders, totals = kafka.topic("shop-orders", partitions=2), kafka.topic("totals")
    script = spark_script("jobs/totals.py", args=["--orders", "shop-orders"])
    for order in ORDERS[:2]:
        orders.send_json(order)
    drain(script["totals"])

    crash_between_write_and_commit(script["totals"])
    query = restart(script["totals"])
    orders.send_json(ORDERS[2])
    drain(query)

    assert latest_by_key(totals) == TOTALS


def test_the_archive_gets_each_order_once(
    kafka: EmbeddedKafka, spark: SparkSession, spark_script: Callable[..., RunningScript]
) -> None:
    orders, archived = kafka.topic("orders"), kafka.topic("archived")
    for night in (1, 2):
        orders.send_json(ORDERS[night])
        script = spark_script("jobs/archive.py", env={"KAFKA_BROKERS": "kafka-1:9092"})
        script.wait()
        lake = spark.read.parquet(str(script.path("s3a://lake/orders")))
        assert lake.count() == night
    assert [record.text for record in archived.read()] == ["1", "2"]


def test_revenue_does_not_depend_on_the_schedule(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    explore(
        kafka,
        spark,
        job=Script(TOTALS_JOB),
        inputs={"orders": Input(ORDERS, key="sku")},
        outputs={"totals": latest()},
        invariant=lambda out, given: out["totals"] == TOTALS,
        schedules=4,
        seed=1,
    )
