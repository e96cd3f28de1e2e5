"""`python -m orders --bootstrap host:port --checkpoints folder`: the job on any cluster.

Under `spark-submit` the session comes from there, with the connector from its `--packages`.
"""

import argparse
from pathlib import Path

from pyspark.sql import SparkSession

from orders.job import run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m orders", description=__doc__)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,...")
    parser.add_argument("--checkpoints", required=True, type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("orders").getOrCreate()
    try:
        run(spark, arguments.bootstrap, arguments.checkpoints)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
