"""`embedkafka groups`: the groups of any cluster."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from embedkafka.cli.options import add_output_option, add_reach_options
from embedkafka.cli.output import print_lines, table
from embedkafka.cli.reach import reach_of
from embedkafka.runtime.failures import EmbedKafkaError

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands
    from embedkafka.cluster.clients.client_view import ClientView


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "groups",
        help="list the consumer groups of a cluster, or the offsets of one",
        description="Prints a table of groups with their lag, or of one group's partitions.",
    )
    parser.add_argument("group", nargs="?", metavar="GROUP", help="show this group's partitions")
    add_output_option(parser)
    add_reach_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    return print_lines(lambda: _lines(reach_of(parsed).view(), parsed.group, parsed.output))


def _lines(view: "ClientView", group: str | None, output: str) -> Iterator[str]:
    """A table of groups, or of one group's partitions and the members that have them."""
    view.metadata()  # says at once if no broker answers
    if group is None:
        found = view.groups()
        rows = [
            (
                each.group_id,
                each.state,
                len(each.members),
                each.total_lag if each.committed else None,
            )
            for each in found
        ]
        return table(("group", "state", "members", "lag"), rows, output=output)
    one = view.group(group)
    if one.state == "Dead":
        raise EmbedKafkaError(f"there is no group {group!r}")
    owners = {each: member.client_id for member in one.members for each in member.partitions}
    partitions = [
        (str(each), one.committed.get(each), one.lag.get(each), owners.get(each))
        for each in sorted({*one.committed, *owners})
    ]
    return table(("partition", "committed", "lag", "client"), partitions, output=output)
