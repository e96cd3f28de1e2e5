"""`python -m benchmarks`: embedkafka and Apache Kafka side by side, in one run, as ratios.

All clusters run at once, each idle while another is measured; rounds alternate between them, so
that a busy moment of the machine meets them all. Figures of different runs must not be compared.
"""

import argparse
import contextlib
import sys

from benchmarks.report import Report
from benchmarks.rivals import ApacheRival, EmbeddedRival, ProcessesRival, Rival, memory_mib
from benchmarks.workloads import FRESH, REPEATED, Row, Scale, Workload

EMBEDDED, PROCESSES = "embedded", "processes"
DEFAULT = (EMBEDDED, "shipped", "tuned")
CHOICES = (*DEFAULT, PROCESSES)


def main() -> None:
    options = _options()
    replication = min(3, options.brokers)
    scale = (
        Scale(records=50_000, acks=200, groups=2, topics=3, replication=replication)
        if options.quick
        else Scale(records=1_000_000, acks=1000, groups=5, topics=10, replication=replication)
    )
    rivals = [_rival(choice, options.brokers) for choice in options.only]
    report = Report([rival.name for rival in rivals])
    with contextlib.ExitStack() as running:
        for rival in rivals:
            _say(f"starting {rival.name}")
            running.enter_context(rival)
            _run(rival, FRESH, scale, report)
        for number in range(options.rounds):
            for workload in REPEATED:
                for rival in rivals:
                    _say(f"round {number + 1} of {options.rounds}: {rival.name}")
                    _run(rival, (workload,), scale, report)
        for rival in rivals:
            report.add(rival.name, Row(name="memory after load MiB", value=memory_mib(rival)))
            rival.stop()
            report.add_facts(rival.name, rival.facts)
    print(report.table(ours="embedkafka"))
    print(f"written to {report.write(vars(options))}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the records")
    parser.add_argument("--brokers", type=int, default=1, help="3 measures replication as well")
    parser.add_argument("--rounds", type=int, default=1, help="the table shows medians")
    parser.add_argument("--only", nargs="+", choices=CHOICES, default=DEFAULT, metavar="CLUSTER")
    return parser.parse_args()


def _rival(choice: str, brokers: int) -> Rival:
    if choice == EMBEDDED:
        return EmbeddedRival(brokers=brokers)
    if choice == PROCESSES:
        return ProcessesRival(brokers=brokers)
    return ApacheRival("shipped" if choice == "shipped" else "tuned", brokers=brokers)


def _run(rival: Rival, workloads: tuple[Workload, ...], scale: Scale, report: Report) -> None:
    for workload in workloads:
        for row in workload(rival, scale):
            report.add(rival.name, row)


def _say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
