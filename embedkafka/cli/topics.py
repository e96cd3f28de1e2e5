"""`embedkafka topics`: the topics of any cluster."""

import argparse
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Final

from embedkafka.cli.options import add_output_option, add_reach_options, setting, whole_number
from embedkafka.cli.output import print_lines, table
from embedkafka.cli.reach import Reach, reach_of
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.ids import TopicPartition

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands
    from embedkafka.cluster.clients.client_view import ClientView

_CREATE, _DELETE, _DESCRIBE = _ACTIONS = ("create", "delete", "describe")
_SHAPE: Final = ("partitions", "replication", "config")


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "topics",
        help="list the topics of a cluster, show one, create or delete it",
        description="Prints a table of topics. `topics TOPIC` or `topics describe TOPIC` prints "
        "the partitions of one with their ends; `topics create TOPIC` and `topics delete TOPIC` "
        "change the cluster.",
    )
    parser.add_argument("values", nargs="*", metavar="TOPIC", help="what to do, and the topic")
    parser.add_argument(
        "--partitions", type=whole_number, metavar="N", help="of a new topic (default: 1)"
    )
    parser.add_argument(
        "--replication",
        type=whole_number,
        metavar="N",
        help="of a new topic (default: as the brokers say)",
    )
    parser.add_argument(
        "--config",
        type=setting,
        action="append",
        metavar="KEY=VALUE",
        help="a setting of a new topic; may be repeated",
    )
    add_output_option(parser)
    add_reach_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    return print_lines(lambda: _lines(parsed))


def _lines(parsed: argparse.Namespace) -> Iterator[str]:
    *actions, topic = parsed.values or [None]
    action = actions[0] if actions else _DESCRIBE
    if len(actions) > 1 or action not in _ACTIONS:
        raise ConfigError(f"topics takes one topic, after {', '.join(_ACTIONS)} or nothing")
    given = {name: getattr(parsed, name) for name in _SHAPE if getattr(parsed, name) is not None}
    if given and action != _CREATE:
        raise ConfigError(f"--{next(iter(given))} is for `topics create`")
    reach = reach_of(parsed)
    if action == _DESCRIBE:
        return _table(reach.view(), topic, parsed.output)
    if action == _CREATE:
        given["config"] = dict(given.get("config", ()))
    return iter([_change(reach, action, topic, given)])


def _change(reach: Reach, action: str, topic: str, given: dict[str, object]) -> str:
    from embedkafka.cluster.client_reach import ClientReach
    from embedkafka.cluster.cluster import Cluster

    with closing(ClientReach(reach.bootstrap_servers, reach.settings)) as client_reach:
        cluster = Cluster(client_reach)
        if action == _DELETE:
            cluster.existing_topic(topic).delete()
            return f"{topic} is deleted"
        cluster.topic(topic, **given)  # type: ignore[arg-type] # each is of its option's type
        return f"{topic} is created"


def _table(view: "ClientView", topic: str | None, output: str) -> Iterator[str]:
    """A table of topics, or of one topic's partitions."""
    statuses = view.statuses(topic)
    if topic is not None:
        ends = view.ends(TopicPartition(each.topic, each.partition) for each in statuses)
        partitions = [
            (
                each.partition,
                each.leader,
                tuple(each.replicas),
                tuple(each.isr),
                ends.get(TopicPartition(each.topic, each.partition)),
            )
            for each in statuses
        ]
        columns = ("partition", "leader", "replicas", "isr", "end")
        return table(columns, partitions, output=output)
    counted: dict[str, list[int]] = {}
    for each in statuses:
        counted.setdefault(each.topic, []).append(len(each.replicas))
    topics = [(name, len(counts), counts[0]) for name, counts in counted.items()]
    return table(("topic", "partitions", "replicas"), topics, output=output)
