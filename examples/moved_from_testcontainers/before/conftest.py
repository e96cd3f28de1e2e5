"""The fixtures as they were: one broker in a container, and what such a broker makes necessary."""

import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from intake.service import Topics
from testcontainers.kafka import KafkaContainer


@pytest.fixture(scope="session")
def bootstrap_servers() -> Iterator[str]:
    container = KafkaContainer().with_kraft()
    # There is one broker, and transactions want three.
    container.with_env("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1")
    container.with_env("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1")
    with container:
        yield container.get_bootstrap_server()


@pytest.fixture
def topics(bootstrap_servers: str) -> Topics:
    """The service's topics. All tests share the broker, so the names are unique."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    suffix = uuid.uuid4().hex[:8]
    names = [f"{stem}-{suffix}" for stem in ("orders", "accepted", "rejected")]
    for done in admin.create_topics([NewTopic(name, num_partitions=2) for name in names]).values():
        done.result(30)
    deadline = time.monotonic() + 30
    while not set(names) <= set(admin.list_topics(timeout=5).topics):
        assert time.monotonic() < deadline, "the topics are not there"
        time.sleep(0.1)
    orders, accepted, rejected = names
    return Topics(orders=orders, accepted=accepted, rejected=rejected)


@pytest.fixture
def send(bootstrap_servers: str) -> Callable[..., None]:
    """Writes records and waits for their acknowledgement."""

    def send(topic: str, *values: str, key: str | None = None) -> None:
        errors = []
        producer = Producer({"bootstrap.servers": bootstrap_servers})
        for value in values:
            producer.produce(topic, value, key, on_delivery=lambda error, _: errors.append(error))
        producer.flush(30)
        assert errors == [None] * len(values)

    return send


@pytest.fixture
def consume(bootstrap_servers: str) -> Iterator[Callable[..., list[Message]]]:
    """Reads so many records, or what has come when the time is up."""
    consumers = []

    def consume(topic: str, count: int, timeout_s: float = 30.0) -> list[Message]:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"test-{uuid.uuid4().hex}",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumers.append(consumer)
        consumer.subscribe([topic])
        received: list[Message] = []
        deadline = time.monotonic() + timeout_s
        while len(received) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                received.append(message)
        return received

    yield consume
    for consumer in consumers:
        consumer.close()
