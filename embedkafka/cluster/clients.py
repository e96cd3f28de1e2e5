"""The client behind a topic handle: confluent-kafka, for embedded and external clusters alike.

Owner: the caller's thread. The producer is made on first use, under `_lock` (leaf), and shared. A
forked child makes another one: the threads of the inherited one exist only in the parent.
Not here: creating and deleting topics (`admin`).
"""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from embedkafka.cluster.message import Message
from embedkafka.runtime.arguments import require_int, require_known, require_number, require_text
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import (
    AwaitTimeout,
    ClusterClosed,
    EmbedKafkaError,
    InvalidArgument,
)
from embedkafka.runtime.forks import after_fork
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock

if TYPE_CHECKING:
    from embedkafka.spark.client_settings import ClientSettings

Bytes = bytes | str | None
Headers = Mapping[str, Bytes] | Sequence[tuple[str, Bytes]]
Enough = Callable[[list[Message]], object]

_POLL_S = 0.1
_SEND_TIMEOUT_S = 30.0
_ISOLATIONS = ("read_committed", "read_uncommitted")
_QUIET = {"log_level": 2, "log.connection.close": False}
"""Logs nothing when the cluster ends: the test ended it."""
_QUICK_TO_FIND_LEADERS = {"topic.metadata.refresh.interval.ms": 250}
"""By default librdkafka asks for a new leader only after a second or two."""


