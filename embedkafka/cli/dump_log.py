"""`embedkafka dump-log`: what is in log files."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from embedkafka.cli.options import path

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "dump-log",
        help="print the contents of log files",
        description="Prints segments, batches, records, indexes and checkpoints. Problems are "
        "printed on lines that begin with `!`, and make the exit code 1.",
    )
    parser.add_argument(
        "path",
        type=path,
        metavar="PATH",
        help="a log file, or the directory of a partition, a broker or a whole --data-dir",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    from embedkafka.cluster import log_dump

    show = log_dump.as_json if parsed.json else log_dump.as_text
    damaged = False
    try:
        for finding in log_dump.dump_log(parsed.path):
            damaged = damaged or finding.kind == "problem"
            print(show(finding))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, and Python must not try to flush again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if damaged else 0
