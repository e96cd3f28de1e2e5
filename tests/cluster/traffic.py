"""Stock clients that keep a cluster busy and know what was acknowledged."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self

import confluent_kafka

from embedkafka import OwnedBroker, Topic
from embedkafka.runtime.clock import SystemClock
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.errors import ErrorCode
from tests.presence import present
from tests.wire.one_partition import batch, produce_request

QUICK = {
    # Notice a dead or stalled leader within a fraction of a second.
    "topic.metadata.refresh.interval.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "socket.timeout.ms": 1_000,
    "retry.backoff.ms": 20,
    "log_level": 0,
    "log.connection.close": False,
}


ONE_IN_FLIGHT = {"max.in.flight.requests.per.connection": 1}

#: For consumers that must stay in their group: a busy machine must not cause a rebalance.
PATIENT = {"session.timeout.ms": 30_000}


class Addressed(Protocol):
    """A cluster that clients can reach, in one process or in several."""

    @property
    def bootstrap_servers(self) -> str: ...


class Readable(Protocol):
    """A cluster whose topics have handles."""

    def existing_topic(self, name: str, /) -> Topic: ...


def make_producer(kafka: Addressed, **settings: Any) -> confluent_kafka.Producer:
    return confluent_kafka.Producer(
        {
            **QUICK,
            "bootstrap.servers": kafka.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "request.timeout.ms": 1_000,
            "allow.auto.create.topics": False,
            **settings,
        }
    )


def make_consumer(
    kafka: Addressed, group: str = "readers", /, **settings: Any
) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            **QUICK,
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "session.timeout.ms": 1_000,
            "heartbeat.interval.ms": 200,
            "allow.auto.create.topics": False,
            **settings,
        }
    )


def next_text(consumer: confluent_kafka.Consumer) -> str:
    """The next record, past any errors while the topic or its leader is missing."""
    while True:
        message = consumer.poll(20)
        assert message is not None, "no record in 20 s"
        error = message.error()
        if error is None:
            return str(present(message.value()).decode())
        assert error.code() != confluent_kafka.KafkaError._FATAL, error


def is_left_unread(error: confluent_kafka.KafkaError | None) -> bool:
    """Whether a partition will stay unread because librdkafka got no committed offset.

    It asks again only if its assignment has not changed since. Otherwise it reports this error, and
    the partition waits for the next assignment. A busy machine is enough: an answer that takes
    longer than `socket.timeout.ms`, during a rebalance.
    """
    return error is not None and "Failed to fetch committed offset" in error.str()


def send(producer: Any, topic: str, value: Any, partition: int = 0, timeout_s: float = 20.0) -> Any:
    """Writes one record; returns its acknowledgement or its final error."""
    outcome = []
    producer.produce(
        topic, value, partition=partition, on_delivery=lambda *result: outcome.append(result)
    )
    producer.flush(timeout_s)
    assert outcome, f"no delivery report for {value!r} in {timeout_s} s"
    return outcome[0]


def produce_to(
    handle: OwnedBroker, topic: str, value: bytes, partition: int = 0, timeout_ms: int = 500
) -> ErrorCode:
    """Writes one record with acks=all to exactly this broker; returns the answer's error code."""
    records = batch(value, timestamp=0)
    request = produce_request(topic, records, partition=partition, timeout_ms=timeout_ms)
    host, _, port = handle.address.rpartition(":")
    client = BrokerClient(host, int(port), SystemClock(), "exactly-this-broker")
    try:
        answer = client.call(request, 9)
    finally:
        client.close()
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


