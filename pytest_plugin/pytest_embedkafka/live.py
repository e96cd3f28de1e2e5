"""The clusters, queries and the Spark log that are live now, for the hooks around each test."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_embedkafka.guard import Guard

if TYPE_CHECKING:
    from embedkafka import Cluster
    from embedkafka.cluster.request_log import Mark
    from embedkafka.spark.query_log import QueryLog
    from pytest_embedkafka.run_page import RunPage

FACTORY = "kafka_cluster_factory"
_KAFKA_FIXTURES = frozenset({"kafka", "kafka_topic", "kafka_cluster", FACTORY})


@dataclass(slots=True)
class Live:
    """What the fixtures have started. Owner: pytest's thread."""

    clusters: "list[Cluster]" = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)
    """By the id of a cluster, how reports name it."""
    marks: "dict[int, Mark]" = field(default_factory=dict)
    """By the id of a cluster, where the requests of the running test begin."""
    guard: Guard = field(default_factory=Guard)
    spark_log: str | None = None
    spark_log_size: int = 0
    spark_master: str | None = None
    """Where the executors of the running session are."""
    queries: "QueryLog | None" = None
    complaint: str | None = None
    """What the running test should hear of the queries that it left."""
    checkpoints: list[Path] = field(default_factory=list)
    page: "RunPage | None" = None
    """With `--kafka-report`: what records the clusters."""

    @contextmanager
    def showing(self, cluster: "Cluster", label: str) -> Iterator[None]:
        """Lets the reports of failed tests describe the cluster, under this label."""
        self.clusters.append(cluster)
        self.labels[id(cluster)] = label
        if self.page is not None:
            self.page.attach(cluster, label)
        yield
        if self.page is not None:
            self.page.detach(cluster)
        self.labels.pop(id(cluster), None)
        self.clusters.remove(cluster)

    def mark(self) -> None:
        """What clusters, triggers and Spark log from here on belongs to the next test."""
        self.marks = {}
        if triggers := sys.modules.get(TRIGGERS):
            triggers.forget_replaced()
        if (scripts := sys.modules.get(SCRIPTS)) is not None:
            scripts.forget_scripts()
        if self.clusters:
            from embedkafka import EmbeddedKafka, EmbedKafkaError

            for cluster in self.clusters:
                if isinstance(cluster, EmbeddedKafka):
                    with suppress(EmbedKafkaError):  # a test may have closed it
                        self.marks[id(cluster)] = cluster.mark()
        if self.spark_log is not None:
            self.spark_log_size = os.path.getsize(self.spark_log)


SESSION_LABEL = "kafka"
SHARED_LABEL = "kafka of all workers"
TRIGGERS = "embedkafka.spark.triggers"
"""The module that knows of replaced triggers, once a test has used it."""
SCRIPTS = "embedkafka.spark.scripts.running"
"""The module that knows which scripts have run, once one has."""
LIVE: pytest.StashKey[Live] = pytest.StashKey()
HAS_PASSED: pytest.StashKey[bool] = pytest.StashKey()
"""Of a test whose body has run: whether it passed."""


def uses_session_cluster(item: pytest.Item) -> bool:
    return "kafka" in getattr(item, "fixturenames", ())


def uses_kafka(item: pytest.Item) -> bool:
    return not _KAFKA_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def clusters_of(item: pytest.Item, live: Live) -> "list[Cluster]":
    """The clusters that the test uses: its own, and wider ones if it asks for them."""
    asked = getattr(item, "fixturenames", ())
    others = {name for name in (SESSION_LABEL, FACTORY) if name not in asked}
    return [
        cluster
        for cluster in live.clusters
        if live.labels.get(id(cluster), "").partition("(")[0] not in others
    ]


def uses_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())
