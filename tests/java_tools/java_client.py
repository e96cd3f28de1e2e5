"""The stock Java clients, driven from Python.

`JavaClient("3.9")` starts one JVM with the small driver in `driver/` and kafka-clients of that
line; admin clients, producers and consumers are sessions inside it. A call returns the Java
client's result, or raises `JavaError` with the class and message of its exception. Each session has
a separate Java thread: `consumer.start("poll", ...)` returns a future, so two members can
rebalance.
"""

import base64
import contextlib
import itertools
import json
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from tests.java_tools import maven
from tests.java_tools.compiler import compiled
from tests.java_tools.jvm import QUICK_START, dies_with_parent, java, system_properties

#: The newest release of each client line in the tests.
RELEASES: Final[Mapping[str, str]] = {"3.9": "3.9.2", "4": "4.3.1"}
LIBRARIES: Final = (
    "com.fasterxml.jackson.core:jackson-databind:2.17.2",
    "org.slf4j:slf4j-simple:1.7.36",
)
DRIVER: Final = Path(__file__).parent / "driver"
CALL_TIMEOUT_SECONDS: Final = 90.0

#: A session's answer as JSON: the tests know its shape, the type checker cannot.
Json = Any


class JavaError(Exception):
    """The Java client threw; `kind` is the simple class name, such as TopicExistsException."""

    def __init__(self, java_class: str, message: str | None) -> None:
        super().__init__(f"{java_class}: {message}")
        self.java_class = java_class
        self.kind = java_class.rsplit(".", 1)[-1]
        self.message = message or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRecord:
    """A record as a Java consumer saw it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: str
    leader_epoch: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A record for a Java producer."""

    topic: str
    value: bytes | None = None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = field(default=())

    def as_json(self) -> Json:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "timestamp": self.timestamp,
            "key": _base64(self.key),
            "value": _base64(self.value),
            "headers": [[name, _base64(value)] for name, value in self.headers],
        }


