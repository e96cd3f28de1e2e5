"""The types of options, and the options that several commands have."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from embedkafka.cli.output import OUTPUTS
from embedkafka.runtime.arguments import MAX_INT64, require_path
from embedkafka.runtime.failures import InvalidArgument

if TYPE_CHECKING:
    Subcommands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_reach_options(parser: argparse.ArgumentParser) -> None:
    """Where the cluster is, and how a client may reach it."""
    parser.add_argument(
        "--bootstrap",
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,...",
        help="brokers of the cluster (default: those of --client-config, EMBEDKAFKA_BOOTSTRAP or "
        "KAFKA_BOOTSTRAP_SERVERS)",
    )
    parser.add_argument(
        "--client-config",
        type=path,
        metavar="FILE",
        help="settings of the Java client, such as security.protocol, as a properties file",
    )


def add_output_option(parser: argparse.ArgumentParser) -> None:
    """How a table is printed."""
    parser.add_argument(
        "--output", "-o", choices=OUTPUTS, default=OUTPUTS[0], help="the form (default: table)"
    )


def add_broker_options(parser: argparse.ArgumentParser) -> None:
    """The options of `serve`, `up` and `broker`."""
    parser.add_argument(
        "--host",
        metavar="H",
        help="the address to listen on (default: those of `listeners` in the settings, or else "
        "127.0.0.1); with 0.0.0.0 or ::, clients are given this machine's own address",
    )
    parser.add_argument(
        "--advertise",
        metavar="HOST",
        help="the host that clients are given, with the port that a broker listens on (default: "
        "`advertised.listeners` in the settings, or else where it listens)",
    )
    parser.add_argument(
        "--properties",
        type=path,
        metavar="FILE",
        help="broker settings in the format of server.properties",
    )
    parser.add_argument(
        "--config",
        type=setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a broker setting, which overrides the file; may be repeated",
    )
    parser.add_argument(
        "--data-dir",
        type=path,
        metavar="D",
        help="keep the data in this directory (default: keep nothing)",
    )


def port_number(text: str) -> int:
    """The type of an option."""
    return _number(text, most=65_535, what="a port, from 0 to 65535")


def whole_number(text: str) -> int:
    """The type of an option."""
    return _number(text, most=MAX_INT64, what="a whole number from 0 on")


def path(text: str) -> Path:
    """The type of an option. An empty one would be the current directory."""
    try:
        return require_path("it", text)
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def setting(text: str) -> tuple[str, str]:
    """The type of an option."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value.strip()


def _number(text: str, *, most: int, what: str) -> int:
    is_number = text.isdecimal() and len(text) <= len(str(most))
    if not is_number or int(text) > most:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return int(text)
