"""The job of this example, tested with the fixtures `kafka` and `spark`."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from orders.job import ENRICHED, ORDER, PRICE, Topics, enrich, revenue, run
from pyspark.sql import SparkSession

from embedkafka import EmbeddedKafka, Topic

DAY = "2026-03-01T00:00:00Z"
NOON = "2026-03-01T12:00:00Z"


@pytest.fixture
def topics(kafka: EmbeddedKafka) -> Iterator[Sequence[Topic]]:
    """The job's four topics, under names of their own."""
    made = [kafka.topic(partitions=2) for _ in range(4)]
    yield made
    for topic in made:
        topic.delete()


@pytest.fixture
def run_job(
    kafka: EmbeddedKafka, spark: SparkSession, topics: list[Topic], tmp_path: Path
) -> Callable[[], None]:
    """Runs the job once over all there is; its checkpoints last for the test."""
    orders, prices, enriched, revenue = (topic.name for topic in topics)
    names = Topics(orders=orders, prices=prices, enriched=enriched, revenue=revenue)
    return lambda: run(spark, kafka.bootstrap_servers, tmp_path, names)


def test_an_order_takes_the_price_of_its_day(spark: SparkSession) -> None:
    at, other_day = datetime(2026, 3, 1, 12), datetime(2026, 3, 2, 12)
    orders = spark.createDataFrame([(1, "apple", 2, at), (2, "apple", 2, other_day)], ORDER)
    prices = spark.createDataFrame(
        [
            ("apple", Decimal("0.30"), datetime(2026, 3, 1)),
            ("apple", Decimal("0.50"), datetime(2026, 3, 2)),
        ],
        PRICE,
    )
    rows = enrich(orders, prices).orderBy("order_id").collect()
    assert [(row.order_id, row.total) for row in rows] == [
        (1, Decimal("0.60")),
        (2, Decimal("1.00")),
    ]


def test_revenue_adds_up_by_article(spark: SparkSession) -> None:
    rows = [(1, "apple", 2, Decimal("0.30"), Decimal("0.60"))] * 2
    (total,) = revenue(spark.createDataFrame(rows, ENRICHED)).collect()
    assert (total.orders, total.pieces, total.revenue) == (2, 4, Decimal("1.20"))


def test_orders_are_enriched_and_counted(topics: list[Topic], run_job: Callable[[], None]) -> None:
    orders, prices, enriched, revenue = topics
    prices.send_json({"sku": "apple", "price": 0.3, "valid_from": DAY}, key="apple")
    orders.send_json({"order_id": 1, "sku": "apple", "quantity": 2, "at": NOON}, key="1")
    run_job()
    assert enriched.read_json() == [
        {"order_id": 1, "sku": "apple", "quantity": 2, "price": 0.3, "total": 0.6}
    ]
    assert [message.key for message in enriched.read()] == [b"apple"]
    assert revenue.read_json() == [{"sku": "apple", "orders": 1, "pieces": 2, "revenue": 0.6}]


def test_an_order_waits_for_its_price_across_a_restart(
    topics: list[Topic], run_job: Callable[[], None]
) -> None:
    orders, prices, enriched, revenue = topics
    orders.send_json({"order_id": 1, "sku": "bread", "quantity": 1, "at": NOON}, key="1")
    run_job()
    assert enriched.read() == []
    prices.send_json({"sku": "bread", "price": 2.4, "valid_from": DAY}, key="bread")
    run_job()
    run_job()
    assert [row["order_id"] for row in enriched.read_json()] == [1]
    assert [row["revenue"] for row in revenue.read_json()] == [2.4]


def test_the_demo_shows_its_result() -> None:
    demo = Path(__file__).parents[1] / "demo.py"
    done = subprocess.run([sys.executable, demo], capture_output=True, text=True, timeout=290)
    assert done.returncode == 0, done.stderr
    assert "three brokers are up after" in done.stdout
    assert "cheese       1       2     9.90" in done.stdout
