"""A Kafka Streams job with exactly_once_v2, killed and restarted, counts each word once."""

import itertools
import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from embedkafka import EmbeddedKafka
from tests.java_tools import maven
from tests.java_tools.compiler import compiled
from tests.java_tools.java_client import RELEASES
from tests.java_tools.jvm import QUICK_START, JavaProcess

pytestmark = [pytest.mark.java, pytest.mark.gate]

WORDS: Final = ("to", "be", "or", "not", "that", "is", "the", "question")
PARTITIONS: Final = 2
DEADLINE_SECONDS: Final = 60.0


class Counting:
    """The word count as a process that can be killed; its topics stay."""

    def __init__(self, bootstrap_servers: str, directory: Path) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._directory = directory
        self._lives = itertools.count(1)
        self._process: JavaProcess | None = None

    def start(self, *, commit_interval_ms: int) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap_servers,
            "application.id": "word-count",
            "processing.guarantee": "exactly_once_v2",
            # The same directory gives the same process id, and so the same transactional ids.
            "state.dir": str(self._directory / "state"),
            "commit.interval.ms": str(commit_interval_ms),
            "statestore.cache.max.bytes": "0",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": "2000",
            "heartbeat.interval.ms": "300",
            "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
            "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
        }
        self._process = JavaProcess(
            [
                *QUICK_START,
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                *("-cp", word_count_classpath(), "WordCount", "lines", "counts"),
                *(f"{name}={value}" for name, value in settings.items()),
            ],
            log=self._directory / f"streams-{next(self._lives)}.out",
        )

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, no transaction ends, no member leaves the group."""
        if self._process is not None:
            self._process.kill()

    def report(self) -> str:
        return "" if self._process is None else self._process.log_tail()


class Counts:
    """The records of the output topic, as a consumer with this isolation level sees them."""

    def __init__(self, bootstrap_servers: str, isolation_level: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "not-used",
                "isolation.level": isolation_level,
                "auto.offset.reset": "earliest",
            }
        )
        partitions = [TopicPartition("counts", number, 0) for number in range(PARTITIONS)]
        self._consumer.assign(partitions)
        self.seen: dict[str, list[int]] = {}

    @property
    def total(self) -> int:
        return sum(map(len, self.seen.values()))

    def await_total(self, total: int, counting: Counting) -> None:
        """Reads until there are `total` counts."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self.total < total:
            assert time.monotonic() < deadline, (
                f"read {self.total} of {total} counts\n{counting.report()}"
            )
            self._take(timeout_s=0.1)

    def drain(self) -> None:
        """Reads to the end."""
        while self._take(timeout_s=0.5):
            pass

    def _take(self, *, timeout_s: float) -> bool:
        messages = self._consumer.consume(500, timeout=timeout_s)
        for message in messages:
            assert message.error() is None, message.error()
            (count,) = struct.unpack(">q", message.value() or b"")
            self.seen.setdefault((message.key() or b"").decode(), []).append(count)
        return bool(messages)

    def close(self) -> None:
        self._consumer.close()


def word_count_classpath() -> str:
    libraries = maven.classpath(
        f"org.apache.kafka:kafka-streams:{RELEASES['4']}", "org.slf4j:slf4j-simple:1.7.36"
    )
    return compiled("word-count", [Path(__file__).with_name("WordCount.java")], libraries)


def send(kafka: EmbeddedKafka, lines: range) -> Counter[str]:
    """Sends numbered lines and returns the words in them."""
    sent: Counter[str] = Counter()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0})
    for number in lines:
        words = [WORDS[(number * step) % len(WORDS)] for step in (1, 3, 5)]
        producer.produce("lines", " ".join(words), partition=number % PARTITIONS)
        sent.update(words)
    assert producer.flush(30) == 0
    return sent


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3, topics={"lines": PARTITIONS, "counts": PARTITIONS}) as cluster:
        yield cluster


def test_a_word_count_that_is_killed_and_restarted_counts_every_word_once(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    counting = Counting(kafka.bootstrap_servers, tmp_path)
    committed = Counts(kafka.bootstrap_servers, "read_committed")
    written = Counts(kafka.bootstrap_servers, "read_uncommitted")
    try:
        counting.start(commit_interval_ms=3000)
        sent = send(kafka, range(100))
        committed.await_total(30, counting)
        # The next commit is seconds away, so anything sent now is in an open transaction.
        sent += send(kafka, range(100, 300))
        written.await_total(committed.total + 60, counting)
        counting.kill()
        sent += send(kafka, range(300, 400))
        counting.start(commit_interval_ms=100)
        committed.await_total(sent.total(), counting)
        committed.drain()
        written.drain()
    finally:
        counting.kill()
        committed.close()
        written.close()
    assert committed.seen == {word: list(range(1, count + 1)) for word, count in sent.items()}
    assert written.total > committed.total, "the kill did not hit an open transaction"
