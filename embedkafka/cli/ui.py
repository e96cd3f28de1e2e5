"""`embedkafka ui`: a page that shows any cluster."""

import argparse
import signal
import threading
from typing import TYPE_CHECKING

from embedkafka.cli.options import add_reach_options, port_number
from embedkafka.cli.reach import reach_of

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "ui",
        help="show a cluster in a browser",
        description="Serves a page on 127.0.0.1 with topics, records as they come, groups and "
        "partitions, and prints its address. Ends with Ctrl-C.",
    )
    parser.add_argument("--port", type=port_number, default=0, metavar="P", help="the page's port")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    add_reach_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    import webbrowser

    from embedkafka.page.server import PageServer
    from embedkafka.page.source import ExternalSource

    with PageServer(ExternalSource(reach_of(parsed).view), port=parsed.port) as server:
        print(server.url, flush=True)
        if not parsed.no_browser:
            webbrowser.open(server.url)
        # A shell makes what it starts in the background ignore SIGINT.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return 0
    return 0
