"""Times acks by switch interval while the test itself computes in the same process.

A Python thread that computes holds the interpreter lock for up to `sys.getswitchinterval()` seconds
while a broker thread waits for it. The producer runs in another process, so that only the brokers
compete with the computation. It sends back to back, where a broker thread that has the lock often
keeps it, and with pauses, after which the broker must take the lock from the computation.
"""

import argparse
import json
import subprocess
import sys
import time
from typing import Final

from benchmarks.clients import percentile
from benchmarks.workloads.basics import measure_acks

INTERVALS: Final = (0.005, 0.002, 0.001, 0.0005)
TOPIC: Final = "acks"
PIECES_BETWEEN_POLLS: Final = 50
PAUSE_SECONDS: Final = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.switch_interval")
    parser.add_argument("--acks", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--measure", metavar="BOOTSTRAP", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        back_to_back = measure_acks(options.measure, TOPIC, options.acks)
        paused = measure_acks(options.measure, TOPIC, options.acks, pause_s=PAUSE_SECONDS)
        print(json.dumps([back_to_back, paused]))
        return
    _compare(options)


def _compare(options: argparse.Namespace) -> None:
    from embedkafka import EmbeddedKafka

    default = sys.getswitchinterval()
    print(f"Python's default is {default * 1000} ms; work/s is the computing thread's progress")
    columns = ("interval ms", "p50 ms", "p99 ms", "paused p50", "paused p99", "work/s")
    print("".join(f"{column:>13}" for column in columns))
    try:
        with EmbeddedKafka(brokers=options.brokers) as kafka:
            kafka.topic(TOPIC, replication=min(3, options.brokers))
            for _ in range(options.rounds):
                for interval in INTERVALS:
                    sys.setswitchinterval(interval)
                    acks, work = _compute_while_measuring(kafka.bootstrap_servers, options.acks)
                    shown = [percentile(each, percent) for each in acks for percent in (50, 99)]
                    row = "".join(f"{value:>13.2f}" for value in (interval * 1000, *shown))
                    print(f"{row}{work:>13.0f}", flush=True)
    finally:
        sys.setswitchinterval(default)


def _compute_while_measuring(bootstrap_servers: str, acks: int) -> tuple[list[list[float]], float]:
    """Returns the ack times seen by another process, and this thread's work per second."""
    command = [sys.executable, "-m", "benchmarks.switch_interval", "--acks", str(acks)]
    client = subprocess.Popen(
        [*command, "--measure", bootstrap_servers], stdout=subprocess.PIPE, text=True
    )
    began = time.perf_counter()
    pieces = 0
    while client.poll() is None:  # releases the lock, so it must be rare
        for _ in range(PIECES_BETWEEN_POLLS):
            sum(number * number for number in range(10_000))
            pieces += 1
    took = time.perf_counter() - began
    told, _ = client.communicate()
    return json.loads(told), pieces / took


if __name__ == "__main__":
    main()
