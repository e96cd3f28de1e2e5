"""Sends damaged requests to a running broker while a witness client must notice nothing.

The corpus is built when the run begins: the requests that confluent-kafka sends through a tap, and
one request of every API in every version.
"""

import contextlib
import itertools
import selectors
import socket
import struct
import time
from collections import deque
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from embedkafka import EmbeddedKafka
from embedkafka.broker.api_table import SERVED
from embedkafka.runtime.addresses import parse_address
from embedkafka.runtime.failures import BackgroundFailure
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.codec import ProtocolError, decode, encode
from embedkafka.wire.protocol.headers import decode_request_header, encode_request_header
from embedkafka.wire.protocol.messages.registry import request_type
from tests.fuzz.batches import good_batches
from tests.fuzz.messages import Messages
from tests.fuzz.mutations import Mutator
from tests.fuzz.tap import Tap
from tests.unit.wire.protocol.samples import full, sparse

_CONNECTIONS: Final = 100
#: A request without an answer by then is waiting for something; its connection is dropped.
_PATIENCE_S: Final = 0.1
_WITNESS_EVERY: Final = 500
_WAIT_S: Final = 60.0
#: The share of requests that are well formed but nonsensical; the others are damaged ones of the
#: corpus.
_NONSENSE: Final = 0.5
#: Every partition has files, so more topics would be load rather than hostile input.
_MAX_PARTITIONS: Final = 20
_MAX_TOPICS: Final = 60
_CONFIG: Final = {
    "auto.create.topics.enable": False,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
}
_WITNESS_CONFIG: Final = {"retention.ms": -1, "retention.bytes": -1, "cleanup.policy": "delete"}


class RunningBroker:
    """Every frame is answered or its connection closed, and the witness loses nothing."""

    name = "broker"

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._mutator = Mutator(rng)
        self._messages = Messages(rng, good_batches())
        self._selector = selectors.DefaultSelector()
        self._idle: deque[socket.socket] = deque()
        self._busy: dict[socket.socket, float] = {}
        self._numbers = itertools.count(1)
        self._acknowledged: list[bytes] = []
        self._recent: list[bytes] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            tap = stack.enter_context(Tap())
            advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{tap.port}"}
            with EmbeddedKafka(config={**_CONFIG, **advertised}) as kafka:
                tap.start(*parse_address(kafka.broker(1).address))
                _use(f"127.0.0.1:{tap.port}")
            recorded = list(tap.frames)
        self._corpus = [*recorded, *_samples(), *recorded]
        self._kafka = self._stack.enter_context(EmbeddedKafka(config=_CONFIG))
        for topic in ("fuzz-orders", "fuzz-compacted"):
            self._kafka.topic(topic, partitions=2)
        # No input has this name: a request that names the topic could legitimately delete it.
        self._witness = self._kafka.topic("witness-c41d3cf0b7a94e62", config=_WITNESS_CONFIG)
        self._producer = Producer({"bootstrap.servers": self._kafka.bootstrap_servers, "acks": -1})
        self._consumer = Consumer(
            {"bootstrap.servers": self._kafka.bootstrap_servers, "group.id": "witness"}
        )
        self._consumer.assign([TopicPartition(self._witness.name, 0, 0)])
        self._stack.callback(self._consumer.close)
        self._address = parse_address(self._kafka.broker(1).address)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in [*self._idle, *self._busy]:
            connection.close()
        self._selector.close()
        self._stack.close()

    def next_input(self) -> bytes:
        while True:
            if self._rng.random() < _NONSENSE:
                frame = self._nonsense()
            else:
                frame = self._mutator.damaged(self._rng.choice(self._corpus), self._corpus)
            if not _is_a_load(frame):
                return frame

    def _nonsense(self) -> bytes:
        """A well-formed request whose values make little sense together."""
        key, version = self._rng.choice(_SERVED)
        message = self._messages.make(request_type(key), version)
        header = encode_request_header(key, version, 1, self._rng.choice((None, "", "fuzz")))
        return header + encode(message, version)

    def feed(self, data: bytes) -> None:
        self._recent.append(data)
        connection = self._free_connection()
        try:
            connection.sendall(struct.pack(">i", len(data)) + data)
        except OSError:
            self._drop(connection)
            return
        self._busy[connection] = time.monotonic() + _PATIENCE_S
        self._selector.register(connection, selectors.EVENT_READ)
        self._take_answers(0)
        number = next(self._numbers)
        if number % _WITNESS_EVERY == 0:
            self._testify(number)

    def check(self) -> None:
        self._testify(0)
        try:
            self._kafka.check()
        except BackgroundFailure as failure:
            raise AssertionError(f"{failure}\n{self._find_guilty()}") from failure
        self._recent.clear()
        self._delete_topics()

    def _find_guilty(self) -> str:
        """Sends the inputs since the last check again, one at a time."""
        for frame in self._recent:
            with socket.create_connection(self._address, timeout=1.0) as connection:
                try:
                    connection.sendall(struct.pack(">i", len(frame)) + frame)
                    connection.recv(1 << 16)
                except OSError:
                    pass
            try:
                self._kafka.check()
            except BackgroundFailure:
                return f"it was {frame.hex()}"
        return f"it was none alone of {[frame.hex() for frame in self._recent]}"

    def describe(self, data: bytes) -> str:
        return data.hex()

    # -- connections

    def _free_connection(self) -> socket.socket:
        while True:
            if self._idle:
                return self._idle.popleft()
            if len(self._busy) < _CONNECTIONS:
                connection = socket.create_connection(self._address, timeout=_WAIT_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection
            first = next(iter(self._busy.values()))
            self._take_answers(max(0.0, first - time.monotonic()))
            now = time.monotonic()
            for connection, until in list(self._busy.items()):
                if until <= now:
                    self._drop(connection)

    def _take_answers(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            connection: Any = key.fileobj
            try:
                answered = connection.recv(1 << 20) != b""
            except OSError:
                answered = False
            if not answered:
                self._drop(connection)
                continue
            self._selector.unregister(connection)
            del self._busy[connection]
            self._idle.append(connection)

    def _drop(self, connection: socket.socket) -> None:
        if self._busy.pop(connection, None) is not None:
            self._selector.unregister(connection)
        connection.close()

    # -- the witness

    def _testify(self, number: int) -> None:
        """Produces and consumes as a separate, undisturbed client."""
        value = b"%d of %d" % (number, len(self._acknowledged))
        failed: list[object] = []
        self._producer.produce(
            self._witness.name, value, on_delivery=lambda error, _: failed.append(error)
        )
        assert self._producer.flush(_WAIT_S) == 0, "the witness gets no answer"
        assert failed == [None], f"the witness's record was refused: {failed}"
        self._acknowledged.append(value)
        message = self._consumer.poll(_WAIT_S)
        assert message is not None, "the witness reads nothing"
        assert message.error() is None, f"the witness cannot read: {message.error()}"
        assert message.value() == value, (
            f"the witness read {message.value()!r} instead of {value!r}"
        )

    def _delete_topics(self) -> None:
        """Deletes the topics that damaged requests created once there are many."""
        kept = {self._witness.name, "fuzz-orders", "fuzz-compacted"}
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap_servers})
        names = [name for name in admin.list_topics(timeout=_WAIT_S).topics if name[:2] != "__"]
        if len(names) > _MAX_TOPICS:
            for name in set(names) - kept:
                self._kafka.existing_topic(name).delete()


