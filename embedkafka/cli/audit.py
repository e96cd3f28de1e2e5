"""`embedkafka audit`: compares two topics on Spark."""

import argparse
from typing import TYPE_CHECKING

from embedkafka.cli.options import add_reach_options, path, setting, whole_number
from embedkafka.cli.output import complain
from embedkafka.runtime.failures import EmbedKafkaError

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "audit",
        help="prove or refute, on Spark, that one topic holds what another one does",
        description="Compares every record of two topics and prints what was lost, duplicated, "
        "altered or reordered. Exits with 0 if nothing was, with 1 if something was, and with 2 "
        "if it could not compare.",
    )
    add_reach_options(parser)
    _add_comparison_options(parser)
    _add_spark_options(parser)
    parser.set_defaults(run=run)


def _add_comparison_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", required=True, metavar="TOPIC", help="what was written")
    parser.add_argument("--sink", required=True, metavar="TOPIC", help="what arrived")
    parser.add_argument(
        "--key",
        action="append",
        metavar="FIELD",
        help="what identifies a record: a field or path (`$.a.b`) of its JSON value, or a column "
        "of Spark's Kafka source; may be repeated (default: Kafka's key)",
    )
    parser.add_argument(
        "--value",
        action="append",
        metavar="FIELD",
        help="what must be equal, likewise; `$` is the JSON value whatever its white space "
        "(default: Kafka's value)",
    )
    parser.add_argument(
        "--unordered", action="store_true", help="do not judge the order of each key's records"
    )
    parser.add_argument(
        "--isolation",
        default="read_committed",
        metavar="LEVEL",
        help="read_committed or read_uncommitted (default: read_committed)",
    )
    parser.add_argument(
        "--examples",
        type=whole_number,
        default=5,
        metavar="N",
        help="how many examples of each kind of fault to show (default: 5)",
    )
    parser.add_argument("--html", type=path, metavar="FILE", help="write the result as a page too")


def _add_spark_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--option",
        type=setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of Spark's Kafka source, such as minPartitions; may be repeated",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--spark-master",
        default="local[*]",
        metavar="URL",
        help="where to run Spark: local[N], spark://..., yarn, k8s://... (default: local[*])",
    )
    where.add_argument(
        "--spark-remote",
        metavar="URL",
        help="run on this Spark Connect server, sc://host:port, which must have the connector",
    )
    parser.add_argument(
        "--spark-config",
        type=setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark; may be repeated",
    )


def run(parsed: argparse.Namespace) -> int:
    from embedkafka.cli.reach import require_bootstrap
    from embedkafka.spark.delivery.command import audit_topics, client_options

    try:
        settings = client_options(parsed.client_config)
        delivery = audit_topics(
            bootstrap_servers=require_bootstrap(
                parsed.bootstrap, settings.get("kafka.bootstrap.servers")
            ),
            source=parsed.source,
            sink=parsed.sink,
            key=parsed.key or ["key"],
            value=parsed.value or ["value"],
            ordered=False if parsed.unordered else None,
            isolation=parsed.isolation,
            examples=parsed.examples,
            options={**settings, **dict(parsed.option)},
            spark_master=parsed.spark_master,
            spark_remote=parsed.spark_remote,
            spark_config=dict(parsed.spark_config),
        )
        if parsed.html is not None:
            delivery.to_html(parsed.html)
    except (EmbedKafkaError, OSError) as error:
        return complain(str(error), code=2)  # 1 is for a delivery that was refuted
    print(delivery.table())
    return 0 if delivery.ok else 1
