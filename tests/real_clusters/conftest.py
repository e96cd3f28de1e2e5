"""Spark clusters, as the options that pytest and `embedkafka audit` take."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.java_tools.spark_connect import spark_connect
from tests.java_tools.spark_standalone import SparkStandalone

ENRICHMENT: Final = Path(__file__).parents[2] / "examples/enrichment"
QUICK_EXECUTORS: Final = [
    "--spark-config",
    "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "--spark-config",
    "spark.executor.memory=512m",
]


@pytest.fixture(scope="module")
def standalone() -> Iterator[list[str]]:
    with SparkStandalone(workers=2) as cluster:
        yield ["--spark-master", cluster.url, *QUICK_EXECUTORS]


@pytest.fixture(scope="module")
def connect() -> Iterator[list[str]]:
    """With what a session cannot bring along: spark-avro, and the module of a batch function."""
    pytest.importorskip("grpc", reason="pip install 'pyspark[connect]'")
    with spark_connect(packages=["spark-avro"], python_path=[ENRICHMENT]) as address:
        yield ["--spark-remote", address]
