"""The score of the corpus: `python -m tests.spark.corpus --seeds 1 2 --match Total`.

For each pair and seed, it prints which schedule has found the wrong job, how many the right one has
passed, and the CPU seconds of both, Spark's included.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from embedkafka import EmbeddedKafka
from embedkafka.explore import Refuted, explore
from embedkafka.spark.session import local_session
from tests.spark.corpus.pairs import PAIRS
from tests.spark.corpus.parts import Pair
from tests.spark.corpus.tables import TABLE_PAIRS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.corpus", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--match", nargs="+", default=[""])
    parser.add_argument("--schedules", type=int, default=20)
    parser.add_argument("--tables", action="store_true", help="those of Delta and Iceberg")
    arguments = parser.parse_args()
    pairs, packages = (TABLE_PAIRS, ["delta", "iceberg"]) if arguments.tables else (PAIRS, [])
    chosen = [pair for pair in pairs if any(part in pair.__name__ for part in arguments.match)]
    print(f"{'pair':<24}{'seed':>5}{'found by':>10}{'CPU s':>7}{'passed':>8}{'CPU s':>7}")
    with EmbeddedKafka(brokers=3) as kafka, local_session(packages=packages) as spark:
        for pair in chosen:
            for seed in arguments.seeds:
                score(kafka, spark, pair, seed, arguments.schedules)


def score(
    kafka: EmbeddedKafka, spark: SparkSession, pair: type[Pair], seed: int, schedules: int
) -> None:
    """Prints the row of a pair and a seed."""

    def find() -> str:
        wrong = pair().wrong()
        return outcome(lambda: explore(kafka, spark, **wrong, seed=seed, shrink_runs=0), pair.says)

    def accuse() -> str:
        right = pair().right()
        return outcome(lambda: explore(kafka, spark, **right, seed=seed, schedules=schedules), "")

    cells = [f"{pair.__name__:<24}{seed:>5}"]
    for explores, width in ((find, 10), (accuse, 8)):
        before = cpu_seconds(spark)
        said = explores()
        cells.append(f"{said:>{width}}{cpu_seconds(spark) - before:>7.1f}")
    print("".join(cells), flush=True)


def outcome(explores: Callable[[], Any], says: str) -> str:
    """The number of the schedule that has refuted the job, or how many it has passed.

    A question mark is behind one that has refuted it in other words.
    """
    try:
        return str(explores().schedules)
    except Refuted as refuted:
        number = str(refuted.seed).rpartition("/")[2]
        return f"#{number}{'' if says in str(refuted) else '?'}"


def cpu_seconds(spark: SparkSession) -> float:
    """Of this process, and of Spark's JVM with the workers that have ended."""
    context: Any = spark.sparkContext  # untyped in PySpark
    pid = context._gateway.proc.pid
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") + sum(os.times()[:2])


if __name__ == "__main__":
    main()
