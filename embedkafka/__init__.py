"""A real multi-broker Kafka cluster inside the test process.

    from embedkafka import EmbeddedKafka

    with EmbeddedKafka(brokers=3) as kafka:
        kafka.topic("orders").send("hello")
"""

from embedkafka.cluster.config import ClusterConfig, TopicSpec
from embedkafka.cluster.embedded import EmbeddedKafka
from embedkafka.cluster.messages import Message
from embedkafka.cluster.topic import Topic
from embedkafka.runtime.failures import (
    AwaitTimeout,
    BackgroundFailure,
    ClusterClosed,
    ConfigError,
    EmbedKafkaError,
)

__all__ = [
    "AwaitTimeout",
    "BackgroundFailure",
    "ClusterClosed",
    "ClusterConfig",
    "ConfigError",
    "EmbedKafkaError",
    "EmbeddedKafka",
    "Message",
    "Topic",
    "TopicSpec",
]
