"""A cluster in a process that runs out of descriptors, of disk space, or of write permission.

Each case runs in a separate process, for example `python -m tests.cluster.scarcity descriptors`,
because limits and mounts apply to the whole process. The limits are real ones, set by the kernel.
The tests observe what clients observe: Kafka's error codes, a broker that keeps running, and no
loss.
"""

import itertools
import logging
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from embedkafka import ConfigError, EmbeddedKafka, OwnedBroker
from embedkafka.cluster.lifecycle.lifecycle import BrokerState
from embedkafka.wire.protocol.errors import ErrorCode
from tests.cluster.traffic import assert_nothing_lost, make_producer, sending
from tests.wire.clients import eventually
from tests.wire.one_partition import batch, fetch, produce
from tests.wire.raw_client import RawClient

SMALL_DISK = 6 * 1024 * 1024
SMALL_FILE = 1024 * 1024
BALLAST_SIZE = 100_000
BALLAST = batch(bytes(BALLAST_SIZE))


def connect(handle: OwnedBroker) -> RawClient:
    host, port = handle.address.split(":")
    return RawClient(host, int(port))


def error_of(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)


# -- descriptors


LOWEST_FREE = os.dup(0)
"""The clusters' descriptors are above it."""


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Lets this process open no file or socket, even when another thread closes one of a cluster's.

    What an import had open below `LOWEST_FREE` may have been closed since then.
    """
    with descriptor_limit(LOWEST_FREE), no_gaps():
        yield


@contextmanager
def one_descriptor_left() -> Iterator[None]:
    with descriptor_limit(max(map(int, os.listdir("/proc/self/fd"))) + 2), no_gaps() as fillers:
        os.close(fillers.pop())
        yield


@contextmanager
def no_gaps() -> Iterator[list[int]]:
    """Occupies every descriptor below the limit."""
    fillers: list[int] = []
    with suppress(OSError):
        while True:
            fillers.append(os.dup(0))
    try:
        yield fillers
    finally:
        for descriptor in fillers:
            os.close(descriptor)


@contextmanager
def descriptor_limit(limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Warnings(logging.Handler):
    """Collects the acceptors' warnings: an acceptor that spins would warn without end."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


NO_CHECKPOINTS = {
    "replica.high.watermark.checkpoint.interval.ms": 1_000_000_000,
    "log.flush.offset.checkpoint.interval.ms": 1_000_000_000,
    "log.flush.start.offset.checkpoint.interval.ms": 1_000_000_000,
}
"""Background work that would take the last descriptor for a moment."""


def without_descriptors(data_dir: Path) -> None:
    """Requests that need a file or a socket fail, and succeed once descriptors are free again."""
    with EmbeddedKafka(brokers=3, data_dir=data_dir, config=NO_CHECKPOINTS) as kafka:
        kafka.topic("orders", replication=3, config={"segment.bytes": 1000})  # one batch in each
        with connect(kafka.broker(kafka.existing_topic("orders").leader())) as client:
            fetch(client, "orders", 0)  # imports the API, which opens files
            assert_turns_connections_away(kafka, client)
            for number in range(8):
                assert error_of(produce(client, "orders", batch(b"%d" % number * 700))) == 0
            with no_descriptors_left():
                # The broker can neither create a segment nor open a closed one.
                refused = error_of(produce(client, "orders", batch(b"8" * 700)))
                assert refused is ErrorCode.KAFKA_STORAGE_ERROR, refused
                assert error_of(fetch(client, "orders", 0)) is ErrorCode.KAFKA_STORAGE_ERROR
                assert error_of(fetch(client, "orders", 7)) is ErrorCode.NONE
            assert error_of(produce(client, "orders", batch(b"8" * 700))) is ErrorCode.NONE
        assert all(handle.state is BrokerState.RUNNING for handle in kafka.brokers)
        kafka.await_no_under_replicated()
        values = [message.text for message in kafka.existing_topic("orders").read()]
        assert values == [str(number) * 700 for number in range(9)]
    with EmbeddedKafka(brokers=3, data_dir=data_dir) as kafka:
        assert len(kafka.existing_topic("orders").read()) == 9


def assert_turns_connections_away(kafka: EmbeddedKafka, client: RawClient) -> None:
    warnings = Warnings()
    acceptor = logging.getLogger("embedkafka.wire.net.acceptor")
    acceptor.addHandler(warnings)
    host, port = kafka.broker(kafka.existing_topic("orders").leader()).address.split(":")
    tried = 5
    with one_descriptor_left():
        for _ in range(tried):
            with socket.create_connection((host, int(port)), timeout=30) as unlucky:
                assert unlucky.recv(1) == b""
        assert error_of(fetch(client, "orders", 0)) is ErrorCode.NONE  # open connections still work
    assert len(warnings.texts) == tried, warnings.texts
    acceptor.removeHandler(warnings)
    with RawClient(host, int(port)) as lucky:
        assert error_of(fetch(lucky, "orders", 0)) is ErrorCode.NONE


# -- disks


def full_disk(data_dir: Path) -> None:
    """Fills a broker's only disk: it dies, as Kafka does, and restarts with more space."""
    mount(data_dir / "broker-2", SMALL_DISK)
    with EmbeddedKafka(brokers=3, data_dir=data_dir) as kafka:
        orders = kafka.topic("orders", partitions=3, replication=3)
        kafka.topic("ballast", partitions=3, replication=3)
        handle = kafka.broker(2)
        with sending(kafka, "orders", partitions=3) as sender:
            sender.await_acks(30)
            with pouring(kafka, "ballast", partitions=3):
                eventually(lambda: handle.state is BrokerState.KILLED, "broker 2 is dead")
            for partition in range(3):
                assert orders.await_leader(partition) != 2
            sender.await_acks(30)
            mount(data_dir / "broker-2", 100 * SMALL_DISK, "remount")
            handle.start()
            kafka.await_no_under_replicated()
            sender.await_acks(30)
        assert sender.errors == []
        assert_nothing_lost(kafka, sender)


