"""Stands in for Testcontainers' module, where there is no Docker: `KafkaContainer` and no more.

With STAND_IN=apache it is Apache Kafka in a process, with the flags of its own scripts and the
settings that the container has; otherwise it is a cluster of ours.
"""

import os
from types import TracebackType
from typing import Self

from embedkafka import EmbeddedKafka
from tests.java_tools.oracle import ApacheKafka


class KafkaContainer:
    """One broker for the length of a `with` block."""

    def __init__(self) -> None:
        self._config: dict[str, object] = {
            "offsets.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        self._cluster: ApacheKafka | EmbeddedKafka | None = None

    def with_kraft(self) -> Self:
        return self

    def with_env(self, name: str, value: str) -> Self:
        """Takes a setting as the image does: KAFKA_LOG_RETENTION_MS is log.retention.ms."""
        self._config[name.removeprefix("KAFKA_").lower().replace("_", ".")] = value
        return self

    def get_bootstrap_server(self) -> str:
        assert self._cluster is not None, "the container has not started"
        return self._cluster.bootstrap_servers

    def __enter__(self) -> Self:
        if os.environ.get("STAND_IN") == "apache":
            self._cluster = ApacheKafka(config=self._config, jvm="shipped")
        else:
            self._cluster = EmbeddedKafka(config=self._config)
        self._cluster.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._cluster is not None, "the container has not started"
        self._cluster.__exit__(kind, error, trace)
