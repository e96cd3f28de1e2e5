"""A cluster leaves no trace, and reports failures inside it."""

import os
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from embedkafka import BackgroundFailure, ConfigError, EmbeddedKafka, EmbedKafkaError, TopicSpec
from embedkafka.runtime.addresses import parse_address
from tests.cluster.footprint import our_directories
from tests.doubles.own_threads import OwnThreads
from tests.java_tools.ports import free_row


@pytest.fixture(autouse=True)
def private_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out clusters that other processes start and end at the same time."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_nothing_outlives_a_cluster(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "tests.cluster.footprint"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=True,
        timeout=120,
    )


def test_closing_twice_does_nothing() -> None:
    kafka = EmbeddedKafka().start()
    kafka.close()
    kafka.close()
    kafka.check()


def test_a_cluster_starts_once() -> None:
    with EmbeddedKafka() as kafka, pytest.raises(EmbedKafkaError, match="started before"):
        kafka.start()


def test_two_clusters_do_not_meet() -> None:
    with EmbeddedKafka(brokers=2) as one, EmbeddedKafka(brokers=2) as other:
        one.topic("orders").send("for one")
        other.topic("orders").send("for the other")
        assert one.cluster_id != other.cluster_id
        assert [m.text for m in one.existing_topic("orders").read()] == ["for one"]
        assert [m.text for m in other.existing_topic("orders").read()] == ["for the other"]


def test_a_failure_in_the_background_fails_the_test() -> None:
    with pytest.raises(BackgroundFailure, match="disk on fire"), EmbeddedKafka() as kafka:
        kafka._failures.record("thread ek-b1-test", OSError("disk on fire"))


def test_an_exception_in_the_body_is_not_replaced() -> None:
    with pytest.raises(KeyError, match="mine"), EmbeddedKafka() as kafka:
        kafka._failures.record("thread ek-b1-test", OSError("disk on fire"))
        raise KeyError("mine")


def test_topics_are_there_when_the_cluster_is() -> None:
    spec = TopicSpec(partitions=2, replication=2, config={"retention.ms": 1000})
    with EmbeddedKafka(brokers=2, topics={"orders": 6, "prices": spec}) as kafka:
        text = kafka.describe()
    assert "orders-5" in text
    assert "prices-1" in text


def test_a_topic_that_exists_is_an_error_that_names_it() -> None:
    with EmbeddedKafka(topics={"orders": 1}) as kafka:
        with pytest.raises(EmbedKafkaError, match="orders: TOPIC_ALREADY_EXISTS"):
            kafka.topic("orders")
        with pytest.raises(ConfigError, match="Unknown topic config name: retention"):
            kafka.topic("prices", config={"retention": 1})


def test_brokers_use_the_ports_from_a_fixed_one_on_whatever_happens_to_them() -> None:
    port = free_row(3)
    addresses = ",".join(f"127.0.0.1:{port + place}" for place in range(3))
    with EmbeddedKafka(brokers=3, port=port) as kafka:
        assert kafka.bootstrap_servers == addresses
        filled = kafka.snapshot()
        with kafka.isolated():
            kafka.broker(1).kill()
            kafka.broker(1).start()
            kafka.broker(2).restart()
            assert kafka.bootstrap_servers == addresses
            kafka.broker(3).kill()
            kafka.broker(1).pause()
        assert kafka.bootstrap_servers == addresses
        kafka.broker(1).kill()
        kafka.restore(filled)
        assert kafka.bootstrap_servers == addresses
        kafka.broker(2).stop()
        kafka.reset()
        assert kafka.bootstrap_servers == addresses


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_dead_brokers_address_refuses_at_once_and_its_connections_end(end: str) -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        address = parse_address(kafka.broker(1).address)
        with socket.create_connection(address, timeout=10) as connection:
            getattr(kafka.broker(1), end)()
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=10)


def test_ids_and_what_clients_are_told_follow_the_settings_of_a_broker() -> None:
    config = {"broker.id": 0, "advertised.listeners": "PLAINTEXT://localhost:9092"}
    with EmbeddedKafka(brokers=2, config=config) as kafka:
        orders = kafka.topic("orders", partitions=2, replication=2)
        assert [handle.id for handle in kafka.brokers] == [0, 1]
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        ports = [int(handle.address.rpartition(":")[2]) for handle in kafka.brokers]
        brokers = admin.list_topics(timeout=30).brokers.values()
        told: dict[int, tuple[Any, int]] = {b.id: (b.host, b.port) for b in brokers}  # mistyped
        assert told == {0: ("localhost", ports[0]), 1: ("localhost", ports[1])}
        kafka.broker(orders.leader(0)).kill()
        orders.await_isr(0, size=1)
        orders.send("after", partition=0)
        assert "leader none" not in str(orders.partition(0))


def test_a_port_in_use_is_an_error_and_leaves_nothing_behind() -> None:
    own_threads, directories = OwnThreads(), our_directories()
    with EmbeddedKafka() as kafka:
        port = int(kafka.bootstrap_servers.rpartition(":")[2])
        with pytest.raises(ConfigError, match="is in use: choose another `port`"):
            EmbeddedKafka(port=port).start()
        assert kafka.topic().send("still there").offset == 0
    assert (own_threads.names(), our_directories()) == ([], directories)
