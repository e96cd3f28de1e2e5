"""Spark's own connector against a cluster: embedded, or any other with `--kafka-bootstrap`."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from embedkafka import EmbeddedKafka


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(config.rootpath / "tests" / "spark"):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(300))  # the first one waits for a JVM
            # PySpark leaves sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture
def admin(kafka: EmbeddedKafka) -> AdminClient:
    """A stock admin client, for what topic handles do not offer."""
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Where one query keeps its progress."""
    return tmp_path / "checkpoint"


class TableQuery(StreamingQuery):
    """The type of what `start_query` starts: a query of Spark's with one method more."""

    rows: Callable[[], list[Row]]


@pytest.fixture
def start_query(spark: SparkSession) -> Iterator[Callable[..., TableQuery]]:
    """Starts a query into a table in memory; `query.rows()` are the rows so far."""
    queries: list[TableQuery] = []

    def start(
        frame: DataFrame, *, trigger: dict[str, Any] | None = None, output_mode: str = "append"
    ) -> TableQuery:
        name = f"table_{uuid.uuid4().hex}"
        writer = frame.writeStream.format("memory").queryName(name).outputMode(output_mode)
        query = cast(TableQuery, (writer.trigger(**trigger) if trigger else writer).start())
        query.rows = lambda: spark.table(name).collect()
        queries.append(query)
        return query

    yield start
    for query in queries:
        query.stop()
