"""`embedkafka produce`: writes records to a topic."""

import argparse
import base64
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from embedkafka.cli.options import add_reach_options, setting, whole_number
from embedkafka.cli.output import print_lines
from embedkafka.cli.reach import Reach, reach_of
from embedkafka.cluster.clients.decoding import show_data
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import NamedTuple

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
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument(
        "--key-separator",
        metavar="TEXT",
        help="what is before this text is the record's key; each value must contain it",
    )
    keys.add_argument("--key", metavar="KEY", help="the key of every record")
    keys.add_argument(
        "--json",
        action="store_true",
        help="each value is an object with value, key and headers, as `tail --json` prints it",
    )
    parser.add_argument(
        "--header",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a header of every record; may be repeated",
    )
    parser.add_argument(
        "--partition", type=whole_number, metavar="N", help="where to write (default: by the key)"
    )
    add_reach_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    return print_lines(lambda: _written(reach_of(parsed), parsed), to_the_end=True)


def _written(reach: Reach, parsed: argparse.Namespace) -> Iterator[str]:
    """Writes each value, or each line of stdin; says where the records are.

    Bytes that are not UTF-8 are written as they are.
    """
    from embedkafka.cluster.clients.clients import Clients

    topic, values = parsed.topic, parsed.values
    reach.view().statuses(topic)  # raises if there is no such topic
    if parsed.key_separator == "":
        raise ConfigError("--key-separator must be text that is not empty")
    clients = Clients(reach.bootstrap_servers, settings=reach.settings)
    try:
        for number, line in enumerate(map(os.fsencode, values) if values else _lines(), 1):
            record = _record(line, number, parsed)
            headers = [*record.headers, *parsed.header]
            sent = clients.send(
                topic, record.value, key=record.key, headers=headers, partition=parsed.partition
            )
            yield f"{topic}-{sent.partition} at {sent.offset}"
    finally:
        clients.close()


class _Record(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


def _record(line: bytes, number: int, parsed: argparse.Namespace) -> _Record:
    if parsed.json:
        return _of_json(line, number)
    if parsed.key_separator is not None:
        key, value = _split(line, os.fsencode(parsed.key_separator), number)
        return _Record(value, key)
    return _Record(line, None if parsed.key is None else os.fsencode(parsed.key))


def _of_json(line: bytes, number: int) -> _Record:
    """A record as `tail --json` prints it; where it was does not count."""
    try:
        given = json.loads(line)
        headers = [(str(name), _data(held)) for name, held in given.get("headers", ())]
        return _Record(_data(given["value"]), _data(given.get("key")), headers)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"line {number} is not a record as `tail --json` prints it: "
            f"{show_data(line, longest=_SHOWN)}. The lines before it are written"
        ) from error


def _data(given: object) -> bytes | None:
    if given is None:
        return None
    if isinstance(given, dict) and given.keys() == {"base64"}:
        return base64.b64decode(given["base64"], validate=True)
    return (given if isinstance(given, str) else json.dumps(given)).encode()


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
