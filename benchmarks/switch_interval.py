"""How long an ack takes while the test itself computes in the same process, by switch interval.

A Python thread that computes holds the interpreter lock for up to `sys.getswitchinterval()` seconds
while a broker thread waits for it. The producer runs in another process, so that only the brokers
compete with the computation.
"""

import argparse
import json
import subprocess
import sys
import time
from typing import Final

from benchmarks.workloads import measure_acks, percentile

INTERVALS: Final = (0.005, 0.002, 0.001, 0.0005)
TOPIC: Final = "acks"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.switch_interval")
    parser.add_argument("--acks", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--measure", metavar="BOOTSTRAP", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure_acks(options.measure, TOPIC, options.acks)))
        return
    _compare(options)


def _compare(options: argparse.Namespace) -> None:
    from embedkafka import EmbeddedKafka

    default = sys.getswitchinterval()
    print(f"Python's default is {default * 1000} ms; work/s is what the computing thread got done")
    print(f"{'interval ms':>12} {'p50 ms':>8} {'p99 ms':>8} {'work/s':>10}")
    try:
        with EmbeddedKafka(brokers=options.brokers) as kafka:
            kafka.create_topic(TOPIC, replication=min(3, options.brokers))
            for _ in range(options.rounds):
                for interval in INTERVALS:
                    sys.setswitchinterval(interval)
                    acks, work_per_second = _compute_while_measuring(
                        kafka.bootstrap_servers, options.acks
                    )
                    p50, p99 = percentile(acks, 50), percentile(acks, 99)
                    print(
                        f"{interval * 1000:>12} {p50:>8.2f} {p99:>8.2f} {work_per_second:>10.0f}",
                        flush=True,
                    )
    finally:
        sys.setswitchinterval(default)


def _compute_while_measuring(bootstrap_servers: str, acks: int) -> tuple[list[float], float]:
    """The acks another process saw, and how many pieces of work per second this thread did."""
    command = [sys.executable, "-m", "benchmarks.switch_interval", "--acks", str(acks)]
    client = subprocess.Popen(
        [*command, "--measure", bootstrap_servers], stdout=subprocess.PIPE, text=True
    )
    began = time.perf_counter()
    pieces = 0
    while client.poll() is None:
        sum(range(2000))
        pieces += 1
    took = time.perf_counter() - began
    told, _ = client.communicate()
    return json.loads(told), pieces / took


if __name__ == "__main__":
    main()
