"""The stock client behind a topic handle: confluent-kafka, on embedded and other clusters alike.

Owner: the caller's thread; the producer is made on first use, under `_lock` (leaf), and shared. A
forked child makes another: the threads of the inherited one are the parent's.
Not here: creating and deleting topics (`admin`).
"""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from embedkafka.cluster.message import Message
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import AwaitTimeout, EmbedKafkaError
from embedkafka.runtime.forks import after_fork
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock

Bytes = bytes | str | None
Headers = Mapping[str, Bytes] | Sequence[tuple[str, Bytes]]

_POLL_S = 0.1
_QUIET = {"log_level": 2, "log.connection.close": False}
"""A cluster that ends is no news to the test that ended it."""
_QUICK_TO_FIND_LEADERS = {"topic.metadata.refresh.interval.ms": 250}
"""Left alone, librdkafka asks a second or two after a leader has gone."""


class Clients:
    """Produces to and reads from one cluster."""

    def __init__(self, bootstrap_servers: str, *, cluster: object = None) -> None:
        """`cluster` is what must not be collected as long as these are used."""
        self._bootstrap_servers = bootstrap_servers
        self._cluster = cluster
        self._lock = ranked_lock("clients", LEAF_RANK)
        self._producer: Any = None  # Any: confluent-kafka ships no types, and is imported late
        _all.add(self)

    def send(
        self,
        topic: str,
        value: Bytes,
        *,
        key: Bytes = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        timeout_s: float = 30.0,
    ) -> Message:
        """Writes one record and waits until all in-sync replicas have it."""
        return self.send_many(
            [
                {
                    "topic": topic,
                    "value": _encoded(value),
                    "key": _encoded(key),
                    "partition": -1 if partition is None else partition,
                    "headers": _header_list(headers),
                    "timestamp": timestamp_ms or 0,
                }
            ],
            timeout_s=timeout_s,
        )[0]

    def send_many(
        self, records: Iterable[Mapping[str, Any]], *, timeout_s: float = 30.0
    ) -> list[Message]:
        """Writes records given as arguments of the client's `produce`; all or an error."""
        producer = self._require_producer()
        delivered: list[Message] = []
        errors: list[Any] = []

        def on_delivery(error: Any, message: Any) -> None:
            errors.append(error) if error else delivered.append(_message(message))

        for record in records:
            while True:
                try:
                    producer.produce(on_delivery=on_delivery, **record)
                    break
                except BufferError:  # the client's queue is full: let it drain
                    producer.poll(_POLL_S)
        try:
            undelivered = producer.flush(timeout_s)
        except Exception as error:  # the client's own kind; it cannot be used after that
            self.close()
            raise EmbedKafkaError(f"the producer gave up: {error}") from error
        if errors:
            raise EmbedKafkaError(f"a record was not written: {errors[0]}")
        if undelivered:
            raise AwaitTimeout(f"{undelivered} records were not acknowledged in {timeout_s} s")
        return delivered

    def read(
        self,
        topic: str,
        *,
        enough: Callable[[list[Message]], bool] | None,
        timeout_s: float,
        isolation: str,
    ) -> list[Message]:
        """Reads from the start: to the present end, or on until `enough` says so."""
        import confluent_kafka

        consumer = confluent_kafka.Consumer(
            {
                **_QUIET,
                "bootstrap.servers": self._bootstrap_servers,
                "group.id": f"embedkafka-read-{topic}",  # demanded by the client, never joined
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": isolation,
                **_QUICK_TO_FIND_LEADERS,
                "fetch.wait.max.ms": 50,
                "allow.auto.create.topics": False,
            }
        )
        try:
            return self._read_with(consumer, topic, enough, timeout_s)
        finally:
            consumer.close()

    def start_over(self) -> None:
        """In a forked child: the lock may be held for ever, and the producer waits for threads."""
        self._lock = ranked_lock("clients", LEAF_RANK)
        _inherited.append(self._producer)
        self._producer = None

    def close(self) -> None:
        """Lets go of the producer; its queue is empty, for every send waits."""
        with self._lock:
            self._producer = None

    def _read_with(
        self,
        consumer: Any,
        topic: str,
        enough: Callable[[list[Message]], bool] | None,
        timeout_s: float,
    ) -> list[Message]:
        import confluent_kafka

        deadline_ms = REAL_TIME.monotonic_ms() + timeout_s * 1000
        metadata = consumer.list_topics(topic, timeout=timeout_s).topics[topic]
        if metadata.error:
            raise EmbedKafkaError(f"cannot read topic {topic}: {metadata.error}")
        consumer.assign(
            [
                confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)
                for partition in metadata.partitions
            ]
        )
        unfinished = set(metadata.partitions)
        messages: list[Message] = []
        while enough is None or not enough(messages):
            if enough is None and not unfinished:
                break
            if REAL_TIME.monotonic_ms() > deadline_ms:
                raise AwaitTimeout(_unmet(topic, timeout_s, messages))
            for polled in consumer.consume(num_messages=1000, timeout=_POLL_S if enough else 0.02):
                error = polled.error()
                if error is None:
                    messages.append(_message(polled))
                    unfinished.add(polled.partition())
                elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    unfinished.discard(polled.partition())
                else:
                    raise EmbedKafkaError(f"cannot read topic {topic}: {error}")
        return sorted(messages, key=lambda message: (message.partition, message.offset))

    def _require_producer(self) -> Any:
        with self._lock:
            if self._producer is None:
                import confluent_kafka

                self._producer = confluent_kafka.Producer(
                    {
                        **_QUIET,
                        "bootstrap.servers": self._bootstrap_servers,
                        **_QUICK_TO_FIND_LEADERS,
                        "acks": "all",
                        "enable.idempotence": True,  # a failover must not write a record twice
                        "linger.ms": 0,
                        "allow.auto.create.topics": False,
                    }
                )
            return self._producer


_all: "weakref.WeakSet[Clients]" = weakref.WeakSet()
_inherited: list[Any] = []
"""Producers of the parent: ending one would wait for its threads."""


@after_fork
def _start_over() -> None:
    for clients in list(_all):
        clients.start_over()


def _unmet(topic: str, timeout_s: float, messages: list[Message]) -> str:
    last = f"; the last was {messages[-1]}" if messages else ""
    return f"waited {timeout_s} s for records of {topic} and saw {len(messages)}{last}"


def _encoded(value: Bytes) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _header_list(headers: Headers) -> list[tuple[str, bytes | None]]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, _encoded(value)) for name, value in pairs]


def _message(polled: Any) -> Message:
    return Message(
        topic=polled.topic(),
        partition=polled.partition(),
        offset=polled.offset(),
        timestamp_ms=polled.timestamp()[1],
        key=polled.key(),
        value=polled.value(),
        headers=tuple(polled.headers() or ()),
    )
