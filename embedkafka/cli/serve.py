"""`embedkafka serve`: a cluster until stdin closes or a signal arrives."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from embedkafka.cli import endings
from embedkafka.cli.clusters import add_cluster_options, make_cluster, metrics_page, users_of
from embedkafka.cli.options import add_broker_options
from embedkafka.cli.output import print_addresses

if TYPE_CHECKING:
    from embedkafka import EmbeddedKafka
    from embedkafka.cli.options import Subcommands


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "serve",
        help="run a cluster until stdin closes or a signal arrives",
        description="Prints `BOOTSTRAP host:port,...` once the cluster is ready, and a line "
        "`BOOTSTRAP.<LISTENER NAME> host:port,...` for each further listener. Lines that begin "
        "with `ADVERTISED` in place of `BOOTSTRAP` follow: the addresses that clients are given "
        "when they have connected. `CERTIFICATES directory` follows if the cluster made some, and "
        "for each user a line `CLIENT.<USER> file`, whose file is for Kafka's own tools. Ends on "
        "SIGINT, on SIGTERM, or when stdin closes.",
    )
    add_cluster_options(parser)
    parser.add_argument("--stay", action="store_true", help="keep running when stdin closes")
    add_broker_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    with endings.signals_in_a_pipe() as signals, make_cluster(parsed) as kafka:
        with metrics_page(kafka, parsed.metrics_port) as metrics:
            if metrics:
                print(f"METRICS {metrics}")
            print_addresses(kafka.listeners, kafka.advertised)
            _print_client_files(kafka, list(users_of(parsed)))
            endings.await_end(signals, stay=parsed.stay)
        endings.end_in_any_case()
    return 0


def _print_client_files(kafka: "EmbeddedKafka", users: Sequence[str]) -> None:
    """A line with a user's properties file for each of them, and one with the certificates."""
    if kafka.certificates_dir is not None:
        print(f"CERTIFICATES {kafka.certificates_dir}")
    for user in users:
        print(f"CLIENT.{user} {kafka.java_properties(user)}")
    sys.stdout.flush()
