"""Disks that fill up or break: replicas go offline, leaders move, a broker without a disk dies.

The first tests use the files seam, the last ones limits set by the kernel (`scarcity`).
"""

import errno
import functools
import os
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from embedkafka import ConfigError, EmbeddedKafka, EmbedKafkaError
from embedkafka.cluster.lifecycle.lifecycle import BrokerState
from embedkafka.faults.disk import _Access, _Fault
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import MetadataRequest
from embedkafka.wire.protocol.messages.topics import (
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
)
from tests.cluster.footprint import refuses
from tests.cluster.scarcity import connect, error_of
from tests.cluster.traffic import assert_nothing_lost, sending
from tests.presence import present
from tests.wire.clients import eventually
from tests.wire.one_partition import batch, fetch, produce

#: Runs a command in a private mount namespace, in which it may mount.
PRIVATELY = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "-r"]


def await_state(kafka: EmbeddedKafka, broker_id: int, state: BrokerState) -> None:
    handle = kafka.broker(broker_id)
    kafka._reach.await_state(
        f"broker {broker_id} to be {state.value}",
        lambda: None if handle.state is state else handle.state.value,
    )


@pytest.mark.parametrize("fault", ["fill", "fail", "protect"])
def test_a_broker_whose_only_disk_fails_dies_and_comes_back_when_it_is_healed(
    kafka: EmbeddedKafka, fault: str
) -> None:
    orders = kafka.topic("orders", partitions=3, replication=3)
    with sending(kafka, "orders", partitions=3) as sender:
        sender.await_acks(30)
        getattr(kafka.faults.disk(2), fault)()
        await_state(kafka, 2, BrokerState.KILLED)
        for partition in range(3):
            assert orders.await_leader(partition) != 2
        sender.await_acks(30)
        kafka.faults.disk(2).heal()
        kafka.broker(2).start()
        kafka.await_no_under_replicated()
        sender.await_acks(30)
    assert sender.errors == []
    assert_nothing_lost(kafka, sender)


def test_a_broker_with_another_directory_goes_on_with_what_is_there() -> None:
    with EmbeddedKafka(brokers=3, log_dirs=2) as kafka:
        orders = kafka.topic("orders", partitions=6, replication=3)
        with sending(kafka, "orders", partitions=6) as sender:
            sender.await_acks(60)
            kafka.faults.disk(1).fail(directory=2)
            lost = [log.topic_partition.partition for log in logs_in(kafka, 1, directory=2)]
            assert lost
            for partition in lost:
                assert 1 not in orders.await_isr(partition, size=2)
                assert orders.await_leader(partition) != 1
                told = orders.explain(partition)
                assert "Broker 1 is out of sync: its log directory has failed." in told
            kept = set(range(6)) - set(lost)
            assert kept
            for partition in kept:
                assert 1 in orders.partition(partition).isr
            sender.await_acks(60)
            kafka.faults.disk(1).heal()
            kafka.broker(1).restart()
            kafka.await_no_under_replicated()
        assert sender.errors == []
        assert_nothing_lost(kafka, sender)


@pytest.mark.parametrize("fault", ["fill", "fail", "protect"])
@pytest.mark.parametrize("is_noticed", [True, False])
def test_there_is_no_snapshot_of_a_broken_disk(fault: str, is_noticed: bool) -> None:
    with EmbeddedKafka(log_dirs=2) as kafka:
        orders = kafka.topic("orders", partitions=2)
        orders.send_many(map(str, range(10)), partitions=[number % 2 for number in range(10)])
        getattr(kafka.faults.disk(1), fault)(directory=2)
        if is_noticed:
            ((lost,), _) = (logs_in(kafka, 1, directory=number) for number in (2, 1))
            with connect(kafka.broker(1)) as client:
                produce(client, "orders", batch(b"x"), partition=lost.topic_partition.partition)
            assert not kafka.broker(1).has_all_disks
        with pytest.raises(
            EmbedKafkaError, match=r"broker 1 has .* `kafka.broker\(1\).restart\(\)`"
        ):
            kafka.snapshot()
        kafka.faults.disk(1).heal()
        kafka.broker(1).restart()
        kafka.restore(kafka.snapshot())
        assert sorted(int(present(message.value)) for message in orders.read(10)) == list(range(10))


