"""Deliveries to report on, good and bad."""

from embedkafka.runtime.values import replace
from embedkafka.spark.delivery.result import (
    AuditedRecord,
    Delivery,
    Example,
    Kind,
    PartitionDelivery,
)

GOOD = Delivery(
    source="orders",
    sink="priced",
    key="id",
    value="sku, quantity",
    source_records=1_200,
    sink_records=1_200,
    without_key=0,
    delivered=1_200,
    lost=0,
    duplicated=0,
    altered=0,
    unexpected=0,
    reordered=0,
    scattered=0,
    judged=1_200,
    partitions=(
        PartitionDelivery(
            side="source",
            topic="orders",
            partition=0,
            records=1_200,
            counts={Kind.DELIVERED: 1_200},
            start=10,
            end=1_210,
        ),
    ),
    examples=(),
)
BAD = replace(
    GOOD,
    delivered=1_197,
    lost=2,
    altered=1,
    without_key=4,
    partitions=(
        *GOOD.partitions,
        PartitionDelivery(
            side="sink",
            topic="priced",
            partition=2,
            records=1_198,
            counts={Kind.DELIVERED: 1_197, Kind.ALTERED: 1},
            first_fault=77,
            last_fault=77,
        ),
    ),
    examples=(
        Example(
            kind=Kind.ALTERED,
            key="<b>7</b>",
            source=AuditedRecord(topic="orders", partition=0, offset=3, value='{"a": "<&>"}'),
            sink=AuditedRecord(topic="priced", partition=2, offset=77, value=None),
        ),
        Example(
            kind=Kind.LOST,
            key=None,
            source=AuditedRecord(topic="orders", partition=None, offset=None, value="x" * 100),
        ),
    ),
)
