"""The client behind a topic handle: confluent-kafka, for embedded and external clusters alike.

Owner: the caller's thread. The producer is made on first use, under `_lock` (leaf), and shared. A
forked child makes another one: the threads of the inherited one exist only in the parent.
Not here: creating and deleting topics (`admin`).
"""

import weakref
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from embedkafka.cluster.clients.decoding import Decoders
from embedkafka.cluster.clients.message import Message
from embedkafka.cluster.clients.query_watching import watch_queries
from embedkafka.runtime.arguments import (
    MAX_INT32,
    MAX_INT64,
    require_int,
    require_known,
    require_number,
    require_text,
    shown,
)
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import (
    AwaitTimeout,
    ClusterClosed,
    EmbedKafkaError,
    InvalidArgument,
    QueryFailed,
)
from embedkafka.runtime.forks import after_fork
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.patience import patient

if TYPE_CHECKING:
    from embedkafka.cluster.clients.client_view import ClientView
    from embedkafka.cluster.clients.client_waits import ClientWaits
    from embedkafka.cluster.clients.positions import From
    from embedkafka.spark.client_settings import ClientSettings

Bytes = bytes | str | None
Headers = Mapping[str, Bytes] | Sequence[tuple[str, Bytes]]
FindSettings = Callable[[str | None, str | None], "tuple[ClientSettings, str]"]
Enough = Callable[[list[Message]], object]

