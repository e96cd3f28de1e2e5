"""`embedkafka up`: runs a command with a cluster."""

import argparse
import os
import re
from typing import TYPE_CHECKING

from embedkafka.cli.child_process import exit_on_signals, run_command
from embedkafka.cli.clusters import add_cluster_options, make_cluster, metrics_page
from embedkafka.cli.endings import end_in_any_case
from embedkafka.cli.options import add_broker_options
from embedkafka.cli.output import complain
from embedkafka.runtime.failures import EmbedKafkaError

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "up",
        usage="embedkafka up [options] -- command [argument ...]",
        help="run a command with a cluster, and end with it",
        description="Sets EMBEDKAFKA_BOOTSTRAP and KAFKA_BOOTSTRAP_SERVERS to the cluster's "
        "addresses for the command, EMBEDKAFKA_BOOTSTRAP_<LISTENER NAME> to those of each further "
        "listener, and with --metrics-port EMBEDKAFKA_METRICS to the page's. Exits with the "
        "command's exit code.",
    )
    add_cluster_options(parser)
    add_broker_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    code = 0
    try:
        with exit_on_signals(), make_cluster(parsed) as kafka:
            servers = kafka.bootstrap_servers
            added = {"EMBEDKAFKA_BOOTSTRAP": servers, "KAFKA_BOOTSTRAP_SERVERS": servers}
            for name, addresses in list(kafka.listeners.items())[1:]:
                added[f"EMBEDKAFKA_BOOTSTRAP_{re.sub('[^A-Z0-9]', '_', name)}"] = addresses
            with metrics_page(kafka, parsed.metrics_port) as metrics:
                if metrics:
                    added["EMBEDKAFKA_METRICS"] = metrics
                code = run_command(parsed.command, {**os.environ, **added})
            end_in_any_case()
    except EmbedKafkaError as error:
        if code == 0:
            raise
        return complain(str(error), code=code)
    return code