def full_second_disk(data_dir: Path) -> None:
    """Fills one of two disks: its replicas go offline, and the broker keeps serving the rest."""
    mount(data_dir / "broker-2-2", SMALL_DISK)
    with EmbeddedKafka(brokers=3, log_dirs=2, data_dir=data_dir) as kafka:
        orders = kafka.topic("orders", partitions=6, replication=3)
        kafka.topic("ballast", partitions=6, replication=3)
        handle = kafka.broker(2)
        with sending(kafka, "orders", partitions=6) as sender:
            sender.await_acks(60)
            with pouring(kafka, "ballast", partitions=6):
                eventually(lambda: lost_directories(handle), "a directory of broker 2 is lost")
            assert lost_directories(handle) == [data_dir / "broker-2-2"]
            assert handle.state is BrokerState.RUNNING
            sizes = [len(orders.partition(n).isr) for n in range(6)]
            assert 3 in sizes
            for partition in range(6):
                orders.await_leader(partition)
            sender.await_acks(60)
            mount(data_dir / "broker-2-2", 100 * SMALL_DISK, "remount")
            handle.restart()
            kafka.await_no_under_replicated()
        assert sender.errors == []
        assert_nothing_lost(kafka, sender)


def read_only_disk(data_dir: Path) -> None:
    """A disk that is read-only at start is left out; with no other disk, the start fails."""
    mount(data_dir, 100 * SMALL_DISK)
    mount(data_dir / "broker-1-2", SMALL_DISK)
    with EmbeddedKafka(log_dirs=2, data_dir=data_dir, topics={"a": 1, "b": 1}) as kafka:
        for topic in ("a", "b"):
            kafka.existing_topic(topic).send("before")
    mount(data_dir / "broker-1-2", SMALL_DISK, "remount", "ro")
    with EmbeddedKafka(log_dirs=2, data_dir=data_dir) as kafka:
        one_of_two = {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
        with connect(kafka.broker(1)) as client:
            assert {error_of(produce(client, topic, batch(b"x"))) for topic in "ab"} == one_of_two
            assert {error_of(fetch(client, topic, 0)) for topic in "ab"} == one_of_two
        assert lost_directories(kafka.broker(1)) == [data_dir / "broker-1-2"]
    mount(data_dir, 100 * SMALL_DISK, "remount", "ro")
    for path in (data_dir, data_dir / "deeper"):
        with pytest.raises(ConfigError, match=f"{path}.*Read-only file system"):
            EmbeddedKafka(data_dir=path).start()


def small_files(data_dir: Path) -> None:
    """Limits the size of files: a write fails half-way, and acknowledged records stay."""
    with EmbeddedKafka(log_dirs=2, data_dir=data_dir) as kafka:
        kafka.topic("ballast", partitions=2)
        with connect(kafka.broker(1)) as client:
            resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_FILE, resource.RLIM_INFINITY))
            acked = 0
            while (error := error_of(produce(client, "ballast", BALLAST))) is ErrorCode.NONE:
                acked += 1
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )
            assert error is ErrorCode.KAFKA_STORAGE_ERROR
            assert error_of(fetch(client, "ballast", 0)) is ErrorCode.KAFKA_STORAGE_ERROR
            assert error_of(produce(client, "ballast", BALLAST, partition=1)) is ErrorCode.NONE
        assert kafka.broker(1).state is BrokerState.RUNNING
        kafka.broker(1).restart()
        kafka.await_no_under_replicated()
        found = [message.partition for message in kafka.existing_topic("ballast").read()]
        assert found.count(0) == acked
        assert found.count(1) == 1


def lost_directories(handle: OwnedBroker) -> list[Path]:
    logs = handle._lifecycle.require_broker().logs
    live = logs.live_directories
    return [path for path in logs.directories if path not in live]


def mount(path: Path, size: int, *options: str) -> None:
    """Mounts a file system in the process's mount namespace, so it disappears with the process."""
    path.mkdir(parents=True, exist_ok=True)
    chosen = ",".join([f"size={size}", *options])
    subprocess.run(["mount", "-t", "tmpfs", "-o", chosen, "tmpfs", path], check=True)


@contextmanager
def pouring(kafka: EmbeddedKafka, topic: str, *, partitions: int) -> Iterator[None]:
    """Sends large records in the background and ignores their outcome."""
    ended = threading.Event()
    producer = make_producer(kafka)

    def pour() -> None:
        for number in itertools.count():
            if ended.is_set():
                return
            with suppress(BufferError):
                producer.produce(topic, bytes(BALLAST_SIZE), partition=number % partitions)
            producer.poll(0.01)

    thread = threading.Thread(target=pour)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        producer.purge()
        producer.flush(30)


WAYS = {
    "descriptors": without_descriptors,
    "full-disk": full_disk,
    "full-second-disk": full_second_disk,
    "read-only-disk": read_only_disk,
    "small-files": small_files,
}

if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(threadName)s %(name)s %(message)s")
    WAYS[sys.argv[1]](Path(sys.argv[2]))
