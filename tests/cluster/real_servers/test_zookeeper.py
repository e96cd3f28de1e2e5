"""Brokers on a real ZooKeeper: three processes that replicate over the wire and lose nothing.

One ZooKeeper and one cluster of processes serve the whole module; `kafka` is that cluster, healed.
"""

import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from embedkafka import ConfigError, EmbeddedKafka, EmbedKafkaError, cli
from embedkafka.cluster import broker_process
from embedkafka.cluster.broker_process import BrokerProcess
from embedkafka.runtime.properties import format_properties
from embedkafka.security.certificates import CertificateAuthority
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.zk import paths
from tests.cluster.processes import PATIENCE_S, SESSION_TIMEOUT_MS, Processes
from tests.cluster.traffic import assert_nothing_lost, make_consumer, make_producer, sending
from tests.doubles.own_threads import OwnThreads
from tests.java_tools.zookeeper import ZooKeeperServer
from tests.presence import present

pytestmark = [pytest.mark.java, pytest.mark.gate]


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture(scope="module")
def processes(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Processes]:
    hosts = f"{zookeeper.connect_string}/made/by/brokers"
    cluster = Processes(hosts, tmp_path_factory.mktemp("processes"))
    try:
        cluster.spawn(1, 2, 3)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def kafka(processes: Processes) -> Processes:
    processes.heal()
    return processes


def test_processes_form_a_cluster_that_replicates_and_serves_groups(kafka: Processes) -> None:
    assert kafka.zk.brokers().keys() == {1, 2, 3}
    kafka.topic("first", partitions=3)
    with sending(kafka, "first", partitions=3) as sender:
        sender.await_acks(300)
    assert sender.errors == []
    assert_nothing_lost(kafka, sender)
    consumer = make_consumer(kafka, **{"session.timeout.ms": 10_000})
    consumer.subscribe(["first"])
    seen = set()
    while len(seen) < sender.count:
        seen |= {m.value() for m in consumer.consume(1000, 1.0) if m.error() is None}
    consumer.commit(asynchronous=False)
    consumer.close()
    kafka.await_fact(
        lambda: (
            kafka.segments(1, "first") == kafka.segments(2, "first") == kafka.segments(3, "first")
        ),
        "three equal logs",
    )


def test_a_killed_leader_takes_nothing_acknowledged_along_and_rejoins(kafka: Processes) -> None:
    kafka.topic("orders", partitions=3)
    with sending(kafka, "orders", partitions=3) as sender:
        sender.await_acks(100)
        dead = kafka.status("orders").leader
        kafka.kill(dead)
        assert kafka.await_leader("orders", other_than=dead) != dead
        kafka.await_isr("orders", 2)
        sender.await_acks(100)
        kafka.spawn(dead)
        kafka.await_isr("orders", 3)
        sender.await_acks(100)
    assert sender.errors == []
    assert_nothing_lost(kafka, sender)


def test_another_process_becomes_controller_and_does_its_work(kafka: Processes) -> None:
    kafka.topic("before")
    first, epoch = kafka.zk.find_controller_id(), kafka.zk.controller_epoch()[0]
    kafka.kill(present(first))
    kafka.await_fact(
        lambda: kafka.zk.find_controller_id() not in (None, first), "another controller"
    )
    assert kafka.zk.controller_epoch()[0] > epoch
    kafka.spawn(present(first))
    kafka.topic("after")
    kafka.await_isr("before", 3)
    kafka.await_isr("after", 3)


def test_a_broker_that_stood_still_until_its_session_expired_registers_again_and_serves(
    kafka: Processes,
) -> None:
    kafka.topic("paused")
    with sending(kafka, "paused") as sender:
        sender.await_acks(50)
        paused = kafka.status("paused").leader
        before = kafka.zk.brokers()[paused][1]
        kafka.signal(paused, signal.SIGSTOP)
        kafka.await_leader("paused", other_than=paused)
        sender.await_acks(50)
        kafka.signal(paused, signal.SIGCONT)
        epoch = kafka.await_fact(
            lambda: kafka.zk.brokers().get(paused, (None, None))[1], "the broker to register again"
        )
        assert epoch > before
        kafka.await_isr("paused", 3)
        other = kafka.status("paused").leader
        kafka.kill(other)
        kafka.await_leader("paused", other_than=other)
        sender.await_acks(50)
    assert sender.errors == []
    assert_nothing_lost(kafka, sender)