class Clients:
    """Produces to and reads from one cluster, until `close`."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        cluster: object = None,
        settings: "ClientSettings | None" = None,
    ) -> None:
        """`cluster` must not be garbage-collected while these clients are in use."""
        connection = {} if settings is None else settings.librdkafka
        self._connection = {**connection, "bootstrap.servers": bootstrap_servers}
        self.spark_options = {} if settings is None else settings.spark_options
        """What Spark's options need besides the brokers' addresses."""
        self._cluster = cluster
        self._partition_counts: dict[str, int] = {}
        self._sent_to: set[str] = set()  # by the present producer
        self._made_again: set[str] = set()  # of those
        self._lock = ranked_lock("clients", LEAF_RANK)
        self._is_closed = False
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
    ) -> Message:
        """Writes one record and waits until all in-sync replicas have it."""
        record = {
            "topic": topic,
            "value": _encoded("value", value),
            "key": _encoded("key", key),
            "partition": -1,
            "headers": _header_list(headers),
            "timestamp": 0,
        }
        if partition is not None:
            record["partition"] = require_int("partition", partition, least=0)
        if timestamp_ms is not None:
            record["timestamp"] = require_int("timestamp_ms", timestamp_ms, least=0)
        return self._send(topic, [record])[0]

    def send_values(self, topic: str, values: Iterable[Bytes]) -> list[Message]:
        """Writes records that have only a value; all of them, or it raises."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise InvalidArgument(
                f'values must be a list such as ["a", "b"], got {values!r}; `send` takes one value'
            )
        encoded = [_encoded("value", value) for value in values]
        return self._send(topic, ({"topic": topic, "value": value} for value in encoded))

    def read(
        self,
        topic: str,
        until: int | Enough | None,
        *,
        timeout_s: float,
        isolation: str,
    ) -> list[Message]:
        """Reads from the start to the present end, or until the count or condition is met."""
        enough = _enough(until)
        require_number("timeout_s", timeout_s)
        require_known("isolation level", isolation, _ISOLATIONS)
        self.require_open()
        import confluent_kafka

        consumer = confluent_kafka.Consumer(
            {
                **_QUIET,
                **self._connection,
                "group.id": f"embedkafka-read-{topic}",  # required by the client, never joined
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
        except confluent_kafka.KafkaException as error:
            raise EmbedKafkaError(f"cannot read topic {topic}: {error}") from error
        finally:
            consumer.close()

    def require_open(self) -> None:
        """Raises `ClusterClosed` after `close`: a client would wait for brokers that are gone."""
        if self._is_closed:
            raise ClusterClosed("the cluster of this topic is closed")

    def forget_producer(self) -> None:
        """Makes the next `send` use a new producer, which knows nothing of the topics so far.

        The old one's queue is empty, because every send waits.
        """
        with self._lock:
            self._producer = None
            self._sent_to.clear()
            self._made_again.clear()
            self._partition_counts.clear()

    def on_partitions(self, topic: str, count: int) -> None:
        """The topic was made, or has grown: a producer that knows it by another count must go.

        It would go on for minutes without new partitions, and with ones that are gone.
        """
        if topic in self._sent_to and self._partition_counts.get(topic) != count:
            self.forget_producer()
        elif topic in self._sent_to:
            self._made_again.add(topic)
        self._partition_counts[topic] = count

    def forget_leaders(self, topic: str) -> None:
        """The topic goes, and its leaders have changed: a producer that knows them must go too.

        It would hold on to them when there is another topic of that name, whose epochs are lower.
        """
        if topic in self._sent_to:
            self.forget_producer()

    def start_over(self) -> None:
        """In a forked child: the lock may be held forever, and the producer has no threads."""
        self._lock = ranked_lock("clients", LEAF_RANK)
        _inherited.append(self._producer)
        self._producer = None

    def close(self) -> None:
        """Refuses further use: the cluster is closed."""
        self._is_closed = True
        self.forget_producer()

    def _send(self, topic: str, records: Iterable[Mapping[str, Any]]) -> list[Message]:
        """Writes records given as arguments of the client's `produce`; all, or it raises."""
        self.require_open()
        import confluent_kafka

        producer = self._require_producer()
        self._sent_to.add(topic)
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
                except confluent_kafka.KafkaException as error:
                    if topic not in self._made_again:
                        raise EmbedKafkaError(_refusal(record, error)) from error
                    # It has heard that the topic was deleted, not that there is another one. It
                    # refuses the first record or none: no other is under way.
                    self.forget_producer()
                    producer = self._require_producer()
        try:
            undelivered = producer.flush(_SEND_TIMEOUT_S)
        except Exception as error:  # the client's own kind; the producer is unusable after it
            self.forget_producer()
            raise EmbedKafkaError(f"the producer gave up: {error}") from error
        if errors:
            raise EmbedKafkaError(f"a record was not written: {errors[0]}")
        if undelivered:
            raise AwaitTimeout(
                f"{undelivered} records were not acknowledged in {_SEND_TIMEOUT_S:g} s"
            )
        return delivered

    def _read_with(
        self,
        consumer: Any,
        topic: str,
        enough: Enough | None,
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
                        **self._connection,
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
"""The parent's producers: destroying one here would wait for its threads forever."""


@after_fork
def _start_over() -> None:
    for clients in list(_all):
        clients.start_over()


def _unmet(topic: str, timeout_s: float, messages: list[Message]) -> str:
    last = f"; the last was {messages[-1]}" if messages else ""
    return f"waited {timeout_s} s for records of {topic} and saw {len(messages)}{last}"


def _refusal(record: Mapping[str, Any], error: Exception) -> str:
    where = record["topic"]
    if record.get("partition", -1) >= 0:
        where += f" partition {record['partition']}"
    return f"cannot write to topic {where}: {error}"


def _enough(until: int | Enough | None) -> Enough | None:
    if until is None or callable(until):
        return until
    count = require_int("the number of records to wait for", until, least=0)
    return lambda messages: len(messages) >= count


def _encoded(name: str, value: Bytes) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, bytes):
        return value
    raise InvalidArgument(
        f"{name} must be text, bytes or None, got {value!r}; `send_json` writes other values"
    )


def _header_list(headers: Headers) -> list[tuple[str, bytes | None]]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return [(require_text("a header's name", n), _encoded("a header", v)) for n, v in pairs]
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f'headers must be a mapping such as {{"id": "1"}} or a list of pairs, got {headers!r}'
        ) from error


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
