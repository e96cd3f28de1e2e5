"""`embedkafka spark-jars`: finds or downloads the Kafka connector."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "spark-jars",
        help="find or download the Kafka connector for the installed PySpark",
        description="Prints the paths of the jars, one per line.",
    )
    parser.add_argument(
        "--package",
        action="append",
        default=[],
        metavar="NAME",
        help="also find this module: spark-avro, spark-protobuf, delta or iceberg; may be repeated",
    )
    parser.add_argument(
        "--archive",
        action="store_true",
        help="also run a small Spark job and archive its classes in the cache (about 170 MB), so "
        "that sessions start quicker",
    )
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    from embedkafka.spark.connector.jars import require_connector
    from embedkafka.spark.connector.packages import require_packages

    connector = require_connector().jars
    for jar in (*connector, *require_packages(parsed.package, given=connector)):
        print(jar, flush=True)
    if parsed.archive:
        from embedkafka.cluster.spark_training import make_class_archive

        make_class_archive(parsed.package)
    return 0
