"""What metrics cost: acks and the brokers' CPU time, with the counters off and on in turn.

The producer runs in another process, so the CPU time of this one is the broker's. Off is the state
of every cluster until a program asks for its metrics.
"""

import argparse
import json
import subprocess
import sys
import time
from typing import Final

from benchmarks.clients import percentile
from benchmarks.workloads.basics import measure_acks

TOPIC: Final = "acks"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metrics")
    parser.add_argument("--acks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", metavar="BOOTSTRAP", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure_acks(options.measure, TOPIC, options.acks)))
        return
    _compare(acks=options.acks, rounds=options.rounds)


def _compare(*, acks: int, rounds: int) -> None:
    from embedkafka import EmbeddedKafka

    print(f"{'metrics':>8}{'p50 ms':>10}{'CPU us per request':>20}")
    with EmbeddedKafka() as kafka:
        kafka.topic(TOPIC)
        for _ in range(rounds):
            for state in ("off", "on"):
                if state == "on":
                    kafka.metrics()
                else:
                    kafka._require_brokers().drop_meters()
                began = time.process_time()
                command = [sys.executable, "-m", "benchmarks.metrics", "--acks", str(acks)]
                command += ["--measure", kafka.bootstrap_servers]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                spent = time.process_time() - began
                p50 = percentile(json.loads(done.stdout), 50)
                print(f"{state:>8}{p50:>10.3f}{spent * 1e6 / acks:>20.1f}", flush=True)


if __name__ == "__main__":
    main()