def test_nothing_is_lost_when_zookeeper_stands_still_for_longer_than_sessions_last(
    kafka: Processes, zookeeper: ZooKeeperServer
) -> None:
    kafka.topic("timeless", partitions=3)
    with sending(kafka, "timeless", partitions=3) as sender:
        sender.await_acks(50)
        os.kill(zookeeper.pid, signal.SIGSTOP)
        time.sleep(2 * SESSION_TIMEOUT_MS / 1000)  # a stopped server cannot tell us
        os.kill(zookeeper.pid, signal.SIGCONT)
        # ZooKeeper decides which sessions expire and which survive.
        kafka.await_fact(lambda: kafka.zk.brokers().keys() == {1, 2, 3}, "three brokers")
        sender.await_acks(50)
    assert sender.errors == []
    kafka.heal()
    assert_nothing_lost(kafka, sender)


def test_transactions_span_leaders_in_several_processes(kafka: Processes) -> None:
    kafka.topic("debits", partitions=3)
    kafka.topic("credits", partitions=3)
    producer = make_producer(kafka, **{"transactional.id": "transfers"})
    producer.init_transactions(PATIENCE_S)
    for number, end in enumerate(["commit", "abort", "commit"]):
        producer.begin_transaction()
        for partition in range(3):
            for topic in ("debits", "credits"):
                producer.produce(topic, f"{end}-{number}", partition=partition)
        producer.flush(PATIENCE_S)
        getattr(producer, f"{end}_transaction")(PATIENCE_S)
    for topic in ("debits", "credits"):
        messages = kafka.existing_topic(topic).read()
        values = sorted(present(message.text) for message in messages)
        assert values == ["commit-0"] * 3 + ["commit-2"] * 3


def test_sigterm_moves_leaders_before_the_broker_leaves(kafka: Processes) -> None:
    kafka.topic("leaving", partitions=6)
    leaving = kafka.status("leaving").leader
    leaders_at_the_end, gone = [], threading.Event()

    def on_gone(event: Any) -> None:
        leaders_at_the_end.extend(kafka.status("leaving", p).leader for p in range(6))
        gone.set()

    assert kafka.zk.store.exists(paths.broker(leaving), on_gone)
    with sending(kafka, "leaving", partitions=6) as sender:
        sender.await_acks(50)
        assert kafka.terminate(leaving) == 0
        sender.await_acks(50)
    assert gone.wait(20)
    assert leaving not in leaders_at_the_end
    assert None not in leaders_at_the_end
    assert sender.errors == []
    assert_nothing_lost(kafka, sender)


def test_a_former_leader_gives_up_what_no_follower_had(kafka: Processes) -> None:
    kafka.topic("diverging").send("kept")
    kafka.await_isr("diverging", 3)
    former = kafka.status("diverging").leader
    followers = {1, 2, 3} - {former}
    for follower in followers:
        kafka.signal(follower, signal.SIGSTOP)
    for number in range(4):  # the first may complete fetches that were waiting
        answer = kafka.produce_to(former, "diverging", b"lost-%d" % number)
        assert answer is ErrorCode.NONE
    kafka.kill(former)
    for follower in followers:
        kafka.signal(follower, signal.SIGCONT)
    leader = kafka.await_leader("diverging", other_than=former)
    kafka.existing_topic("diverging").send("after")
    assert any(b"lost-3" in data for data in kafka.segments(former, "diverging").values())
    kafka.spawn(former)
    kafka.await_isr("diverging", 3)
    values = [message.text for message in kafka.existing_topic("diverging").read()]
    assert values[0] == "kept"
    assert values[-1] == "after"
    assert "lost-3" not in values
    kafka.await_fact(
        lambda: kafka.segments(former, "diverging") == kafka.segments(leader, "diverging"),
        "the same log again",
    )


