"""The subcommands for people in a terminal: their arguments, and what they print."""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from embedkafka.runtime.arguments import MAX_INT64, require_path
from embedkafka.runtime.failures import InvalidArgument

if TYPE_CHECKING:
    from embedkafka.terminal.client import Reach


def add_terminal_commands(
    subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> None:
    """Adds `topics`, `groups`, `tail`, `produce`, `ui` and `doctor`."""
    topics = subcommands.add_parser(
        "topics",
        help="list the topics of a cluster, or the partitions of one",
        description="Prints a table of topics, or of the partitions of one topic with their ends.",
    )
    topics.add_argument("topic", nargs="?", metavar="TOPIC", help="show this topic's partitions")
    topics.set_defaults(run=_topics)
    groups = subcommands.add_parser(
        "groups",
        help="list the consumer groups of a cluster, or the offsets of one",
        description="Prints a table of groups with their lag, or of one group's partitions.",
    )
    groups.add_argument("group", nargs="?", metavar="GROUP", help="show this group's partitions")
    groups.set_defaults(run=_groups)
    tail = subcommands.add_parser(
        "tail",
        help="print the records of a topic as they come",
        description="Prints partition and offset, key and value of each record, until Ctrl-C.",
    )
    tail.add_argument("topic", metavar="TOPIC", help="the topic to read")
    tail.add_argument(
        "--from-start", action="store_true", help="begin with the first record, not the next one"
    )
    tail.add_argument("--count", type=whole_number, metavar="N", help="end after this many records")
    tail.add_argument("--json", action="store_true", help="print one JSON object per line")
    tail.add_argument(
        "--decode",
        metavar="MODULE:FUNCTION|FILE.avsc",
        help="decode values with a function of their bytes, or with an Avro schema",
    )
    tail.set_defaults(run=_tail)
    produce = subcommands.add_parser(
        "produce",
        help="write records to a topic",
        description="Writes the values given, or each line of stdin, and prints where they are. "
        "Values that begin with a dash follow `--`.",
    )
    produce.add_argument("topic", metavar="TOPIC", help="the topic to write to")
    produce.add_argument("values", nargs="*", metavar="VALUE", help="a record's value")
    produce.add_argument(
        "--key-separator",
        metavar="TEXT",
        help="what is before this text is the record's key; each value must contain it",
    )
    produce.set_defaults(run=_produce)
    ui = subcommands.add_parser(
        "ui",
        help="show a cluster in a browser",
        description="Serves a page on 127.0.0.1 with topics, records as they come, groups and "
        "partitions, and prints its address. Ends with Ctrl-C.",
    )
    ui.add_argument("--port", type=port_number, default=0, metavar="P", help="the page's port")
    ui.add_argument("--no-browser", action="store_true", help="only print the address")
    ui.set_defaults(run=_ui)
    for parser in (topics, groups, tail, produce, ui):
        add_reach_options(parser)
    doctor = subcommands.add_parser(
        "doctor",
        help="say what this machine has for Kafka and Spark tests, and what to do",
        description="Looks at versions, ports, limits, Java, Spark, its Kafka connector and the "
        "cache. Downloads nothing. Exits with 1 if no cluster can run.",
    )
    doctor.set_defaults(run=_doctor)


def port_number(text: str) -> int:
    """The type of an option."""
    return _number(text, most=65_535, what="a port, from 0 to 65535")


def whole_number(text: str) -> int:
    """The type of an option."""
    return _number(text, most=MAX_INT64, what="a whole number from 0 on")


def _number(text: str, *, most: int, what: str) -> int:
    is_number = text.isdecimal() and len(text) <= len(str(most))
    if not is_number or int(text) > most:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return int(text)


def path(text: str) -> Path:
    """The type of an option. An empty one would be the current directory."""
    try:
        return require_path("it", text)
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_reach_options(parser: argparse.ArgumentParser) -> None:
    """Where the cluster is, and how a client may reach it."""
    parser.add_argument(
        "--bootstrap",
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


def reach_of(parsed: argparse.Namespace) -> "Reach":
    """The cluster that the arguments name; raises `ConfigError` if none."""
    from embedkafka.terminal.client import Reach

    return Reach(parsed.bootstrap, parsed.client_config)


def _topics(parsed: argparse.Namespace) -> int:
    from embedkafka.terminal.client import topic_lines

    return _print(lambda: topic_lines(reach_of(parsed), parsed.topic))


def _groups(parsed: argparse.Namespace) -> int:
    from embedkafka.terminal.client import group_lines

    return _print(lambda: group_lines(reach_of(parsed), parsed.group))


def _tail(parsed: argparse.Namespace) -> int:
    from embedkafka.terminal.client import tail
    from embedkafka.terminal.decode_option import load_decoder

    return _print(
        lambda: tail(
            reach_of(parsed),
            parsed.topic,
            from_start=parsed.from_start,
            count=parsed.count,
            as_json=parsed.json,
            decode=None if parsed.decode is None else load_decoder(parsed.decode),
        )
    )


def _produce(parsed: argparse.Namespace) -> int:
    from embedkafka.terminal.client import produce

    return _print(
        lambda: produce(
            reach_of(parsed), parsed.topic, parsed.values, separator=parsed.key_separator
        ),
        to_the_end=True,
    )


def _ui(parsed: argparse.Namespace) -> int:
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


def _doctor(parsed: argparse.Namespace) -> int:
    from embedkafka.terminal.doctor import examine

    is_fatal = False
    for finding in examine():
        print(finding, flush=True)
        is_fatal = is_fatal or finding.is_fatal
    return 1 if is_fatal else 0


def _print(lines: Callable[[], Iterable[str]], *, to_the_end: bool = False) -> int:
    """Prints the lines, until there are no more or no one reads them.

    With `to_the_end` all of them are made in any case: each stands for something that is done.
    """
    for line in lines():
        try:
            print(line, flush=True)
        except BrokenPipeError:
            # The reader has closed the pipe, and Python must not try to flush again when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not to_the_end:
                break
    return 0