@pytest.mark.parametrize("fault", ["fill", "fail", "protect"])
def test_clients_are_told_of_a_lost_directory_and_served_from_the_other(fault: str) -> None:
    with EmbeddedKafka(log_dirs=2) as kafka:
        kafka.topic("orders", partitions=2)
        ((lost,), (kept,)) = (
            [log.topic_partition.partition for log in logs_in(kafka, 1, directory=number)]
            for number in (2, 1)
        )
        with connect(kafka.broker(1)) as client:
            for partition in (lost, kept):
                produce(client, "orders", batch(b"before"), partition=partition)
            getattr(kafka.faults.disk(1), fault)(directory=2)
            refused = produce(client, "orders", batch(b"after"), partition=lost)
            assert error_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR
            refused = fetch(client, "orders", 0, partition=lost)
            assert error_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR
            taken = produce(client, "orders", batch(b"after"), partition=kept)
            assert error_of(taken) is ErrorCode.NONE
            described = client.call(DescribeLogDirsRequest(topics=None), 4).results
            assert [error_of(directory) for directory in described] == [
                ErrorCode.NONE,
                ErrorCode.KAFKA_STORAGE_ERROR,
            ]
            gone = kafka.broker(1)._lifecycle.require_broker().spec.log_dirs[1]
            assert move(client, kept, str(gone)) is ErrorCode.KAFKA_STORAGE_ERROR
            assert move(client, kept, "/nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
        kafka.faults.disk(1).heal()
        kafka.broker(1).restart()
        kafka.await_no_under_replicated()
        texts = [(m.partition, m.text) for m in kafka.existing_topic("orders").read()]
        assert sorted(texts) == sorted([(lost, "before"), (kept, "before"), (kept, "after")])


def test_a_full_disk_leaves_what_was_written_readable() -> None:
    with EmbeddedKafka() as kafka:
        topic = kafka.topic("orders")
        topic.send_many(map(str, range(10)))
        kafka.faults.disk(1).fill()
        kafka.faults.disk(1).heal()
        assert len(topic.read()) == 10
        topic.send("more")


def test_a_partition_that_finds_no_descriptor_is_opened_later() -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        disk = kafka.faults.disk(2)
        disk._break(None, _Fault(errno.EMFILE, _Access.READ))
        zk = kafka._require_brokers().zk
        zk.create_topic("late", {0: [2]}, topic_id=uuid.uuid4(), config={})
        with connect(kafka.broker(1)) as client:
            eventually(
                lambda: offline_replicas(client, "late") == [2],
                "the controller knows that broker 2 cannot open it",
            )
        disk.heal()
        assert kafka.existing_topic("late").await_leader() == 2
        kafka.existing_topic("late").send("x")
        assert kafka.broker(2).has_all_disks


def test_a_broker_needs_a_directory() -> None:
    with pytest.raises(ConfigError, match="log_dirs must be a whole number from 1 to 1000"):
        EmbeddedKafka(log_dirs=0)


def logs_in(kafka: EmbeddedKafka, broker_id: int, *, directory: int) -> Any:
    broker = kafka.broker(broker_id)._lifecycle.require_broker()
    root = broker.spec.log_dirs[directory - 1]
    return [
        log
        for log in broker.logs.all_logs()
        if log.directory.parent == root and log.topic_partition.topic == "orders"
    ]


def offline_replicas(client: Any, topic: str) -> Any:
    wanted = MetadataRequest(topics=[MetadataRequest.Topic(name=topic)])
    return [
        replica
        for found in client.call(wanted, 9).topics
        for partition in found.partitions
        for replica in partition.offline_replicas
    ]


def move(client: Any, partition: int, path: Any) -> Any:
    wanted = AlterReplicaLogDirsRequest.LogDir.Topic(name="orders", partitions=[partition])
    directory = AlterReplicaLogDirsRequest.LogDir(path=path, topics=[wanted])
    answer = client.call(AlterReplicaLogDirsRequest(dirs=[directory]), 2)
    return error_of(answer.results[0].partitions[0])


# -- kernel limits


@functools.cache
def can_mount() -> bool:
    tried = [*PRIVATELY, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    try:
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def run_scarcity(way: str, data_dir: Path, prefix: Sequence[str] = ()) -> None:
    subprocess.run(
        [*prefix, sys.executable, "-m", "tests.cluster.scarcity", way, data_dir],
        check=True,
        timeout=110,
    )


@pytest.mark.parametrize("way", ["descriptors", "small-files"])
def test_a_cluster_gets_over_a_limit_of_its_process(way: str, tmp_path: Path) -> None:
    run_scarcity(way, tmp_path / "data")


@pytest.mark.parametrize("way", ["full-disk", "full-second-disk", "read-only-disk"])
def test_a_cluster_gets_over_a_limit_of_a_real_disk(way: str, tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip(
            "mounting is not permitted here; other tests cover full disks and process limits"
        )
    run_scarcity(way, tmp_path / "data", PRIVATELY)


def test_a_cluster_that_cannot_be_written_down_ends_all_the_same(tmp_path: Path) -> None:
    kafka = EmbeddedKafka(brokers=2, data_dir=tmp_path).start()
    address = kafka.bootstrap_servers.split(",")[0]
    (tmp_path / "zookeeper.json").unlink()
    (tmp_path / "zookeeper.json").mkdir()  # keeps the file from being written
    with pytest.raises(OSError, match=r"zookeeper\.json"):
        kafka.close()
    assert refuses(address)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file/data cannot be used: .*Not a directory"):
        EmbeddedKafka(data_dir=tmp_path / "file" / "data").start()
