"""How many records an audit compares per second and per core, and how that grows.

Spark writes the same records to two topics of an embedded cluster, which are then audited with the
session of `embedkafka audit`. `records` counts both topics. CPU seconds are those of Spark's JVM;
the brokers' are shown beside them. With `--hot`, one key has a quarter of the records, which one
task has to sort alone.
"""

import argparse
import os
import time
from typing import TYPE_CHECKING, Any, Final

from embedkafka import EmbeddedKafka, Topic
from embedkafka.spark.delivery.audit import audit
from embedkafka.spark.delivery.command import audit_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES: Final = (100_000, 1_000_000)
PARTITIONS: Final = 4
RECORDS_PER_KEY: Final = 10
COLUMNS: Final = (
    "records",
    "seconds",
    "records/s",
    "Spark CPU s",
    "records/CPU s",
    "broker CPU s",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=SIZES, metavar="N")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--hot", action="store_true", help="one key has a quarter of the records")
    options = parser.parse_args()
    with (
        EmbeddedKafka(brokers=1) as kafka,
        audit_session(f"local[{options.cores}]", {}) as spark,
    ):
        measure(spark, kafka, 1_000, hot=options.hot)  # loads classes
        print("".join(f"{column:>15}" for column in COLUMNS), flush=True)
        for records in options.records:
            row = measure(spark, kafka, records, hot=options.hot)
            print("".join(f"{value:>15,.1f}" for value in row), flush=True)


def measure(
    spark: "SparkSession", kafka: EmbeddedKafka, records: int, *, hot: bool = False
) -> tuple[float, ...]:
    """The values of `COLUMNS` for `records` records in each of two topics."""
    source, sink = kafka.topic(partitions=PARTITIONS), kafka.topic(partitions=PARTITIONS)
    for topic in (source, sink):
        _write(spark, topic, records, hot=hot)
    spark_before, broker_before = _spark_cpu_s(spark), time.process_time()
    began = time.perf_counter()
    delivery = audit(source, sink, spark=spark)
    took = time.perf_counter() - began
    spark_cpu, broker_cpu = _spark_cpu_s(spark) - spark_before, time.process_time() - broker_before
    assert delivery.ok, delivery.table()
    assert delivery.judged == records
    for topic in (source, sink):
        kafka.delete_topic(topic.name)
    both = 2 * records
    return both, took, both / took, spark_cpu, both / spark_cpu, broker_cpu


def _write(spark: "SparkSession", topic: Topic, records: int, *, hot: bool) -> None:
    """Records of about 100 bytes, each partition by one task, so that keys keep their order."""
    key = f"id div {RECORDS_PER_KEY}"
    if hot:
        key = f"if(spark_partition_id() = 0, -1, {key})"
    rows = spark.range(0, records, 1, PARTITIONS).selectExpr(
        f"cast({key} AS string) AS key",
        'format_string(\'{"id": %d, "text": "%s"}\', id, sha2(cast(id AS string), 256)) AS value',
        "spark_partition_id() AS partition",
    )
    options = {"kafka.bootstrap.servers": topic.bootstrap_servers, "topic": topic.name}
    rows.write.format("kafka").options(**options).save()


def _spark_cpu_s(spark: "SparkSession") -> float:
    """CPU seconds of the driver's JVM so far."""
    jvm: Any = spark._jvm  # py4j has no types
    pid = jvm.java.lang.ProcessHandle.current().pid()
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
