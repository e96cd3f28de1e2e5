"""The clusters, queries and the Spark log that are live now, for the hooks around each test."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_embedkafka.sweeping import Sweeper

if TYPE_CHECKING:
    from embedkafka import EmbeddedKafka
    from embedkafka.spark.query_log import QueryLog

_KAFKA_FIXTURES = frozenset({"kafka", "kafka_topic", "kafka_cluster"})


@dataclass(slots=True)
class Live:
    """What the fixtures have started. Owner: pytest's thread."""

    clusters: "list[EmbeddedKafka]" = field(default_factory=list)
    sweeper: Sweeper | None = None
    spark_log: str | None = None
    spark_log_size: int = 0
    spark_master: str | None = None
    """Where the executors of the running session are."""
    queries: "QueryLog | None" = None
    complaint: str | None = None
    """Of the last test that used Spark, whose queries end with the session."""
    checkpoints: list[Path] = field(default_factory=list)

    def mark_spark_log(self) -> None:
        """Notes the size of Spark's log in bytes: what follows belongs to the next test."""
        if self.spark_log is not None:
            self.spark_log_size = os.path.getsize(self.spark_log)


LIVE: pytest.StashKey[Live] = pytest.StashKey()
HAS_PASSED: pytest.StashKey[bool] = pytest.StashKey()
"""Of a test whose body has run: whether it passed."""


def uses_kafka(item: pytest.Item) -> bool:
    return not _KAFKA_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def uses_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())
