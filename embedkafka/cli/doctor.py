"""`embedkafka doctor`: what this machine has for Kafka and Spark tests."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "doctor",
        help="say what this machine has for Kafka and Spark tests, and what to do",
        description="Looks at versions, ports, limits, Java, Spark, its Kafka connector and the "
        "cache. Downloads nothing. Exits with 1 if no cluster can run.",
    )
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    from embedkafka.cli.checkups import examine

    is_fatal = False
    for finding in examine():
        print(finding, flush=True)
        is_fatal = is_fatal or finding.is_fatal
    return 1 if is_fatal else 0