class JavaClient:
    """One JVM with one line of kafka-clients, for the length of a `with` block.

    `properties` are system properties of the JVM.
    """

    def __init__(self, version: str, *, properties: Mapping[str, str] | None = None) -> None:
        self._flags = (*QUICK_START, "-Xmx256m", *system_properties(properties or {}))
        self.version = RELEASES.get(version, version)
        self._names = itertools.count(1)
        self._ids = itertools.count(1)
        self._pending: dict[int, Future[Json]] = {}
        self._lock = threading.Lock()
        self._scratch = tempfile.TemporaryDirectory(prefix="ek-java-client-")
        self._log = Path(self._scratch.name, "driver.err")

    def __enter__(self) -> Self:
        class_path = _driver_classpath(self.version)
        level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        with self._log.open("wb") as errors:
            self._process = subprocess.Popen(
                [
                    *dies_with_parent(),
                    *(java(), *self._flags, level, "-cp", class_path, "Main"),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reader = threading.Thread(
            target=self._read_answers, name=f"java-client-{self.version}", daemon=True
        )
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(BrokenPipeError):
            _pipe(self._process.stdin).close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(10)
        _pipe(self._process.stdout).close()
        self._scratch.cleanup()

    @property
    def pid(self) -> int:
        return self._process.pid

    def admin(self, bootstrap_servers: str, **config: object) -> "JavaAdmin":
        return JavaAdmin(self, "admin", bootstrap_servers, config)

    def producer(self, bootstrap_servers: str, **config: object) -> "JavaProducer":
        return JavaProducer(self, "producer", bootstrap_servers, config)

    def consumer(self, bootstrap_servers: str, **config: object) -> "JavaConsumer":
        return JavaConsumer(self, "consumer", bootstrap_servers, config)

    def start(self, session: str, op: str, arguments: Mapping[str, Json]) -> "Future[Json]":
        """Sends one command and returns a future of its answer or its `JavaError`."""
        future: Future[Json] = Future()
        with self._lock:
            identity = next(self._ids)
            self._pending[identity] = future
            command = {"id": identity, "session": session, "op": op, "args": arguments}
            stdin = _pipe(self._process.stdin)
            stdin.write(json.dumps(command) + "\n")
            stdin.flush()
        return future

    def next_name(self, kind: str) -> str:
        return f"{kind}-{next(self._names)}"

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def _read_answers(self) -> None:
        for line in _pipe(self._process.stdout):
            answer = json.loads(line)
            future = self._pending.pop(answer["id"])
            if (error := answer.get("error")) is not None:
                future.set_exception(JavaError(error["class"], error["message"]))
            else:
                future.set_result(answer["ok"])
        for future in self._pending.values():
            future.set_exception(JavaError("driver.Ended", self.log_tail()))


class JavaSession:
    """One Java client object; `close` or the end of a `with` block closes it."""

    def __init__(
        self,
        java_client: JavaClient,
        kind: str,
        bootstrap_servers: str,
        config: Mapping[str, object],
    ) -> None:
        self._client = java_client
        self.name = java_client.next_name(kind)
        properties = {name.replace("_", "."): _property(value) for name, value in config.items()}
        properties["bootstrap.servers"] = bootstrap_servers
        self._ask("", "open", {"kind": kind, "name": self.name, "config": properties})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._ask("", "close", {"name": self.name})

    def call(self, op: str, **arguments: Json) -> Json:
        """Runs one command of the driver and waits for its answer."""
        return self._ask(self.name, op, arguments)

    def start(self, op: str, **arguments: Json) -> "Future[Json]":
        """Runs one command of the driver in the background."""
        return self._client.start(self.name, op, arguments)

    def _ask(self, session: str, op: str, arguments: Mapping[str, Json]) -> Json:
        return self._client.start(session, op, arguments).result(CALL_TIMEOUT_SECONDS)


class JavaAdmin(JavaSession):
    """`org.apache.kafka.clients.admin.Admin`. `each` answers per entity, as Kafka does."""

    def each(self, op: str, **arguments: Json) -> dict[str, Json]:
        """Per topic, partition, group or resource: the result or its `JavaError`."""
        return {key: _outcome(outcome) for key, outcome in self.call(op, **arguments).items()}

    def one(self, op: str, **arguments: Json) -> Json:
        """The result of a command about a single entity; raises its error."""
        (outcome,) = self.each(op, **arguments).values()
        if isinstance(outcome, JavaError):
            raise outcome
        return outcome

    def create_topic(self, name: str, **settings: Json) -> Json:
        """Creates one topic from partitions, replicationFactor, assignments and configs."""
        return self.one("createTopics", topics=[{"name": name, **settings}])


class JavaProducer(JavaSession):
    """`KafkaProducer` of bytes."""

    def send(self, *messages: Message) -> list[Json]:
        """Sends all messages and flushes; returns each one's metadata or `JavaError`."""
        outcomes = self.call("send", records=[message.as_json() for message in messages])
        return [_outcome(outcome) for outcome in outcomes]

    def send_one(self, topic: str, value: bytes | None = None, **fields: Any) -> Json:
        """Sends one message; raises its error."""
        (outcome,) = self.send(Message(topic=topic, value=value, **fields))
        if isinstance(outcome, JavaError):
            raise outcome
        return outcome


class JavaConsumer(JavaSession):
    """`KafkaConsumer` of bytes."""

    def subscribe(self, *topics: str) -> None:
        self.call("subscribe", topics=topics)

    def assign(self, *partitions: str) -> None:
        self.call("assign", partitions=partitions)

    def poll(self, count: int = 1, *, timeout_ms: int = 30_000) -> list[JavaRecord]:
        """Polls for `count` records until the time is up; returns all it got."""
        return _records(self.call("poll", count=count, timeoutMs=timeout_ms))

    def start_awaiting_assignment(self, count: int, *, timeout_ms: int = 60_000) -> "Future[Json]":
        """Polls in the background until `count` partitions are assigned; the future holds them."""
        return self.start("awaitAssignment", count=count, timeoutMs=timeout_ms)

    def await_assignment(self, count: int) -> Json:
        return self.start_awaiting_assignment(count).result(CALL_TIMEOUT_SECONDS)


def _driver_classpath(version: str) -> str:
    libraries = maven.classpath(f"org.apache.kafka:kafka-clients:{version}", *LIBRARIES)
    return compiled(f"driver-{version}", sorted(DRIVER.glob("*.java")), libraries)


def _outcome(outcome: Json) -> Json:
    if (error := outcome.get("error")) is not None:
        return JavaError(error["class"], error["message"])
    return outcome["ok"]


def _records(answer: Json) -> list[JavaRecord]:
    return [
        JavaRecord(
            topic=record["topic"],
            partition=record["partition"],
            offset=record["offset"],
            timestamp=record["timestamp"],
            timestamp_type=record["timestampType"],
            leader_epoch=record["leaderEpoch"],
            key=_bytes(record["key"]),
            value=_bytes(record["value"]),
            headers=[(name, _bytes(value)) for name, value in record["headers"]],
        )
        for record in answer
    ]


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)


def _property(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None, "the driver is started with pipes"
    return stream