class Sender:
    """Writes numbered records to the partitions of a topic from a separate thread.

    `acked` has the acknowledged records in order, by partition: triples of offset, name and number.
    A `strict` sender has one request in flight per broker. A client that fails for good, as
    librdkafka does when a broker that was cut off surprises it, is replaced by a strict one with
    another name.

    A sender that is not strict first writes to every partition once. A log takes any sequence
    number from a producer it does not know (KIP-360): if the first of several requests in flight is
    refused and the second is not, librdkafka counts both as written.
    """

    def __init__(
        self,
        kafka: Addressed,
        topic: str,
        partitions: int = 1,
        pause_s: float = 0.001,
        name: str = "s",
        strict: bool = True,
        **settings: Any,
    ) -> None:
        self.strict = strict
        self.topic = topic
        self.name = name
        self.acked: defaultdict[int, list[tuple[int, str, int]]] = defaultdict(list)
        self.errors: list[confluent_kafka.KafkaError] = []
        self.deaths: list[confluent_kafka.KafkaError] = []
        self.sent = 0
        self._partitions = partitions
        self._make = lambda **more: make_producer(
            kafka, error_cb=self._on_error, **settings, **more
        )
        self._producer = self._make(**ONE_IN_FLIGHT) if strict else self._make()
        self._pause_s = pause_s
        self._ended = threading.Event()
        self._moved = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"sender-{name}", daemon=True)

    def start(self) -> Self:
        if not self.strict:
            for _ in range(self._partitions):
                self._send()
            self._producer.flush(20)
        self._thread.start()
        return self

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stops sending and waits for the outcome of every record."""
        self._ended.set()
        self._thread.join()
        left = self._producer.flush(timeout_s)
        assert left == 0, f"{left} records of {self.name} were neither acknowledged nor refused"

    def await_acks(self, count: int = 1, timeout_s: float = 20.0) -> None:
        """Waits for `count` further acknowledgements."""
        wanted = self.count + count
        with self._moved:
            reached = self._moved.wait_for(lambda: self.count >= wanted, timeout_s)
        assert reached, f"{self.count - wanted + count} of {count} acknowledgements arrived in time"

    @property
    def count(self) -> int:
        return sum(map(len, self.acked.values()))

    @property
    def life(self) -> str:
        """The name of the current client."""
        return f"{self.name}/{len(self.deaths)}"

    def _run(self) -> None:
        while not self._ended.wait(self._pause_s):
            try:
                self._send()
            except BufferError:
                pass
            except confluent_kafka.KafkaException:
                self._producer = self._make(**ONE_IN_FLIGHT)
            self._producer.poll(0)

    def _send(self) -> None:
        number = self.sent
        self._producer.produce(
            self.topic,
            f"{self.life}:{number}",
            partition=number % self._partitions,
            on_delivery=self._on_delivery,
        )
        self.sent += 1

    def _on_error(self, error: confluent_kafka.KafkaError) -> None:
        if error.fatal():
            self.deaths.append(error)

    def _on_delivery(
        self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
    ) -> None:
        with self._moved:
            if error is None:
                life, _, number = present(message.value()).decode().rpartition(":")
                self.acked[present(message.partition())].append(
                    (present(message.offset()), life, int(number))
                )
            elif not self.deaths:
                self.errors.append(error)
            self._moved.notify_all()


@contextmanager
def sending(kafka: Addressed, topic: str, **settings: Any) -> Iterator[Sender]:
    sender = Sender(kafka, topic, **settings).start()
    try:
        yield sender
    finally:
        sender.stop()


def assert_nothing_lost(kafka: Readable, sender: Sender) -> None:
    """Every acknowledged record is there once, at the acknowledged offset, and in order."""
    messages = kafka.existing_topic(sender.topic).read(timeout_s=30)
    found: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for message in messages:
        found[message.partition][message.offset] = present(message.text)
    for partition, acked in sender.acked.items():
        for offset, life, number in acked:
            assert found[partition].get(offset) == f"{life}:{number}", (
                f"{sender.topic}-{partition} offset {offset} should hold record {number}, but has "
                f"{found[partition].get(offset)}"
            )
    for partition, by_offset in found.items():
        values = [text for _, text in sorted(by_offset.items())]
        assert len(values) == len(set(values)), f"{sender.topic}-{partition} has duplicate records"
        numbers = [int(text.rpartition(":")[2]) for text in values]
        assert numbers == sorted(numbers), f"{sender.topic}-{partition} is out of order"


def committed(kafka: Addressed, group: str, topic: str) -> int:
    """The offset that a group has committed in the first partition."""
    consumer = make_consumer(kafka, group)
    (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=20)
    consumer.close()
    return found.offset
