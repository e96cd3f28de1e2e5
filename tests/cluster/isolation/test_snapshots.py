"""A test restores a cluster to an earlier state, as often as it likes."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

import confluent_kafka
import pytest

from embedkafka import ConfigError, EmbeddedKafka, EmbedKafkaError, Topic
from embedkafka.cluster.brokers import Brokers
from embedkafka.runtime.files import SystemFiles
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.transactions import InitProducerIdRequest
from tests.cluster.traffic import committed, make_consumer, make_producer, send, sending
from tests.presence import present
from tests.wire.one_partition import batch, produce
from tests.wire.raw_client import RawClient


def commit(kafka: EmbeddedKafka, group: str, topic: str, offset: int) -> None:
    consumer = make_consumer(kafka, group)
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def texts(topic: Topic, isolation: str = "read_committed") -> list[str | None]:
    return [message.text for message in topic.read(isolation=isolation)]


def numbered_batch(
    kafka: EmbeddedKafka, topic: str, producer_id: int, sequence: int
) -> tuple[int, ErrorCode]:
    """Writes a batch with the given sequence number; returns its offset and error."""
    numbers = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
    records = batch(b"numbered", timestamp=kafka.clock.now_ms(), **numbers)
    host, port = kafka.broker(kafka.existing_topic(topic).leader()).address.split(":")
    with RawClient(host, int(port)) as client:
        answer = produce(client, topic, records)
    return answer.base_offset, ErrorCode(answer.error_code)


def test_records_topics_offsets_and_settings_are_put_back(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3, config={"retention.ms": 123_456_789})
    old = kafka.topic("old", partitions=2, replication=3)
    orders.send("a")
    commit(kafka, "readers", "orders", 1)
    cluster_id, addresses = kafka.cluster_id, kafka.bootstrap_servers
    then = kafka.snapshot()
    for text in ("b", "c"):
        orders.send(text)
    commit(kafka, "readers", "orders", 3)
    old.delete()
    kafka.topic("new").send("x")
    orders.add_partitions(2)
    for _ in range(2):
        kafka.restore(then)
        assert texts(orders) == ["a"]
        assert committed(kafka, "readers", "orders") == 1
        assert {p.topic for p in kafka._state.partitions()} >= {"orders", "old"}
        assert "new" not in {p.topic for p in kafka._state.partitions()}
        config = kafka.broker(1)._lifecycle.require_broker().config.log_config("orders")
        assert config.retention_ms == 123_456_789
        assert (kafka.cluster_id, kafka.bootstrap_servers) == (cluster_id, addresses)
        kafka.await_no_under_replicated()
        orders.send("d")
        assert texts(orders) == ["a", "d"]


def test_clients_go_on_after_a_restore(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    orders.send("a")
    producer = make_producer(kafka, **{"enable.idempotence": False})
    consumer = make_consumer(kafka, **{"enable.partition.eof": False})
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    assert consumer.consume(1, 20)[0].value() == b"a"
    then = kafka.snapshot()
    send(producer, "orders", b"forgotten")
    assert consumer.consume(1, 20)[0].value() == b"forgotten"
    kafka.restore(then)
    consumer.seek(confluent_kafka.TopicPartition("orders", 0, 0))
    error, _ = send(producer, "orders", b"b")
    assert error is None
    values = []
    while len(values) < 2:
        values += [m.value() for m in consumer.consume(2, 5) if m.error() is None]
    assert values == [b"a", b"b"]
    consumer.close()


def test_producers_are_remembered_with_their_sequence_numbers(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", replication=3)
    producer_id = 4242
    assert numbered_batch(kafka, "orders", producer_id, 0) == (0, ErrorCode.NONE)
    then = kafka.snapshot()
    assert numbered_batch(kafka, "orders", producer_id, 1) == (1, ErrorCode.NONE)
    kafka.restore(then)
    assert numbered_batch(kafka, "orders", producer_id, 0) == (0, ErrorCode.NONE), (
        "a duplicate was stored"
    )
    assert numbered_batch(kafka, "orders", producer_id, 1) == (1, ErrorCode.NONE)
    refused = numbered_batch(kafka, "orders", producer_id, 7)
    assert refused == (-1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_producer_ids_are_never_given_twice(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", replication=3)
    then = kafka.snapshot()
    numbered = set()
    for _ in range(2):
        for handle in kafka.brokers:
            with RawClient("127.0.0.1", int(handle.address.split(":")[1])) as client:
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
                producer_id = client.call(request, 4).producer_id
            assert producer_id not in numbered
            numbered.add(producer_id)
        kafka.restore(then)


def test_an_open_transaction_is_open_again(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    settings = {"transactional.id": "tx", "request.timeout.ms": 5_000}
    producer = make_producer(kafka, **settings)
    producer.init_transactions(20)
    producer.begin_transaction()
    send(producer, "orders", b"undecided")
    then = kafka.snapshot()
    producer.commit_transaction(20)
    orders.send("after")
    assert texts(orders) == ["undecided", "after"]
    kafka.restore(then)
    assert texts(orders, isolation="read_uncommitted") == ["undecided"]
    successor = make_producer(kafka, **settings)
    successor.init_transactions(20)  # aborts its predecessor's transaction
    successor.begin_transaction()
    send(successor, "orders", b"decided")
    successor.commit_transaction(20)
    assert texts(orders) == ["decided"]


def test_brokers_run_or_not_as_they_did(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    orders.send("a")
    kafka.broker(3).stop()
    orders.await_isr(size=2)
    then = kafka.snapshot()
    kafka.broker(3).start()
    kafka.brokers.add()
    kafka.broker(1).kill()
    orders.send("b")
    kafka.restore(then)
    assert [handle.id for handle in kafka.brokers] == [1, 2, 3]
    assert [handle.is_running for handle in kafka.brokers] == [True, True, False]
    assert texts(orders) == ["a"]
    kafka.broker(3).start()
    orders.await_isr(size=3)


def test_a_partition_of_the_network_is_over_after_a_restore(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    then = kafka.snapshot()
    kafka.brokers.partition({1}, {2, 3})
    orders.await_isr(size=2)
    kafka.restore(then)
    kafka.await_no_under_replicated()
    assert kafka.existing_topic("orders").send("works").offset == 0


def test_failover_after_a_restore_loses_nothing(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    orders.send_many(map(str, range(50)))
    then = kafka.snapshot()
    orders.send("forgotten")
    kafka.restore(then)
    orders.send("50")
    kafka.broker(orders.leader()).kill()
    orders.await_isr(size=2)
    orders.send("51")
    assert texts(orders) == [str(n) for n in range(52)]


def test_what_was_acknowledged_under_load_is_in_the_snapshot(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=3, replication=3)
    with sending(kafka, "orders", partitions=3) as sender:
        sender.await_acks(100)
        acked = {partition: acks[-1][0] for partition, acks in sender.acked.items()}
        then = kafka.snapshot()
        sender.await_acks(100)
    assert not sender.errors
    kafka.restore(then)
    found = {message.partition: message.offset for message in orders.read()}
    assert all(found[partition] >= offset for partition, offset in acked.items())
    assert sum(found.values()) + 3 < sender.count


def test_several_snapshots_are_independent(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3, config={"segment.bytes": 100})
    taken = []
    for text in ("a", "b", "c", "d"):
        orders.send(text)
        taken.append((kafka.snapshot(), texts(orders)))
    for then, expected in [*reversed(taken), *taken]:
        kafka.restore(then)
        assert texts(orders) == expected
        orders.send("other")


def test_a_snapshot_is_of_one_cluster_and_ends_with_it(tmp_path: Path) -> None:
    with EmbeddedKafka(data_dir=tmp_path) as kafka, EmbeddedKafka() as other:
        kafka.topic("orders").send("kept")
        then = kafka.snapshot()
        with pytest.raises(EmbedKafkaError, match="another cluster"):
            other.restore(then)
        kafka.restore(then)
        assert then.directory.exists()
    assert not then.directory.exists()
    assert sorted(os.listdir(tmp_path)) == [".lock", "broker-1", "zookeeper.json"]
    with EmbeddedKafka(data_dir=tmp_path) as again:
        assert texts(again.existing_topic("orders")) == ["kept"]


def test_a_directory_keeps_groups_and_producers_too(tmp_path: Path) -> None:
    with EmbeddedKafka(brokers=3, data_dir=tmp_path) as kafka:
        kafka.topic("orders", replication=3)
        assert numbered_batch(kafka, "orders", 77, 0) == (0, ErrorCode.NONE)
        commit(kafka, "readers", "orders", 1)
        producer = make_producer(kafka, **{"transactional.id": "tx", "request.timeout.ms": 5_000})
        producer.init_transactions(20)
        producer.begin_transaction()
        send(producer, "orders", b"undecided")
    with EmbeddedKafka(brokers=3, data_dir=tmp_path) as kafka:
        assert committed(kafka, "readers", "orders") == 1
        assert numbered_batch(kafka, "orders", 77, 0) == (0, ErrorCode.NONE), (
            "a duplicate was stored"
        )
        assert numbered_batch(kafka, "orders", 77, 1) == (2, ErrorCode.NONE)
        orders = kafka.existing_topic("orders")
        assert len(orders.read(isolation="read_uncommitted")) == 3
        assert len(orders.read()) == 1, "the transaction did not stay open"
        successor = make_producer(kafka, **{"transactional.id": "tx", "request.timeout.ms": 5_000})
        successor.init_transactions(20)
        assert len(orders.read()) == 2


def serve(data_dir: Path, use: Callable[[str], object]) -> None:
    """Runs `embedkafka serve` and calls `use` with its address."""
    command = [sys.executable, "-m", "embedkafka.cli", "serve", "--data-dir", str(data_dir)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as process:
        use(present(process.stdout).readline().removeprefix("BOOTSTRAP ").strip())
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_serve_keeps_its_data_over_runs(tmp_path: Path) -> None:
    def write(address: str) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": address, "log_level": 0})
        assert send(producer, "orders", b"kept")[0] is None

    def read(address: str) -> None:
        settings = {"bootstrap.servers": address, "group.id": "g", "log_level": 0}
        consumer = confluent_kafka.Consumer(settings)
        consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
        assert consumer.consume(1, 20)[0].value() == b"kept"
        consumer.close()

    serve(tmp_path, write)
    serve(tmp_path, read)


def test_groups_and_transactions_are_found_though_the_settings_of_their_topics_changed(
    tmp_path: Path,
) -> None:
    def settings(partitions: Any) -> dict[Any, Any]:
        return {
            "offsets.topic.num.partitions": partitions,
            "transaction.state.log.num.partitions": partitions,
        }

    groups = [f"group-{number}" for number in range(5)]
    with EmbeddedKafka(data_dir=tmp_path, config=settings(7)) as kafka:
        kafka.topic("orders")
        for number, group in enumerate(groups):
            commit(kafka, group, "orders", number)
        producer = make_producer(kafka, **{"transactional.id": "tx", "request.timeout.ms": 5_000})
        producer.init_transactions(20)
        producer.begin_transaction()
        send(producer, "orders", b"undecided")
    with EmbeddedKafka(data_dir=tmp_path, config=settings(3)) as kafka:
        assert [committed(kafka, group, "orders") for group in groups] == [0, 1, 2, 3, 4]
        successor = make_producer(kafka, **{"transactional.id": "tx", "request.timeout.ms": 5_000})
        successor.init_transactions(20)
        kafka.existing_topic("orders").send("decided")
        assert texts(kafka.existing_topic("orders")) == ["decided"]


def test_a_state_in_which_no_broker_ran_is_put_back() -> None:
    with EmbeddedKafka(brokers=1, topics={"orders": 1}) as kafka:
        kafka.existing_topic("orders").send("a")
        kafka.broker(1).kill()
        dead = kafka.snapshot()
        kafka.broker(1).start()
        kafka.existing_topic("orders").send("b")
        kafka.restore(dead)
        assert not kafka.broker(1).is_running
        kafka.broker(1).start()
        assert texts(kafka.existing_topic("orders")) == ["a"]


class KilledAtEveryStep:
    """Copies the data directory before every change this thread makes, as a kill would leave it."""

    CHANGES = ("replace", "make_directory", "remove", "remove_tree", "copy", "link")

    def __init__(self, data_dir: Path, copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data_dir = data_dir
        self.copies = copies
        self.left = []
        self._thread: threading.Thread | None = threading.current_thread()
        for name in self.CHANGES:
            monkeypatch.setattr(SystemFiles, name, self._keep_before(getattr(SystemFiles, name)))
        monkeypatch.setattr(Brokers, "boot", self._keep_before(Brokers.boot, last=True))

    def _keep_before(self, change: Any, *, last: bool = False) -> Any:
        def keep_and_change(*arguments: Any, **options: Any) -> Any:
            if self._thread is threading.current_thread():
                self._keep()
                if last:  # from here on, brokers write too
                    self._thread = None
            return change(*arguments, **options)

        return keep_and_change

    def _keep(self) -> None:
        self.left.append(self.copies / str(len(self.left)))
        shutil.copytree(self.data_dir, self.left[-1])


def contents(data_dir: Path) -> dict[Any, Any]:
    with EmbeddedKafka(brokers=2, data_dir=data_dir) as kafka:
        names = make_producer(kafka).list_topics(timeout=20).topics
        return {name: texts(kafka.existing_topic(name)) for name in names}


def test_a_restore_that_was_killed_is_whole_or_refused(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with EmbeddedKafka(brokers=2, data_dir=data_dir) as kafka:
        orders = kafka.topic("orders", replication=2)
        old = kafka.topic("old", replication=2)
        orders.send("a")
        snapshot = kafka.snapshot()
        orders.send("b")
        old.delete()
        kafka.topic("new", replication=2).send("x")
        with pytest.MonkeyPatch.context() as patch:
            killed = KilledAtEveryStep(data_dir, tmp_path, patch)
            kafka.restore(snapshot)
    before, after = {"orders": ["a", "b"], "new": ["x"]}, {"orders": ["a"], "old": []}
    first, *between, last = killed.left
    assert contents(first) == before
    assert len(between) > 10
    for left in between:
        with pytest.raises(ConfigError, match=r"a restore\(\) here was"):
            contents(left)
    assert contents(last) == after
    assert contents(data_dir) == after


RESTORES = """
import os, signal, sys
from embedkafka import EmbeddedKafka
from embedkafka.cluster.restoring import snapshot as restoring

with EmbeddedKafka(brokers=2, data_dir=sys.argv[1]) as kafka:
    kafka.topic("orders", replication=2)
    snapshot = kafka.snapshot()
    restoring.copy_log_dir = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
    kafka.restore(snapshot)
"""


def test_a_process_killed_in_a_restore_leaves_a_directory_that_says_so(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", RESTORES, tmp_path / "data"], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(ConfigError, match=r"data cannot be used: a restore\(\) here was"):
        EmbeddedKafka(brokers=2, data_dir=tmp_path / "data").start()


def test_a_restore_that_failed_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedKafka(data_dir=tmp_path) as kafka:
        orders = kafka.topic("orders")
        orders.send("a")
        taken = kafka.snapshot()
        orders.send("b")
        with monkeypatch.context() as patch:
            patch.setattr(SystemFiles, "link", no_space)
            patch.setattr(SystemFiles, "copy", no_space)
            with pytest.raises(OSError, match="No space left"):
                kafka.restore(taken)
        kafka.restore(taken)
        assert texts(orders) == ["a"]
    with EmbeddedKafka(data_dir=tmp_path) as kafka:
        assert texts(kafka.existing_topic("orders")) == ["a"]


def no_space(*arguments: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
