"""The pipeline of this project, from topic to table and topic."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embedkafka import EmbeddedKafka
from embedkafka.spark import run_pipeline

PROJECT = Path(__file__).parents[1]


def test_each_run_takes_the_orders_that_are_new(
    kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    if spark.version < "4.1":
        pytest.skip("pipelines came with Spark 4.1")
    orders, large = kafka.topic("orders"), kafka.topic("large-orders")
    orders.send_json({"sku": "apple", "quantity": 3})
    orders.send_json({"sku": "bread", "quantity": 12})

    run_pipeline(PROJECT, kafka=kafka, spark=spark, directory=tmp_path)
    assert dict(map(tuple, spark.table("totals").collect())) == {"apple": 3, "bread": 12}
    assert [record.text for record in large.read()] == ["bread"]

    orders.send_json({"sku": "apple", "quantity": 10})
    run_pipeline(PROJECT, kafka=kafka, spark=spark, directory=tmp_path)
    assert dict(map(tuple, spark.table("totals").collect())) == {"apple": 13, "bread": 12}
    assert [record.text for record in large.read()] == ["bread", "apple"]