_OTHER_VALUES = "; `send_json` writes other values"
_OTHER_KEYS = "; encode it first, with `str` or `json.dumps`"
_POLL_S = 0.1
_SHOWN = 3  # records in the message of a timeout
_SEND_TIMEOUT_S = 30.0
_FIRST_LOOK_S = 10.0
"""A read may take this long to see what is there now, however short its own time is."""
_GONE = 10  # deleted topics that a producer may know
_ISOLATIONS = ("read_committed", "read_uncommitted")
READER, WRITER = "embedkafka-read", "embedkafka-send"
"""Client ids of topic handles."""
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
        for_user: "FindSettings | None" = None,
        explain: "Callable[[float], str] | None" = None,
        exists: Callable[[str], bool] | None = None,
        decoders: Decoders | None = None,
    ) -> None:
        """`cluster` must not be garbage-collected while these clients are in use.

        `for_user` finds the settings and the brokers' addresses for clients of a user, who may
        choose a mechanism. `explain` says what was wrong in the last seconds, so many; it ends the
        text of a timeout. `exists` knows whether there is a topic; without it the cluster is asked.
        `decoders` are those of the cluster's topics, if anything else knows them.
        """
        self._for_user = for_user
        connection = {} if settings is None else settings.librdkafka
        self._connection = {**connection, "bootstrap.servers": bootstrap_servers}
        self._spark_options = {} if settings is None else settings.spark_options
        self._cluster = cluster
        self._explain = explain
        self._exists = exists
        self.decoders = Decoders() if decoders is None else decoders
        self._bootstrap_servers = bootstrap_servers
        self._settings = settings
        self._partition_counts: dict[str, int] = {}
        self._sent_to: set[str] = set()  # by the present producer
        self._made_again: set[str] = set()  # of those
        self._gone: set[str] = set()  # likewise
        self._lock = ranked_lock("clients", LEAF_RANK)
        self._is_closed = False
        self._producer: Any = None  # Any: confluent-kafka ships no types, and is imported late
        _all.add(self)

    def spark_options(
        self, plain_servers: str, user: str | None = None, mechanism: str | None = None
    ) -> dict[str, str]:
        """Options with which Spark connects, by default as these clients do.

        `plain_servers` are the addresses of brokers that ask for nothing.
        """
        options = self._spark_options
        servers = self._bootstrap_servers if options else plain_servers
        if user is not None or mechanism is not None:
            if self._for_user is None:
                raise InvalidArgument(
                    "the users of an external cluster are not known: use --kafka-client-config"
                )
            settings, servers = self._for_user(user, mechanism)
            options = settings.spark_options
        return {**options, "kafka.bootstrap.servers": servers}

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
            "value": _encoded("value", value, _OTHER_VALUES),
            "key": _encoded("key", key, _OTHER_KEYS),
            "partition": -1,
            "headers": _header_list(headers),
            "timestamp": 0,
        }
        if partition is not None:
            record["partition"] = _require_partition("partition", partition)
        if timestamp_ms is not None:
            record["timestamp"] = require_int("timestamp_ms", timestamp_ms, least=0, most=MAX_INT64)
        return self._send(topic, [record])[0]

    def send_values(
        self,
        topic: str,
        values: Iterable[Bytes],
        *,
        keys: Iterable[Bytes] | None = None,
        headers: Iterable[Headers] | None = None,
        partitions: Iterable[int] | None = None,
    ) -> list[Message]:
        """Writes a record for each value; all of them, or it raises."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise InvalidArgument(
                f'values must be a list such as ["a", "b"], got {shown(values)}; `send` takes '
                "one value"
            )
        records = [
            {"topic": topic, "value": _encoded("value", value, _OTHER_VALUES)} for value in values
        ]
        if keys is not None:
            for record, key in _pairs(records, "keys", keys):
                record["key"] = _encoded("key", key, _OTHER_KEYS)
        if headers is not None:
            for record, own in _pairs(records, "headers", headers):
                record["headers"] = _header_list(own)
        if partitions is not None:
            for record, partition in _pairs(records, "partitions", partitions):
                record["partition"] = _require_partition("a partition", partition)
        return self._send(topic, records)

    def read(
        self,
        topic: str,
        until: int | Enough | None,
        *,
        timeout_s: float,
        isolation: str,
        from_: "From | None" = None,
    ) -> list[Message]:
        """Reads to the present end, or until the count or condition is met."""
        enough = _enough(until)
        require_number("timeout_s", timeout_s)
        try:
            with self._consuming(topic, isolation) as consumer:
                partitions = _assign(consumer, topic, from_, max(timeout_s, _FIRST_LOOK_S))
                return self._read_with(
                    consumer,
                    topic,
                    partitions,
                    enough,
                    timeout_s,
                    what=_wanted(until),
                    drops_deleted=callable(until),
                )
        except QueryFailed:
            # It may have written before it failed, after the end that we saw.
            there = self.read(topic, None, timeout_s=timeout_s, isolation=isolation, from_=from_)
            if enough is None or not enough(there):
                raise
            return there

    def follow(
        self, topic: str, *, timeout_s: float, isolation: str, from_: "From | None" = None
    ) -> Generator[Message, None, None]:
        """The records as they come; raises `AwaitTimeout` when none has come for so long."""
        timeout_s = patient(require_number("timeout_s", timeout_s))
        with self._consuming(topic, isolation) as consumer:
            _assign(consumer, topic, from_, _SEND_TIMEOUT_S)
            deadline_ms = REAL_TIME.monotonic_ms() + timeout_s * 1000
            while True:
                self.require_open()
                for polled in consumer.consume(num_messages=1000, timeout=_POLL_S):
                    if (message := self._read_message(topic, polled)) is not None:
                        yield message
                        deadline_ms = REAL_TIME.monotonic_ms() + timeout_s * 1000
                if REAL_TIME.monotonic_ms() > deadline_ms:
                    raise AwaitTimeout(f"waited {timeout_s:g} s for the next record of {topic}")

    @contextmanager
    def _consuming(self, topic: str, isolation: str) -> Iterator[Any]:
        """A consumer that joins no group."""
        require_known("isolation level", isolation, _ISOLATIONS)
        self.require_open()
        import confluent_kafka

        consumer = confluent_kafka.Consumer(
            {
                **_QUIET,
                "client.id": READER,
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
            yield consumer
        except confluent_kafka.KafkaException as error:
            raise EmbedKafkaError(f"cannot read topic {topic}: {error}") from error
        finally:
            consumer.close()

    def view(self) -> "ClientView":
        """Looks at the cluster as a client does."""
        from embedkafka.cluster.clients.client_view import ClientView  # most clusters need none

        self.require_open()
        return ClientView(self._bootstrap_servers, self._settings)

    def waits(self) -> "ClientWaits":
        """Waits for what other clients do."""
        from embedkafka.cluster.clients.client_waits import ClientWaits  # most clusters need none

        return ClientWaits(self.view())

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
            self._gone.clear()
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
        self._gone.discard(topic)

    def on_deletion(self, topic: str, *, had_other_leaders: bool) -> None:
        """The topic goes: a producer that knows its later leaders must go too.

        It would hold on to them when there is another topic of that name, whose epochs are lower.
        So must one that knows many topics that are gone: it asks for all of them, again and again.
        """
        if topic in self._sent_to:
            self._gone.add(topic)
            if had_other_leaders or len(self._gone) > _GONE:
                self.forget_producer()

    def start_over(self) -> None:
        """In a forked child: the lock may be held forever, and the producer has no threads."""
        self._lock = ranked_lock("clients", LEAF_RANK)
        _inherited.append(self._producer)
        self._producer = None

    def close(self) -> None:
        """Refuses further use: the cluster is closed."""
        self._is_closed = True
        self._cluster = None
        self.forget_producer()

    def _send(self, topic: str, records: Iterable[Mapping[str, Any]]) -> list[Message]:
        """Writes records given as arguments of the client's `produce`; all, or it raises."""
        self.require_open()
        self._require_topic(topic)
        import confluent_kafka

        producer = self._require_producer()
        self._sent_to.add(topic)
        delivered: list[Message] = []
        errors: list[Any] = []

        def on_delivery(error: Any, message: Any) -> None:
            errors.append(error) if error else delivered.append(self._message(message))

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
            raise self._timed_out(
                f"{undelivered} records were not acknowledged in {_SEND_TIMEOUT_S:g} s",
                _SEND_TIMEOUT_S,
            )
        return delivered

    def _read_with(
        self,
        consumer: Any,
        topic: str,
        partitions: Collection[int],
        enough: Enough | None,
        timeout_s: float,
        *,
        what: str,
        drops_deleted: bool,
    ) -> list[Message]:
        begun_ms = REAL_TIME.monotonic_ms()
        timeout_s = patient(timeout_s)
        watch = None if enough is None else watch_queries(topic)
        unfinished = set(partitions)
        messages: list[Message] = []
        while True:
            is_at_end = not unfinished
            if is_at_end if enough is None else (messages or is_at_end) and enough(messages):
                break
            if watch is not None and (failed := watch.find_failed()) is not None:
                if enough is not None and enough([]):
                    watch = None  # the test waits for records to go
                else:
                    raise failed.error(f"{what} of {topic}{_seen(messages)}")
            patience_s = max(timeout_s, _FIRST_LOOK_S) if unfinished else timeout_s
            if REAL_TIME.monotonic_ms() > begun_ms + patience_s * 1000:
                said = f"waited {timeout_s:g} s for {what} of {topic}{_seen(messages)}"
                if watch is not None and (failures := watch.describe_failures()):
                    said += f"\n{failures}"
                raise self._timed_out(said, timeout_s)
            batch = consumer.consume(num_messages=1000, timeout=_POLL_S if enough else 0.02)
            if drops_deleted and not batch:
                messages = _without_deleted(consumer, messages)
            for polled in batch:
                if (message := self._read_message(topic, polled)) is None:
                    unfinished.discard(polled.partition())
                else:
                    messages.append(message)
                    unfinished.add(polled.partition())
        return sorted(messages, key=lambda message: (message.partition, message.offset))

    def _read_message(self, topic: str, polled: Any) -> Message | None:
        """The record that was polled; None at the end of a partition."""
        from confluent_kafka import KafkaError

        error = polled.error()
        if error is None:
            return self._message(polled)
        if error.code() == KafkaError._PARTITION_EOF:
            return None
        raise EmbedKafkaError(f"cannot read topic {topic}: {error}")

    def _message(self, polled: Any) -> Message:
        return Message(
            topic=polled.topic(),
            partition=polled.partition(),
            offset=polled.offset(),
            timestamp_ms=polled.timestamp()[1],
            key=polled.key(),
            value=polled.value(),
            headers=tuple(polled.headers() or ()),
            decode=self.decoders.find(polled.topic()),
        )

    def _require_topic(self, topic: str) -> None:
        """Raises if there is no such topic: a producer would wait for it."""
        if self._exists is not None:
            is_there = self._exists(topic)
        elif topic in self._sent_to:
            is_there = True
        else:
            found = self._require_producer().list_topics(topic, timeout=_SEND_TIMEOUT_S)
            is_there = not found.topics[topic].error
        if not is_there:
            raise EmbedKafkaError(
                f"cannot write to topic {topic}: there is no such topic. `kafka.topic` creates one"
            )

    def _timed_out(self, said: str, timeout_s: float) -> AwaitTimeout:
        why = "" if self._explain is None else self._explain(timeout_s)
        return AwaitTimeout(f"{said}\n{why}" if why else said)

    def _require_producer(self) -> Any:
        with self._lock:
            if self._producer is None:
                import confluent_kafka

                self._producer = confluent_kafka.Producer(
                    {
                        **_QUIET,
                        "client.id": WRITER,
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


def _wanted(until: int | Enough | None) -> str:
    """The condition in words, or in the words of the test."""
    if until is None:
        return "the end"
    if not callable(until):
        return f"{until} records"
    name = getattr(until, "__name__", repr(until))
    return f"records such that `{_lambda_source(until) if name == '<lambda>' else name}`"


def _lambda_source(condition: Enough) -> str:
    """The longest text that is a lambda, on the lines where this one was written."""
    import ast
    import inspect

    try:
        text = " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):
        return "<lambda>"  # no source, as in a shell
    text = text[text.find("lambda") :]
    for end in range(len(text), 0, -1):
        try:
            if isinstance(ast.parse(text[:end], mode="eval").body, ast.Lambda):
                return text[:end]
        except SyntaxError:
            continue
    return "<lambda>"


def _seen(messages: Sequence[Message]) -> str:
    """How many there were, and the last of them, in the order of their arrival."""
    if not messages:
        return " and saw none"
    last = "".join(f"\n  {message}" for message in messages[-_SHOWN:])
    return f" and saw {len(messages)}; the last:{last}"


def _assign(consumer: Any, topic: str, from_: "From | None", timeout_s: float) -> Collection[int]:
    """Lets the consumer read all partitions, and returns their numbers."""
    from embedkafka.cluster.clients.positions import (  # few tests need it
        find_positions,
        require_from,
    )

    begin = require_from(from_)
    metadata = consumer.list_topics(topic, timeout=timeout_s).topics[topic]
    if metadata.error:
        raise EmbedKafkaError(f"cannot read topic {topic}: {metadata.error}")
    partitions: Collection[int] = list(metadata.partitions)
    consumer.assign(find_positions(consumer, topic, partitions, begin, timeout_s))
    return partitions


def _without_deleted(consumer: Any, messages: list[Message]) -> list[Message]:
    """The messages that lie behind the present starts of their logs."""
    import confluent_kafka

    starts: dict[int, int] = {}
    for message in messages:
        if message.partition not in starts:
            partition = confluent_kafka.TopicPartition(message.topic, message.partition)
            try:
                starts[message.partition], _ = consumer.get_watermark_offsets(partition, timeout=1)
            except confluent_kafka.KafkaException:
                return messages  # no leader at the moment
    return [message for message in messages if message.offset >= starts[message.partition]]


def _pairs(records: list[dict[str, Any]], name: str, given: Iterable[Any]) -> Iterator[Any]:
    """Each record with its own; raises `InvalidArgument` if there is not one for each."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidArgument(f"{name} must be a list with one entry per value, got {shown(given)}")
    own = list(given)
    if len(own) != len(records):
        raise InvalidArgument(f"there are {len(records)} values and {len(own)} {name}")
    return zip(records, own, strict=True)


def _refusal(record: Mapping[str, Any], error: Exception) -> str:
    where = record["topic"]
    if record.get("partition", -1) >= 0:
        where += f" partition {record['partition']}"
    return f"cannot write to topic {where}: {error}"


def _enough(until: int | Enough | None) -> Enough | None:
    if until is None or (callable(until) and not isinstance(until, type)):
        return until
    count = require_int("the number of records to wait for", until, least=0)
    return lambda messages: len(messages) >= count


def _require_partition(name: str, partition: int) -> int:
    return require_int(name, partition, least=0, most=MAX_INT32)


def _encoded(name: str, value: Bytes, advice: str = "") -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be text, bytes or None, got {shown(value)}{advice}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{name} cannot be written as UTF-8, got {shown(value)}: {error.reason}"
        ) from error


def _header_list(headers: Headers) -> list[tuple[str, bytes | None]]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return [(require_text("a header's name", n), _encoded("a header", v)) for n, v in pairs]
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f'headers must be a mapping such as {{"id": "1"}} or a list of pairs, '
            f"got {shown(headers)}"
        ) from error