def test_a_second_broker_with_the_same_id_is_refused(
    kafka: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(broker_process, "PATIENCE_MS", 500)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own_threads = OwnThreads()
    second = BrokerProcess(
        zookeeper=kafka.zookeeper, broker_id=1, config={"zookeeper.session.timeout.ms": 4_000}
    )
    registered = f"another broker with id 1 is registered in {kafka.zookeeper}"
    with pytest.raises(EmbedKafkaError, match=registered):
        second.start()
    assert own_threads.names() == []
    assert list(tmp_path.iterdir()) == []
    assert kafka.zk.brokers().keys() == {1, 2, 3}


def test_a_zookeeper_that_is_not_there_ends_the_command_with_its_address(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--id", "1", "--config", "zookeeper.connection.timeout.ms=300"]
    with socket.socket() as held:  # nobody else gets its port
        held.bind(("127.0.0.1", 0))
        hosts = f"127.0.0.1:{held.getsockname()[1]}"
        assert cli.main(["broker", "--zookeeper", hosts, *options]) == 1
    assert f"no ZooKeeper answers at {hosts}" in capsys.readouterr().err


# -- brokers in this process, on the same ZooKeeper

IN_PROCESS = {"zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS}


def test_brokers_in_this_process_meet_in_a_real_zookeeper_and_survive_a_kill(
    zookeeper: ZooKeeperServer,
) -> None:
    own_threads = OwnThreads()
    hosts = f"{zookeeper.connect_string}/embedded"
    with EmbeddedKafka(brokers=3, zookeeper=hosts, config=IN_PROCESS) as kafka:
        orders = kafka.topic("orders", partitions=3, replication=3)
        with sending(kafka, "orders", partitions=3) as sender:
            sender.await_acks(50)
            dead = orders.leader()
            kafka.broker(dead).kill()
            assert orders.await_leader() != dead
            sender.await_acks(50)
            kafka.broker(dead).start()
            kafka.await_no_under_replicated()
        assert sender.errors == []
        assert_nothing_lost(kafka, sender)
    assert own_threads.names() == []


def test_a_broker_cut_off_from_a_real_zookeeper_is_replaced_until_it_is_back(
    zookeeper: ZooKeeperServer,
) -> None:
    hosts = f"{zookeeper.connect_string}/cut"
    with EmbeddedKafka(brokers=3, zookeeper=hosts, config=IN_PROCESS) as kafka:
        orders = kafka.topic("orders", replication=3)
        orders.send("before")
        alone = orders.leader()
        kafka.brokers.partition({alone}, {1, 2, 3} - {alone})
        assert orders.await_leader() != alone
        orders.await_isr(size=2)
        kafka.brokers.heal()
        kafka.await_no_under_replicated()
        assert [m.text for m in orders.read()] == ["before"]


def test_a_later_cluster_finds_what_zookeeper_and_the_directory_have_kept(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    hosts = f"{zookeeper.connect_string}/kept"

    def cluster() -> EmbeddedKafka:
        return EmbeddedKafka(zookeeper=hosts, data_dir=tmp_path, config=IN_PROCESS)

    with cluster() as first:
        first.topic("orders").send("kept")
        cluster_id = first.cluster_id
    with cluster() as second:
        assert second.cluster_id == cluster_id
        assert [m.text for m in second.existing_topic("orders").read()] == ["kept"]
    assert [path.name for path in tmp_path.iterdir()] == ["broker-1"]


def test_without_kazoo_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(ConfigError, match=r"embedkafka\[zookeeper\]"):
        EmbeddedKafka(zookeeper="localhost:2181").start()


def test_brokers_in_separate_processes_log_in_to_each_other_over_tls(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    """Followers, controller and clients all use SASL_SSL; the plain listener is an extra."""
    (tmp_path / "data").mkdir()
    authority = CertificateAuthority(datetime.now(UTC))
    (tmp_path / "ca.pem").write_text(authority.trusted)
    (tmp_path / "broker.pem").write_text(authority.issue("broker", ["127.0.0.1"]))
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = f'{module} required username="admin" password="x y";'
    properties = tmp_path / "server.properties"
    properties.write_text(
        format_properties(
            {
                "listeners": "SAFE://:0,PLAIN://:0",
                "listener.security.protocol.map": "SAFE:SASL_SSL,PLAIN:PLAINTEXT",
                "inter.broker.listener.name": "SAFE",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
                "listener.name.safe.scram-sha-512.sasl.jaas.config": login,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(tmp_path / "broker.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(tmp_path / "ca.pem"),
            }
        )
    )
    processes = Processes(
        f"{zookeeper.connect_string}/secured", tmp_path / "data", properties=properties
    )
    try:
        processes.spawn(1, 2, 3)
        config: dict[str, Any] = {
            "bootstrap.servers": processes.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": "x y",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "log_level": 0,
        }
        admin = AdminClient(config)
        admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result(PATIENCE_S)
        producer = Producer({**config, "acks": "all"})
        producer.produce("orders", b"on all three")
        assert producer.flush(PATIENCE_S) == 0
        processes.await_isr("orders", size=3)
    finally:
        processes.close()
