"""`data_dir` keeps everything through a kill, and only one cluster at a time can use it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from embedkafka import DirectoryInUse, EmbeddedKafka
from tests.cluster.traffic import make_consumer, make_producer, send
from tests.java_tools.jvm import dies_with_parent
from tests.presence import present

PATIENCE_S = 60.0
LIVES = 3
ACKNOWLEDGED_IN_A_LIFE = 400


@contextmanager
def served(data_dir: Path, brokers: Any) -> Iterator[SimpleNamespace]:
    """`embedkafka serve` in a process that is killed with SIGKILL at the end."""
    process = subprocess.Popen(
        [
            *dies_with_parent(),
            *(sys.executable, "-m", "embedkafka.cli", "serve", "--stay"),
            *("--data-dir", str(data_dir), "--brokers", str(brokers)),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = present(process.stdout).readline()
        assert line.startswith("BOOTSTRAP "), "serve did not start"
        yield SimpleNamespace(bootstrap_servers=line.split()[1], kill=process.kill)
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        present(process.stdout).close()


class Witness:
    """Keeps a cluster busy from one kill to the next, and knows what was acknowledged."""

    def __init__(self, brokers: Any) -> None:
        self.brokers = brokers
        self.cluster_ids = set()
        self.topics = []
        self.acknowledged = set()
        self.committed_values = []
        self.committed_offset = 0

    def live(self, kafka: Any, life: object) -> None:
        """Uses the cluster until it is killed with records and a transaction in flight."""
        self.create_topic(kafka, f"life-{life}")
        transactional = make_producer(kafka, **{"transactional.id": "payments"})
        transactional.init_transactions(PATIENCE_S)
        for number in range(3):
            self.pay(transactional, f"{life}-{number}")
        self.commit_offset(kafka, self.committed_offset + 7)
        transactional.begin_transaction()
        send(transactional, "payments", f"undecided {life}".encode())
        self.produce_until_killed(kafka, life)

    def create_topic(self, kafka: Any, name: str, partitions: int = 1) -> None:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        new = NewTopic(name, partitions, self.brokers)
        admin.create_topics([new])[name].result(PATIENCE_S)
        self.topics.append(name)

    def pay(self, producer: Any, value: Any) -> None:
        producer.begin_transaction()
        send(producer, "payments", value.encode())
        producer.commit_transaction(PATIENCE_S)
        self.committed_values.append(value.encode())

    def commit_offset(self, kafka: EmbeddedKafka, offset: int) -> None:
        consumer = make_consumer(kafka)
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
        consumer.close()
        self.committed_offset = offset

    def produce_until_killed(self, kafka: Any, life: object) -> None:
        acknowledged = []
        producer = make_producer(kafka)

        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                acknowledged.append(message.value())

        topics = ["orders", f"life-{life}"]
        for number in range(1_000_000):
            value = f"{life}:{number}".encode()
            producer.produce(topics[number % 2], value, partition=0, on_delivery=on_delivery)
            producer.poll(0)
            if number % 10 == 0:
                producer.poll(0.001)
            if len(acknowledged) >= ACKNOWLEDGED_IN_A_LIFE:
                break
        for number in range(100):  # in flight when the cluster dies
            producer.produce("orders", f"{life}:late {number}".encode(), on_delivery=on_delivery)
        kafka.kill()
        producer.purge()
        producer.flush(PATIENCE_S)
        self.acknowledged |= set(acknowledged)

    def check(self, kafka: Any) -> None:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        metadata = admin.list_topics(timeout=PATIENCE_S)
        self.cluster_ids.add(metadata.cluster_id)
        assert len(self.cluster_ids) == 1
        assert set(self.topics) <= metadata.topics.keys()
        lives = [topic for topic in self.topics if topic != "payments"]
        assert self.acknowledged <= {value for topic in lives for value in read(kafka, topic)}
        make_producer(kafka, **{"transactional.id": "payments"}).init_transactions(PATIENCE_S)
        assert read(kafka, "payments") == self.committed_values
        consumer = make_consumer(kafka)
        (position,) = consumer.committed([TopicPartition("orders", 0)], timeout=PATIENCE_S)
        consumer.close()
        assert position.offset == self.committed_offset


def read(kafka: EmbeddedKafka, topic: str) -> list[Any]:
    """The values in partition 0, without those of aborted transactions."""
    consumer = make_consumer(kafka, f"reader of {topic}")
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while end > 0:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, (
            f"no more of {topic} after {len(values)} records; the end is {end}"
        )
        if message.error():  # end of partition: the only sign of trailing markers
            break
        values.append(message.value())
    consumer.close()
    return values


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_process_killed_under_load_loses_nothing_that_it_acknowledged(
    brokers: int, tmp_path: Path
) -> None:
    witness = Witness(brokers)
    for life in range(LIVES):
        with served(tmp_path, brokers) as kafka:
            if life == 0:
                witness.create_topic(kafka, "orders")
                witness.create_topic(kafka, "payments")
            else:
                witness.check(kafka)
            witness.live(kafka, life)
    with EmbeddedKafka(brokers=brokers, data_dir=tmp_path) as kafka:
        kafka.await_no_under_replicated()
        witness.check(kafka)
    assert not list(tmp_path.rglob("*-stray"))
    assert not (tmp_path / "zookeeper.journal").exists()


def test_a_change_is_kept_though_nobody_closed_the_cluster(tmp_path: Path) -> None:
    with served(tmp_path, 1) as kafka:
        witness = Witness(1)
        witness.create_topic(kafka, "orders", partitions=2)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        admin.delete_topics(["orders"])["orders"].result(PATIENCE_S)
        witness.create_topic(kafka, "orders", partitions=3)
    with EmbeddedKafka(data_dir=tmp_path) as kafka:
        assert kafka.existing_topic("orders").partition(2).leader == 1


# -- one cluster at a time


def test_a_second_cluster_of_the_process_is_refused(tmp_path: Path) -> None:
    with EmbeddedKafka(data_dir=tmp_path) as kafka:
        orders = kafka.topic("orders")
        with pytest.raises(DirectoryInUse, match=f"{tmp_path} is in use by this process"):
            EmbeddedKafka(data_dir=tmp_path).start()
        with pytest.raises(DirectoryInUse, match="this process"):
            EmbeddedKafka(data_dir=tmp_path).start()
        orders.send("kept")
    with EmbeddedKafka(data_dir=tmp_path) as kafka:
        assert [message.text for message in kafka.existing_topic("orders").read()] == ["kept"]


def test_another_process_is_refused_and_hears_who_has_it(tmp_path: Path) -> None:
    with EmbeddedKafka(data_dir=tmp_path):
        command = [sys.executable, "-m", "embedkafka.cli", "serve", "--data-dir", str(tmp_path)]
        refused = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert refused.returncode == 1
        assert f"{tmp_path} is in use by process {os.getpid()}" in refused.stderr
        assert (tmp_path / "broker-1" / ".lock").read_text() == f"{os.getpid()}\n"


def test_a_log_directory_that_another_broker_uses_is_refused(tmp_path: Path) -> None:
    with EmbeddedKafka(brokers=2, data_dir=tmp_path) as kafka:
        kafka.broker(2).stop()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "broker-1").symlink_to(tmp_path / "broker-1")
        with pytest.raises(DirectoryInUse, match="broker-1 is in use by this process"):
            EmbeddedKafka(data_dir=tmp_path / "elsewhere").start()
        kafka.broker(2).start()
        kafka.broker(1).kill()
        kafka.broker(1).start()
