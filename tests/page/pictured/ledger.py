"""The tests behind the pictures of explore.md and audit.md; the first one is red on purpose."""

import os
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from embedkafka import EmbeddedKafka
from embedkafka.explore import Options, explore
from embedkafka.spark import audit

PAYMENTS = [{"id": 1, "cents": 950}, {"id": 2, "cents": 300}]


def test_a_payment_is_booked_once(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    ledger: list[Any] = []  # Any: rows

    def book(batch: DataFrame, batch_id: int) -> None:
        ledger.extend(batch.collect())

    def job(spark: SparkSession, options: Options) -> StreamingQuery:
        source = spark.readStream.format("kafka").options(**options.read("payments")).load()
        booked = source.selectExpr("cast(value AS string) AS payment").writeStream
        booked = booked.option("checkpointLocation", options.checkpoint())
        return booked.foreachBatch(book).trigger(**options.trigger).start()

    explore(
        kafka,
        spark,
        job=job,
        inputs={"payments": PAYMENTS},
        outputs={"ledger": lambda spark: ledger},
        reset=ledger.clear,
        seed=731,
    )


def test_prices_are_delivered(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    orders, priced = kafka.topic("orders", partitions=2), kafka.topic("priced", partitions=2)
    for number in range(40):
        orders.send_json({"id": number, "quantity": 1 + number % 5}, key=str(number))
    for number in range(40):
        if number not in (7, 23):
            quantity = 50 if number == 31 else 1 + number % 5
            priced.send_json({"id": number, "quantity": quantity, "cents": 95}, key=str(number))
    priced.send_json({"id": 12, "quantity": 3, "cents": 95}, key="12")

    delivery = audit(orders, priced, key="id", value="quantity")

    delivery.to_html(Path(os.environ["AUDIT_PAGE"]))
    assert (delivery.lost, delivery.altered, delivery.duplicated) == (2, 1, 1)
