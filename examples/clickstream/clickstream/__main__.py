"""`python -m clickstream --bootstrap host:port --checkpoint folder`: the job on any cluster.

Under `spark-submit` the session comes from there, with the connector from its `--packages`.
"""

import argparse

from pyspark.sql import SparkSession

from clickstream.job import start


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m clickstream", description=__doc__)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,...")
    parser.add_argument("--checkpoint", required=True, metavar="FOLDER")
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("clickstream").getOrCreate()
    brokers = {"kafka.bootstrap.servers": arguments.bootstrap}
    query = start(
        spark,
        source={**brokers, "subscribe": "clicks", "startingOffsets": "earliest"},
        sink={**brokers, "topic": "sessions", "checkpointLocation": arguments.checkpoint},
        trigger={"processingTime": "1 minute"},
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
