"""How many records an audit compares per second and per core, and how that grows.

Spark writes the same records to two topics of an embedded cluster, but one record to the first
only, which an audit with the session of `embedkafka audit` has to find. `records` counts both
topics. CPU seconds are those of Spark's JVM; the brokers' are shown beside them. `peak MB` is the
most memory that the JVM has had, of which `--heap` bounds Java's part. With `--hot`, one key has a
quarter of the records, which one task has to sort alone.
"""

import argparse
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from embedkafka import EmbeddedKafka, Topic
from embedkafka.spark.delivery.audit import audit
from embedkafka.spark.delivery.command import audit_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    "peak MB",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=SIZES, metavar="N")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--heap", default="1g", metavar="SIZE", help="spark.driver.memory")
    parser.add_argument("--hot", action="store_true", help="one key has a quarter of the records")
    options = parser.parse_args()
    with (
        EmbeddedKafka(brokers=1) as kafka,
        audit_session(f"local[{options.cores}]", {"spark.driver.memory": options.heap}) as spark,
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
    ids, lost = spark.range(0, records, 1, PARTITIONS), records * 2 // 3
    _write(ids, source, hot=hot)
    _write(ids.where(f"id != {lost}"), sink, hot=hot)
    spark_before, broker_before = _spark_cpu_s(spark), time.process_time()
    began = time.perf_counter()
    delivery = audit(source, sink, spark=spark)
    took = time.perf_counter() - began
    spark_cpu, broker_cpu = _spark_cpu_s(spark) - spark_before, time.process_time() - broker_before
    assert (delivery.lost, delivery.judged) == (1, records - 1), delivery.table()
    assert delivery.examples[0].key == str(lost // RECORDS_PER_KEY)
    for topic in (source, sink):
        topic.delete()
    both = 2 * records - 1
    return both, took, both / took, spark_cpu, both / spark_cpu, broker_cpu, _peak_mb(spark)


def _write(ids: "DataFrame", topic: Topic, *, hot: bool) -> None:
    """Records of about 100 bytes, each partition by one task, so that keys keep their order."""
    key = f"id div {RECORDS_PER_KEY}"
    if hot:
        key = f"if(spark_partition_id() = 0, -1, {key})"
    rows = ids.selectExpr(
        f"cast({key} AS string) AS key",
        'format_string(\'{"id": %d, "text": "%s"}\', id, sha2(cast(id AS string), 256)) AS value',
        "spark_partition_id() AS partition",
    )
    options = {"kafka.bootstrap.servers": topic.bootstrap_servers, "topic": topic.name}
    rows.write.format("kafka").options(**options).save()


def _spark_cpu_s(spark: "SparkSession") -> float:
    """CPU seconds of the driver's JVM so far."""
    fields = _about_jvm(spark, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mb(spark: "SparkSession") -> float:
    """The most memory that the driver's JVM has had so far."""
    (line,) = (each for each in _about_jvm(spark, "status").splitlines() if "VmHWM" in each)
    return int(line.split()[1]) / 1024


def _about_jvm(spark: "SparkSession", what: str) -> str:
    jvm: Any = spark._jvm  # py4j has no types
    pid = jvm.java.lang.ProcessHandle.current().pid()
    return Path(f"/proc/{pid}/{what}").read_text()


if __name__ == "__main__":
    main()
