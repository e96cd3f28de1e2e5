"""Helpers of the wire tests: a cluster's address, and confluent-kafka in a few plain calls."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from embedkafka.runtime.addresses import parse_address
from tests.wire.raw_client import RawClient

T = TypeVar("T")

WAIT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Any Kafka cluster, known only by its address."""

    kind: str
    bootstrap_servers: str

    @property
    def is_apache(self) -> bool:
        return self.kind == "apache"

    @property
    def broker_count(self) -> int:
        return self.bootstrap_servers.count(",") + 1

    def connect(self, index: int = 0) -> RawClient:
        """Opens a raw connection to the broker with this index, counted from 0."""
        host, port = parse_address(self.bootstrap_servers.split(",")[index])
        return RawClient(host, port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Out:
    """A record to produce with librdkafka."""

    value: bytes | None = None
    key: bytes | None = None
    partition: int = 0
    timestamp: int = 0
    headers: Sequence[tuple[str, bytes | None]] = field(default=())


def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = 1,
    replication: int = 1,
    config: Mapping[str, str] | None = None,
) -> str:
    """Creates a topic; returns its name once its leaders serve and all brokers know it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    wanted = NewTopic(name, partitions, replication, config=dict(config or {}))
    admin.create_topics([wanted], operation_timeout=30)[name].result(WAIT_SECONDS)
    await_topic(cluster, name, partitions)
    return name


def await_topic(cluster: Cluster, name: str, partitions: int) -> None:
    """Waits until every broker knows a topic's leaders, and every leader serves its partitions.

    Apache Kafka announces a leader shortly before that broker takes up the role.
    """
    for index in range(cluster.broker_count):
        with cluster.connect(index) as client:
            eventually(partial(client.knows_leaders, name, partitions), f"leaders of {name}")
            eventually(partial(client.leads, name), f"broker {index} leads its part of {name}")


def await_coordinators(cluster: Cluster) -> None:
    """Waits until groups and transactions work.

    A FindCoordinator request creates the internal topic. Twenty ids reach every partition of a
    small `__consumer_offsets`.
    """
    with cluster.connect() as client:
        eventually(partial(client.knows_coordinator, "warm-up", kind=1), "coordinator of a txn")
        for number in range(20):
            group = f"warm-up-{number}"
            eventually(partial(client.knows_coordinator, group), f"coordinator of {group}")
            with cluster.connect(client.coordinator_of(group) - 1) as coordinator:
                eventually(partial(coordinator.coordinates, group), f"{group} is loaded")


def produce(
    cluster: Cluster, topic: str, records: Iterable[Out], **settings: Any
) -> list[Message | KafkaError]:
    """Sends all records; returns the delivered message or the error of each."""
    outcomes: list[Message | KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        outcomes.append(message if error is None else error)

    config = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, **config})
    for record in records:
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            partition=record.partition,
            timestamp=record.timestamp,
            headers=list(record.headers),
            on_delivery=delivered,
        )
    assert producer.flush(WAIT_SECONDS) == 0, (
        f"{topic}: some records were neither acked nor refused"
    )
    return outcomes


def produce_values(cluster: Cluster, topic: str, *values: bytes, partition: int = 0) -> None:
    """Sends values to one partition in order. Each must be acked."""
    outcomes = produce(cluster, topic, [Out(value=value, partition=partition) for value in values])
    assert not [outcome for outcome in outcomes if isinstance(outcome, KafkaError)]


def open_consumer(cluster: Cluster, **settings: Any) -> Consumer:
    config = {name.replace("_", "."): value for name, value in settings.items()}
    defaults = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "unused",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    return Consumer({**defaults, **config})


def consume(
    cluster: Cluster,
    topic: str,
    count: int,
    *,
    partition: int = 0,
    offset: int = 0,
    **settings: Any,
) -> list[Message]:
    """Reads `count` records of one partition from an offset, without a group."""
    consumer = open_consumer(cluster, **settings)
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        return poll(consumer, count)
    finally:
        consumer.close()


def poll(consumer: Consumer, count: int) -> list[Message]:
    """Polls until it has `count` records. Raises the consumer's errors."""
    messages: list[Message] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(messages) < count:
        assert time.monotonic() < deadline, f"got {len(messages)} of {count} records"
        for message in consumer.consume(count - len(messages), timeout=0.2):
            if message.error() is not None:
                raise KafkaException(message.error())
            messages.append(message)
    return messages


def values(messages: Iterable[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def eventually(fact: Callable[[], T | None], what: str, *, timeout_s: float = WAIT_SECONDS) -> T:
    """Repeats a call until its result is truthy: in a distributed system, facts take a moment."""
    deadline = time.monotonic() + timeout_s
    while not (answer := fact()):
        assert time.monotonic() < deadline, f"never true: {what}; last answer: {answer!r}"
        time.sleep(_POLL_SECONDS)
    return answer
