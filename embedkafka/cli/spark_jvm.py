"""`embedkafka spark-jvm`: lists or ends warm JVMs."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "spark-jvm",
        help="list the warm JVMs that Spark sessions have left, or end them",
        description="A JVM that a session uses ends with that session.",
    )
    parser.add_argument("action", choices=["list", "stop"], help="what to do")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    from embedkafka.spark.warm.home import default_home, find_kept, stop_kept

    home = default_home()
    for line in stop_kept(home) if parsed.action == "stop" else map(str, find_kept(home)):
        print(line, flush=True)
    return 0
