"""`embedkafka produce`: writes records to a topic."""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from embedkafka.cli.options import add_reach_options
from embedkafka.cli.output import print_lines
from embedkafka.cli.reach import Reach, reach_of
from embedkafka.cluster.clients.decoding import show_data
from embedkafka.runtime.failures import ConfigError

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands

_SHOWN: Final = 200  # characters of a line in an error


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "produce",
        help="write records to a topic",
        description="Writes the values given, or each line of stdin, and prints where they are. "
        "Values that begin with a dash follow `--`.",
    )
    parser.add_argument("topic", metavar="TOPIC", help="the topic to write to")
    parser.add_argument("values", nargs="*", metavar="VALUE", help="a record's value")
    parser.add_argument(
        "--key-separator",
        metavar="TEXT",
        help="what is before this text is the record's key; each value must contain it",
    )
    add_reach_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    return print_lines(
        lambda: _written(
            reach_of(parsed), parsed.topic, parsed.values, separator=parsed.key_separator
        ),
        to_the_end=True,
    )


def _written(
    reach: Reach, topic: str, values: Sequence[str], *, separator: str | None
) -> Iterator[str]:
    """Writes each value, or each line of stdin; says where the records are.

    Bytes that are not UTF-8 are written as they are.
    """
    from embedkafka.cluster.clients.clients import Clients

    reach.view().statuses(topic)  # raises if there is no such topic
    between = None if separator is None else os.fsencode(separator)
    if between == b"":
        raise ConfigError("--key-separator must be text that is not empty")
    clients = Clients(reach.bootstrap_servers, settings=reach.settings)
    try:
        for number, line in enumerate(map(os.fsencode, values) if values else _lines(), 1):
            key, value = (None, line) if between is None else _split(line, between, number)
            sent = clients.send(topic, value, key=key)
            yield f"{topic}-{sent.partition} at {sent.offset}"
    finally:
        clients.close()


def _lines() -> Iterable[bytes]:
    lines = () if sys.stdin is None else sys.stdin.buffer  # None: it was closed before
    return (line.removesuffix(b"\n").removesuffix(b"\r") for line in lines)


def _split(line: bytes, separator: bytes, number: int) -> tuple[bytes, bytes]:
    """Key and value. Kafka's console producer refuses a line without the separator, too."""
    key, found, value = line.partition(separator)
    if not found:
        raise ConfigError(
            f"no key separator in line {number}: {show_data(line, longest=_SHOWN)}. The lines "
            "before it are written"
        )
    return key, value
