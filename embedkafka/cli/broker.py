"""`embedkafka broker`: one broker of a cluster that uses a real ZooKeeper."""

import argparse
import logging
from typing import TYPE_CHECKING

from embedkafka.cli import endings
from embedkafka.cli.options import add_broker_options
from embedkafka.cli.output import print_addresses
from embedkafka.cli.settings import settings_of

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "broker",
        help="run one broker of a cluster that uses a real ZooKeeper",
        description="Prints `BOOTSTRAP host:port` once the broker has joined, and a line "
        "`BOOTSTRAP.<LISTENER NAME> host:port` for each further listener; then likewise "
        "`ADVERTISED`, the address that clients are given when they have connected. On "
        "SIGINT, on SIGTERM, or when stdin closes, it moves its leaders away and ends.",
    )
    parser.add_argument(
        "--zookeeper", required=True, metavar="HOST:PORT[/CHROOT]", help="the ZooKeeper to use"
    )
    parser.add_argument(
        "--id", dest="broker_id", type=int, required=True, metavar="N", help="the broker's id"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=0,
        metavar="P",
        help="the port for clients (default: that of `listeners` in the settings, or else a free "
        "one)",
    )
    parser.add_argument("--stay", action="store_true", help="keep running when stdin closes")
    add_broker_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    from embedkafka.cluster.broker_process import BrokerProcess

    logging.getLogger("embedkafka").setLevel(logging.INFO)
    broker = BrokerProcess(
        zookeeper=parsed.zookeeper,
        broker_id=parsed.broker_id,
        host=parsed.host,
        port=parsed.port,
        advertise=parsed.advertise,
        config=settings_of(parsed),
        data_dir=parsed.data_dir,
    )
    with endings.signals_in_a_pipe() as signals, broker:
        print_addresses(broker.listeners, broker.advertised)
        endings.await_end(signals, stay=parsed.stay)
        endings.end_in_any_case()
    return 0
