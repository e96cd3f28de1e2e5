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
from tests.doubles.warm_home import private_home


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(config.rootpath / "tests" / "spark"):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(300))  # the first test waits for a JVM
            # PySpark leaves sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            # PySpark 3.5 compares versions in the old way.
            item.add_marker(pytest.mark.filterwarnings("ignore:distutils:DeprecationWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:is_datetime64tz:DeprecationWarning"))


@pytest.fixture
def admin(kafka: EmbeddedKafka) -> AdminClient:
    """A stock admin client, for operations that topic handles lack."""
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The checkpoint directory of one query."""
    return tmp_path / "checkpoint"


@pytest.fixture
def warm_home() -> Iterator[Path]:
    """A directory for warm JVMs, which end after the test."""
    with private_home() as home:
        yield home


class TableQuery(StreamingQuery):
    """The type of `start_query`'s queries: a Spark query with one more method."""

    rows: Callable[[], list[Row]]


@pytest.fixture
def start_query(spark: SparkSession) -> Iterator[Callable[..., TableQuery]]:
    """Starts a query into an in-memory table; `query.rows()` returns the rows so far."""
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
