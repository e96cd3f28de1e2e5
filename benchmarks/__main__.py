"""`python -m benchmarks`: embedkafka and Apache Kafka side by side, in one run, as ratios.

Rounds alternate between the clusters, so a busy moment of the machine affects them all, and the
table shows medians. Do not compare figures of different runs. On a shared machine, CPU times say
more than wall-clock times.
"""

import argparse
import resource
import signal
import sys

from benchmarks.report import Report
from benchmarks.rows import FULL, QUICK
from benchmarks.run import Run
from benchmarks.themes import CLUSTERS, THEMES


def main() -> int:
    options = _options()
    _allow_many_files()
    report = Report()
    run = Run(
        report,
        scale=QUICK if options.quick else FULL,
        brokers=options.brokers,
        rounds=options.rounds,
        only=options.only,
        match=options.match,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # runs the cleanup
    for theme in THEMES:
        if theme.name in options.themes:
            run.measure(theme)
    print(report.table(ours="embedkafka"))
    print(f"written to {report.write(vars(options))}")
    return 1 if report.failures else 0


def _allow_many_files() -> None:
    """Raises the limit of open files, as a JVM does; children inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _options() -> argparse.Namespace:
    names = [theme.name for theme in THEMES]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run on a smaller scale")
    parser.add_argument(
        "--brokers", type=int, default=1, help="brokers of basics and groups; replication has three"
    )
    parser.add_argument("--rounds", type=int, default=1, help="rounds to take medians of")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=CLUSTERS,
        metavar="CLUSTER",
        help=f"run on these instead of a theme's clusters: {', '.join(CLUSTERS)}",
    )
    parser.add_argument(
        "--themes",
        nargs="+",
        choices=names,
        default=names,
        metavar="THEME",
        help=f"themes to run: {', '.join(names)}",
    )
    parser.add_argument(
        "--match", default="", metavar="TEXT", help="run only workloads whose name contains this"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
