"""The table of README: embedkafka beside Apache Kafka, as Testcontainers would start it.

    python -m benchmarks.first_look            # prints the table
    python -m benchmarks.first_look --write    # and puts it into README

Apache Kafka from Maven stands in for the container: a process with the flags of Kafka's own scripts
and the settings that Testcontainers gives its image. Docker, the image and its pull come on top.
Rounds alternate between the two clusters, and the table shows medians.
"""

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.rivals.apache import ApacheRival
from benchmarks.rivals.embedded import EmbeddedRival
from benchmarks.rivals.rival import cpu_seconds, user_environment
from benchmarks.rows import FULL
from benchmarks.workloads.failover import failover
from tests.java_tools.oracle import VERSIONS, kafka_version

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "README.md"
SUITE: Final = Path(__file__).with_name("twenty_tests")
OURS: Final = "embedkafka"
THEIRS: Final = "Apache Kafka"
BEGINS, ENDS = "<!-- benchmarks.first_look -->\n", "<!-- the end of the table -->"

ONE_BROKER: Final = "start one broker, from nothing"
THREE_BROKERS: Final = "start three brokers, from nothing"
START_CPU: Final = "CPU for these three"
NEXT_CLUSTER: Final = "start the next three in the same test process"
FAILOVER: Final = "three brokers: from the death of a leader to the next ack"
COLD: Final = "a suite of 20 tests, with the start of its broker"
COLD_CPU: Final = "CPU for it"
WARM: Final = "the same suite on a broker that runs already"
WARM_CPU: Final = "CPU for that"
ROWS: Final = (
    ONE_BROKER,
    THREE_BROKERS,
    START_CPU,
    NEXT_CLUSTER,
    FAILOVER,
    COLD,
    COLD_CPU,
    WARM,
    WARM_CPU,
)
_OF_THE_CONTAINER: Final = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
}

Measured = dict[str, dict[str, list[float]]]
"""Seconds, by row and cluster."""


def main() -> None:
    options = _options()
    measured: Measured = defaultdict(lambda: defaultdict(list))
    for number in range(options.rounds):
        for cluster in (OURS, THEIRS):
            _say(f"round {number + 1} of {options.rounds}: {cluster}")
            for name, seconds in measure(cluster, kills=options.kills):
                measured[name][cluster].append(seconds)
    shown = table(measured) + _conditions(options.rounds)
    print(shown, end="")
    if options.write:
        README.write_text(replaced(README.read_text(), shown))


def measure(cluster: str, *, kills: int) -> Iterator[tuple[str, float]]:
    """The rows of one cluster."""
    with _rival(cluster, brokers=1) as rival:
        yield ONE_BROKER, rival.facts["process start to ready ms"] / 1000
        running_before = cpu_seconds(rival)
        seconds, cpu = run_suite(rival.bootstrap_servers)
        yield WARM, seconds
        yield WARM_CPU, cpu + cpu_seconds(rival) - running_before
    with _rival(cluster, brokers=3) as rival:
        yield THREE_BROKERS, rival.facts["process start to ready ms"] / 1000
        yield START_CPU, rival.facts["process start to ready CPU s"]
        for row in failover(rival, replace(FULL, kills=kills)):
            if "next ack ms" in row.name:
                yield FAILOVER, row.value / 1000
        rival.stop()
        yield NEXT_CLUSTER, rival.facts["start in a warm process ms"] / 1000
    seconds, cpu = run_suite("embedkafka" if cluster == OURS else "container")
    yield COLD, seconds
    yield COLD_CPU, cpu


def run_suite(cluster: str) -> tuple[float, float]:
    """The seconds and the CPU seconds of pytest, with all the processes that it starts."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(SUITE)]
        settings = [
            "-c",
            os.devnull,
            f"--rootdir={folder}",
            "--kafka-brokers=1",
            "-p",
            "no:asyncio",
        ]
        stands_in = {"CLUSTER": cluster, "STAND_IN": "apache", "PYTHONPATH": str(ROOT)}
        began, spent_before = time.perf_counter(), os.times()
        done = subprocess.run(
            [*command, *settings],
            env={**user_environment(), **stands_in},
            capture_output=True,
            text=True,
            check=False,
        )
        seconds, spent = time.perf_counter() - began, os.times()
    if done.returncode or "20 passed" not in done.stdout:
        raise RuntimeError(done.stdout + done.stderr)
    user = spent.children_user - spent_before.children_user
    return seconds, user + spent.children_system - spent_before.children_system


def table(measured: Measured) -> str:
    """Medians as a Markdown table, in the order of README."""
    lines = [f"| | {OURS} | {THEIRS} |", "|---|---|---|"]
    for name in ROWS:
        cells = [_shown(measured[name][cluster]) for cluster in (OURS, THEIRS)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def replaced(text: str, shown: str) -> str:
    """README with another table."""
    pattern = re.compile(re.escape(BEGINS) + ".*?" + re.escape(ENDS), re.DOTALL)
    changed, count = pattern.subn(lambda _: f"{BEGINS}{shown}{ENDS}", text)
    if count != 1:
        raise ValueError(f"README should have one table between {BEGINS!r} and {ENDS!r}")
    return changed


def _rival(cluster: str, *, brokers: int) -> EmbeddedRival | ApacheRival:
    if cluster == OURS:
        return EmbeddedRival(brokers=brokers, config={}, parent=None, keeps_data=False, ports={})
    return ApacheRival("shipped", brokers=brokers, config=_OF_THE_CONTAINER, parent=None, ports={})


def _shown(seconds: Sequence[float]) -> str:
    """Two digits, in the unit that reads best."""
    if not seconds:
        return "-"
    value = statistics.median(seconds)
    if value < 1:
        return f"{float(f'{value * 1000:.2g}'):g} ms"
    return f"{float(f'{value:.2g}'):g} s"


def _conditions(rounds: int) -> str:
    version, load = kafka_version(VERSIONS[0]), os.getloadavg()[0]
    return (
        f"\nMedians of {rounds} round{'s' * (rounds != 1)} with Apache Kafka {version}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores, a load of {load:.0f}.\n"
    )


def _say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.first_look",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds to take medians of")
    parser.add_argument("--kills", type=int, default=3, help="leaders to kill in each round")
    parser.add_argument("--write", action="store_true", help="put the table into README")
    return parser.parse_args()


if __name__ == "__main__":
    main()