def _is_a_load(frame: bytes) -> bool:
    """Whether a correct broker would create very many partitions for this request."""
    if frame[:2] not in _MAKES_PARTITIONS:
        return False
    try:
        header, body = decode_request_header(frame)
        kind = request_type(ApiKey(header.api_key))
        request: Any = decode(kind, header.api_version, body, surplus_allowed=True)
    except (ProtocolError, KeyError, ValueError):
        return False
    counts: list[int] = [
        getattr(topic, "num_partitions", 0) or getattr(topic, "count", 0)
        for topic in request.topics
    ]
    return sum(map(abs, counts)) > _MAX_PARTITIONS


_MAKES_PARTITIONS: Final = frozenset(
    struct.pack(">h", key) for key in (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS)
)


_SERVED: Final = [
    (key, version)
    for key, api in SERVED.items()
    if api.for_clients
    for version in range(api.versions[0], api.versions[1] + 1)
]


def _samples() -> list[bytes]:
    """One request of every client API and version, once with all fields and once with few."""
    return [
        encode_request_header(key, version, 1, "fuzz")
        + encode(sample(request_type(key), version), version)
        for key, version in _SERVED
        for sample in (full, sparse)
    ]


def _use(bootstrap_servers: str) -> None:
    """Uses Kafka as a program would, for the tap to record."""
    common: dict[str, Any] = {"bootstrap.servers": bootstrap_servers}
    admin = AdminClient(common)
    topics = [NewTopic(name, num_partitions=2) for name in ("fuzz-orders", "fuzz-compacted")]
    for future in admin.create_topics(topics).values():
        future.result(_WAIT_S)
    for settings in ({"compression.type": "lz4"}, {"transactional.id": "fuzz"}, {"acks": 0}):
        producer = Producer({**common, **settings})
        if "transactional.id" in settings:
            producer.init_transactions(_WAIT_S)
            producer.begin_transaction()
        for number in range(20):
            producer.produce("fuzz-orders", b"%d" % number, key=b"k%d" % number)
        assert producer.flush(_WAIT_S) == 0
        if "transactional.id" in settings:
            producer.commit_transaction(_WAIT_S)
    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {
                **common,
                "group.id": f"fuzz-{protocol}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe(["^fuzz-.*"])
        assert consumer.poll(_WAIT_S) is not None
        consumer.commit(asynchronous=False)
        consumer.close()
    admin.list_consumer_groups().result(_WAIT_S)
    for group in admin.describe_consumer_groups(["fuzz-classic"]).values():
        group.result(_WAIT_S)
    for deleted in admin.delete_topics(["fuzz-compacted"]).values():
        deleted.result(_WAIT_S)
