"""The cluster of the twenty tests: ours, Apache Kafka in place of a container, or one that runs."""

import os
from collections.abc import Iterator

import pytest

from embedkafka import EmbeddedKafka
from tests.doubles.containers.testcontainers.kafka import KafkaContainer

CLUSTER = os.environ["CLUSTER"]
"""`embedkafka`, `container`, or the address of a running cluster."""

if CLUSTER == "embedkafka":

    @pytest.fixture(scope="session")
    def bootstrap_servers(kafka: EmbeddedKafka) -> str:
        return kafka.bootstrap_servers

else:

    @pytest.fixture(scope="session")
    def bootstrap_servers() -> Iterator[str]:
        if CLUSTER != "container":
            yield CLUSTER
            return
        with KafkaContainer() as container:
            yield container.get_bootstrap_server()
