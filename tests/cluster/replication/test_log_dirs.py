"""Replicas move between the disks of a broker while clients write and brokers die."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedkafka import EmbeddedKafka, OwnedBroker
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.topics import (
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
)
from tests.cluster.traffic import assert_nothing_lost, sending
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient

THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
LARGE = "x" * 600_000


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=2, log_dirs=2) as kafka:
        yield kafka


def connect(handle: OwnedBroker) -> RawClient:
    host, port = handle.address.split(":")
    return RawClient(host, int(port))


def places(handle: OwnedBroker, topic: str) -> dict[str, set[tuple[int, bool]]]:
    """The partitions of a topic by directory, each with whether it is still moving there."""
    with connect(handle) as client:
        found = client.call(DescribeLogDirsRequest(topics=None), 4).results
    return {
        directory.log_dir: {
            (partition.partition_index, partition.is_future_key)
            for listed in directory.topics
            if listed.name == topic
            for partition in listed.partitions
        }
        for directory in found
    }


def where(handle: OwnedBroker, topic: str, partition: int) -> str:
    (path,) = (path for path, found in places(handle, topic).items() if (partition, False) in found)
    return path


def elsewhere(handle: OwnedBroker, topic: str, partition: int) -> str:
    (other,) = set(places(handle, topic)) - {where(handle, topic, partition)}
    return other


def move(handle: OwnedBroker, topic: str, partition: int, path: str) -> ErrorCode:
    wanted = AlterReplicaLogDirsRequest.LogDir.Topic(name=topic, partitions=[partition])
    directory = AlterReplicaLogDirsRequest.LogDir(path=path, topics=[wanted])
    with connect(handle) as client:
        answer = client.call(AlterReplicaLogDirsRequest(dirs=[directory]), 2)
    return ErrorCode(answer.results[0].partitions[0].error_code)


def await_move(handle: OwnedBroker, topic: str, partition: int, path: str) -> None:
    def is_there() -> bool:
        found = places(handle, topic)
        return (partition, False) in found[path] and not any(
            (partition, True) in others for others in found.values()
        )

    eventually(is_there, f"{topic}-{partition} of {handle} is in {path}")


def test_leaders_and_followers_move_under_load_and_lose_nothing(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", partitions=2, replication=2, config={"segment.bytes": 20_000})
    with sending(kafka, "orders", partitions=2) as sender:
        sender.await_acks(200)
        for handle in kafka.brokers:
            for partition in (0, 1):
                target = elsewhere(handle, "orders", partition)
                assert move(handle, "orders", partition, target) is ErrorCode.NONE
                await_move(handle, "orders", partition, target)
        sender.await_acks(200)
    assert not sender.errors
    assert_nothing_lost(kafka, sender)
    kafka.await_no_under_replicated()


def test_a_moved_replica_can_lead_and_follow_and_restart(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=2)
    orders.send_many(map(str, range(100)))
    leader = kafka.broker(orders.leader())
    target = elsewhere(leader, "orders", 0)
    move(leader, "orders", 0, target)
    await_move(leader, "orders", 0, target)
    orders.send("100")
    leader.restart()
    kafka.await_no_under_replicated()
    assert where(leader, "orders", 0) == target
    (other,) = (handle for handle in kafka.brokers if handle != leader)
    other.kill()
    orders.await_isr(size=1)
    assert orders.leader() == leader.id
    orders.send("101")
    assert [message.text for message in orders.read()] == [str(n) for n in range(102)]


def test_an_old_place_is_emptied(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", replication=2, config={"file.delete.delay.ms": 0}).send("x")
    handle = kafka.broker(1)
    source, target = where(handle, "orders", 0), elsewhere(handle, "orders", 0)
    move(handle, "orders", 0, target)
    await_move(handle, "orders", 0, target)
    eventually(
        lambda: not [p for p in Path(source).iterdir() if p.name.startswith("orders-")],
        "the old directory is empty",
    )


def test_a_replica_is_made_where_it_was_wanted(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=1)
    (other,) = (handle for handle in kafka.brokers if handle.id != orders.leader())
    wanted = sorted(places(other, "orders"))[1]
    assert move(other, "orders", 0, wanted) is ErrorCode.REPLICA_NOT_AVAILABLE


@pytest.mark.parametrize("is_cancelled", [True, False])
@pytest.mark.parametrize("end", [OwnedBroker.stop, OwnedBroker.kill], ids=["stop", "kill"])
def test_a_restart_continues_a_move_unless_it_was_cancelled(
    end: Callable[[OwnedBroker], None], is_cancelled: bool
) -> None:
    config = {THROTTLE: 1, "log.segment.delete.delay.ms": 60_000}
    with EmbeddedKafka(brokers=1, log_dirs=2, config=config) as kafka:
        orders = kafka.topic("orders")
        for number in range(8):  # only the first of them is copied before the throttle counts
            orders.send(LARGE, key=str(number))
        handle = kafka.broker(1)
        source, target = where(handle, "orders", 0), elsewhere(handle, "orders", 0)
        assert move(handle, "orders", 0, target) is ErrorCode.NONE
        eventually(lambda: (0, True) in places(handle, "orders")[target], "the copy has begun")
        if is_cancelled:
            assert move(handle, "orders", 0, source) is ErrorCode.NONE
        end(handle)
        handle.start()
        found = places(handle, "orders")
        assert found[source] == {(0, False)}
        assert found[target] == (set() if is_cancelled else {(0, True)})
        assert [message.key for message in orders.read()] == [b"%d" % n for n in range(8)]
