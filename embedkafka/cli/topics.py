"""`embedkafka topics`: the topics of any cluster."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from embedkafka.cli.options import add_reach_options
from embedkafka.cli.output import print_lines, table
from embedkafka.cli.reach import reach_of
from embedkafka.runtime.ids import TopicPartition

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands
    from embedkafka.cluster.clients.client_view import ClientView


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "topics",
        help="list the topics of a cluster, or the partitions of one",
        description="Prints a table of topics, or of the partitions of one topic with their ends.",
    )
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="show this topic's partitions")
    add_reach_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    return print_lines(lambda: _lines(reach_of(parsed).view(), parsed.topic))


def _lines(view: "ClientView", topic: str | None) -> Iterator[str]:
    """A table of topics, or of one topic's partitions."""
    statuses = view.statuses(topic)
    if topic is not None:
        ends = view.ends(TopicPartition(each.topic, each.partition) for each in statuses)
        rows = [
            (
                str(each.partition),
                "none" if each.leader is None else str(each.leader),
                ",".join(map(str, each.replicas)),
                ",".join(map(str, each.isr)),
                str(ends.get(TopicPartition(each.topic, each.partition), "-")),
            )
            for each in statuses
        ]
        return table([("partition", "leader", "replicas", "isr", "end"), *rows])
    counted: dict[str, list[int]] = {}
    for each in statuses:
        counted.setdefault(each.topic, []).append(len(each.replicas))
    rows2 = [(name, str(len(counts)), str(counts[0])) for name, counts in counted.items()]
    return table([("topic", "partitions", "replicas"), *rows2])
