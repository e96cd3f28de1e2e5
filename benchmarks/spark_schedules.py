"""How many schedules of a streaming job `explore` runs in a minute, and where the time goes.

The job keeps a sum per key: it reads a topic, aggregates with state and writes a topic. Each row is
a schedule with one kind of step. CPU seconds are those of Spark's JVM and of this process, which
has the brokers; they say more than wall-clock times when others use the machine as well.
"""

import argparse
import os
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from embedkafka import EmbeddedKafka
from embedkafka.explore.inputs import Input, read_inputs
from embedkafka.explore.options import Options
from embedkafka.explore.outputs import latest_by_key
from embedkafka.explore.runner import Runner
from embedkafka.explore.schedule import (
    Crash,
    Event,
    Grow,
    KillLeader,
    Limit,
    LoseReply,
    MoveLeaders,
    Placed,
    Restart,
    Schedule,
    Take,
    plain,
)
from embedkafka.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RECORDS: Final = 12
KEYS: Final = 3
SCHEDULES: Final[Mapping[str, tuple[Event, ...]]] = {
    "plain": (),
    "two batches": (Take(),),
    "restart": (Take(), Restart()),
    "crash": (Crash(),),
    "limit (three batches)": (Limit(records=RECORDS // 3),),
    "lost reply": (LoseReply(topic="totals", api="PRODUCE"),),
    "new partition": (Grow(source="orders"),),
    "leaders move": (Take(), MoveLeaders(topic="orders")),
    "leader dies": (Take(), KillLeader(topic="orders")),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_schedules")
    parser.add_argument("--rounds", type=int, default=5, help="after one to warm up")
    options = parser.parse_args()
    with EmbeddedKafka(brokers=3) as kafka, local_session("schedules") as spark:
        runner = Runner(
            kafka,
            spark,
            job=totals,
            feeds=read_inputs({"orders": Input(list(orders()), key="sku")}, seed=0),
            outputs={"totals": latest_by_key()},
            reset=None,
            timeout_s=120,
        )
        meter = Meter(jvm_pid(spark))
        print(f"{'schedule':<24}{'seconds':>10}{'JVM CPU':>10}{'our CPU':>10}{'per minute':>12}")
        for name, events in SCHEDULES.items():
            schedule = plain({"orders": RECORDS}).having(
                [Placed(position=RECORDS // 2, event=event) for event in events]
            )
            runner.run(schedule)
            spent = [meter.measure(runner, schedule) for _ in range(options.rounds)]
            seconds, jvm, ours = (statistics.median(column) for column in zip(*spent, strict=True))
            print(f"{name:<24}{seconds:>10.2f}{jvm:>10.2f}{ours:>10.2f}{60 / seconds:>12.0f}")


def orders() -> Iterator[dict[str, object]]:
    for number in range(RECORDS):
        yield {"sku": f"sku-{number % KEYS}", "n": number}


def totals(spark: "SparkSession", options: Options) -> "StreamingQuery":
    source = spark.readStream.format("kafka").options(**options.read("orders")).load()
    parsed = source.selectExpr("from_json(cast(value AS string), 'sku STRING, n INT') AS order")
    sums = parsed.select("order.*").groupBy("sku").sum("n").toDF("key", "total")
    rows = sums.selectExpr("key", "cast(total AS string) AS value")
    writer = rows.writeStream.format("kafka").outputMode("update").trigger(**options.trigger)
    return writer.options(**options.sink("totals")).start()


def jvm_pid(spark: "SparkSession") -> int:
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a local session has a JVM"
    return int(jvm.java.lang.ProcessHandle.current().pid())


class Meter:
    """The time that runs take: real, and of both processes."""

    def __init__(self, jvm: int) -> None:
        self._jvm = jvm
        self._ticks_per_second = os.sysconf("SC_CLK_TCK")

    def measure(self, runner: Runner, schedule: Schedule) -> tuple[float, float, float]:
        began, jvm, ours = time.perf_counter(), self._jvm_cpu(), time.process_time()
        runner.run(schedule)
        return (
            time.perf_counter() - began,
            self._jvm_cpu() - jvm,
            time.process_time() - ours,
        )

    def _jvm_cpu(self) -> float:
        with open(f"/proc/{self._jvm}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / self._ticks_per_second


if __name__ == "__main__":
    main()
