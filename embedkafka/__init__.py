"""A real multi-broker Kafka cluster inside the test process.

    from embedkafka import EmbeddedKafka

    with EmbeddedKafka(brokers=3) as kafka:
        kafka.topic("orders").send("hello")

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedkafka.cluster.config import ClusterConfig, TopicSpec
    from embedkafka.cluster.embedded import EmbeddedKafka
    from embedkafka.cluster.message import Message
    from embedkafka.cluster.topic import Topic
    from embedkafka.runtime.failures import (
        AwaitTimeout,
        BackgroundFailure,
        ClusterClosed,
        ConfigError,
        ConfigWarning,
        DirectoryInUse,
        EmbedKafkaError,
    )

_HOMES = {
    "AwaitTimeout": "runtime.failures",
    "BackgroundFailure": "runtime.failures",
    "ClusterClosed": "runtime.failures",
    "ClusterConfig": "cluster.config",
    "ConfigError": "runtime.failures",
    "ConfigWarning": "runtime.failures",
    "DirectoryInUse": "runtime.failures",
    "EmbedKafkaError": "runtime.failures",
    "EmbeddedKafka": "cluster.embedded",
    "Message": "cluster.message",
    "Topic": "cluster.topic",
    "TopicSpec": "cluster.config",
}

__all__ = [
    "AwaitTimeout",
    "BackgroundFailure",
    "ClusterClosed",
    "ClusterConfig",
    "ConfigError",
    "ConfigWarning",
    "DirectoryInUse",
    "EmbedKafkaError",
    "EmbeddedKafka",
    "Message",
    "Topic",
    "TopicSpec",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
