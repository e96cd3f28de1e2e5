"""`python -m cdc --bootstrap host:port --checkpoint folder`: the job on any cluster.

Under `spark-submit` the session comes from there, with the connector and spark-avro from its
`--packages`.
"""

import argparse

from pyspark.sql import SparkSession

from cdc.job import start


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m cdc", description=__doc__)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,...")
    parser.add_argument("--checkpoint", required=True, metavar="FOLDER")
    arguments = parser.parse_args()
    brokers = {"kafka.bootstrap.servers": arguments.bootstrap}
    query = start(
        SparkSession.builder.appName("cdc").getOrCreate(),
        source={**brokers, "subscribe": "customer-changes", "startingOffsets": "earliest"},
        sink={**brokers, "topic": "customers", "checkpointLocation": arguments.checkpoint},
        trigger={"processingTime": "10 seconds"},
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
