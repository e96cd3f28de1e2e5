"""`python -m enrichment --bootstrap host:port --database file --checkpoint folder`.

Under `spark-submit` the session comes from there, with the connector from its `--packages`.
"""

import argparse

from pyspark.sql import SparkSession

from enrichment.job import create_tables, start


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m enrichment", description=__doc__)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,...")
    parser.add_argument("--database", required=True, metavar="FILE")
    parser.add_argument("--checkpoint", required=True, metavar="FOLDER")
    arguments = parser.parse_args()
    create_tables(arguments.database)
    source = {
        "kafka.bootstrap.servers": arguments.bootstrap,
        "subscribe": "orders",
        "startingOffsets": "earliest",
    }
    query = start(
        SparkSession.builder.appName("enrichment").getOrCreate(),
        source=source,
        database=arguments.database,
        checkpoint=arguments.checkpoint,
        trigger={"processingTime": "10 seconds"},
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
