"""Spark's own connector against a cluster: embedded, or any other with `--kafka-bootstrap`."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from embedkafka import EmbeddedKafka


def pytest_collection_modifyitems(config: Any, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(config.rootpath / "tests" / "spark"):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(300))  # the first one waits for a JVM
            # PySpark leaves sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture
def admin(kafka: EmbeddedKafka) -> Any:
    """A stock admin client, for what topic handles do not offer."""
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Where one query keeps its progress."""
    return tmp_path / "checkpoint"


@pytest.fixture
def start_query(spark: SparkSession, tmp_path: Path) -> Iterator[Any]:
    """Starts a query into a table in memory; `query.rows()` are the rows so far."""
    queries = []

    def start(frame: Any, *, trigger: Any = None, output_mode: str = "append") -> Any:
        name = f"table_{uuid.uuid4().hex}"
        writer = frame.writeStream.format("memory").queryName(name).outputMode(output_mode)
        query = (writer.trigger(**trigger) if trigger else writer).start()
        query.rows = lambda: spark.table(name).collect()
        queries.append(query)
        return query

    yield start
    for query in queries:
        query.stop()
