"""Every timer in the table of docs/how-to/time.md follows the clock that the table names."""

import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from embedkafka import EmbeddedKafka, Topic
from embedkafka.cluster.restoring.coordinated import find_coordinated
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.ids import TopicPartition as Partition
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.messages.core import FetchRequest
from embedkafka.wire.protocol.messages.groups import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from tests.cluster.reassignment import reassign
from tests.presence import present

PAGE: Final = Path(__file__).parents[3] / "docs" / "how-to" / "time.md"
DAY_MS: Final = 86_400_000
WEEK_MS: Final = 7 * DAY_MS

Scenario = Callable[[EmbeddedKafka], Iterator[None]]
"""Sets the timer, yields while the clock is moved, and waits for the timer's effect."""


CONFIG: Final[dict[str, dict[str, object]]] = {
    "max.connection.creation.rate": {
        "max.connection.creation.rate": 0,
        "quota.window.size.seconds": 600,  # the longest wait for the next connection
    },
    "leader.replication.throttled.rate": {
        "leader.replication.throttled.rate": 1,
        "replication.quota.window.size.seconds": 30,
    },
}
"""Settings of the cluster, where a timer is shorter than our patience by default."""


@pytest.fixture
def kafka(setting: str) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=2, config=CONFIG.get(setting)) as kafka:
        yield kafka


def producer(kafka: EmbeddedKafka, **settings: object) -> Producer:
    return Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, **settings})


def send(kafka: EmbeddedKafka, topic: str, value: str | None, key: str | None = None) -> None:
    client = producer(kafka)
    client.produce(topic, value, key)
    assert client.flush(30) == 0


def await_true(is_done: Callable[[], bool], pause: Callable[[], object] = lambda: None) -> None:
    deadline = time.monotonic() + 30
    while not is_done():
        assert time.monotonic() < deadline
        pause()


def poll_until(consumer: Consumer, is_done: Callable[[], bool]) -> None:
    await_true(is_done, lambda: consumer.poll(0.1))


def texts(topic: Topic) -> list[str]:
    return [present(record.text) for record in topic.read()]


def log_files(kafka: EmbeddedKafka, pattern: str) -> list[Path]:
    brokers = [handle._lifecycle.require_broker() for handle in kafka.brokers]
    return [path for broker in brokers for path in broker.spec.log_dirs[0].glob(pattern)]


@contextmanager
def raw_client(kafka: EmbeddedKafka, broker: int) -> Iterator[BrokerClient]:
    host, port = kafka.broker(broker).address.split(":")
    client = BrokerClient(host, int(port), SystemClock(), "raw")
    try:
        yield client
    finally:
        client.close()


def say_hello(connection: socket.socket) -> None:
    connection.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))  # ApiVersions


def hear(connection: socket.socket) -> None:
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    connection.recv(size, socket.MSG_WAITALL)


# -- timers that follow the time of day


def retention_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic(config={"retention.ms": WEEK_MS})
    send(kafka, orders.name, "old")
    yield
    orders.wait_for(lambda records: records == [])


def segment_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic("orders", config={"segment.ms": WEEK_MS, "retention.ms": -1})
    send(kafka, orders.name, "a")
    yield
    send(kafka, orders.name, "b")
    broker = kafka.broker(orders.leader())._lifecycle.require_broker()
    names = {path.name for path in broker.spec.log_dirs[0].glob("orders-0/*.log")}
    assert names == {f"{0:020d}.log", f"{1:020d}.log"}


def min_compaction_lag_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic(config={"cleanup.policy": "compact", "min.compaction.lag.ms": WEEK_MS})
    for value in ("a", "b"):
        send(kafka, orders.name, value, key="key")
    orders.roll()
    orders.compact()
    assert texts(orders) == ["a", "b"]
    yield
    orders.compact()
    assert texts(orders) == ["b"]


def delete_retention_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic(config={"cleanup.policy": "compact", "delete.retention.ms": WEEK_MS})
    send(kafka, orders.name, None, key="gone")
    send(kafka, orders.name, "a", key="kept")
    for _ in range(2):
        orders.compact()
    assert [record.key for record in orders.read()] == [b"gone", b"kept"]
    yield
    orders.compact()
    assert [record.key for record in orders.read()] == [b"kept"]


def transactional_id_expiration_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic()
    client = producer(kafka, **{"transactional.id": "forgotten"})
    client.init_transactions(30)
    client.begin_transaction()
    client.produce(orders.name, "a")
    client.commit_transaction(30)
    brokers = kafka._require_brokers()
    await_true(lambda: find_coordinated(brokers).transactions["forgotten"] == "CompleteCommit")
    yield
    kafka.clock.advance(hours=1)  # for the check, and less than the seven days of the setting
    await_true(lambda: "forgotten" not in find_coordinated(brokers).transactions)


def max_compaction_lag_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic(
        config={
            "cleanup.policy": "compact",
            "max.compaction.lag.ms": WEEK_MS,
            "min.cleanable.dirty.ratio": 1,
        }
    )
    for value in ("a", "b"):
        send(kafka, orders.name, value, key="key")
    yield
    send(kafka, orders.name, "c", key="key")  # in a new segment: the first may be cleaned
    kafka.clock.advance(minutes=1)
    await_true(lambda: [record.text for record in orders.read()] == ["b", "c"])


def offsets_retention_minutes(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic()
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "gone"})
    partition = TopicPartition(orders.name, 0, 0)
    consumer.commit(offsets=[partition], asynchronous=False)
    yield
    poll_until(consumer, lambda: consumer.committed([partition], timeout=30)[0].offset == -1001)
    consumer.close()


def transaction_timeout_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic(config={"retention.ms": -1})
    client = producer(kafka, **{"transactional.id": "slow", "transaction.timeout.ms": 840_000})
    client.init_transactions(30)
    client.begin_transaction()
    client.produce(orders.name, "never committed")
    client.flush(30)
    send(kafka, orders.name, "behind it")
    yield
    assert [message.text for message in orders.wait_for(1)] == ["behind it"]


def producer_id_expiration_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic("orders")
    client = producer(kafka, **{"enable.idempotence": True})
    client.produce("orders", "a")
    assert client.flush(30) == 0
    replicas = kafka.broker(orders.leader())._lifecycle.require_broker().logs
    log = next(log for log in replicas.all_logs() if log.topic_partition.topic == "orders")
    assert len(log.active_producers()) == 1
    yield
    log.remove_expired_producers()
    assert log.active_producers() == []


# -- timers that count milliseconds


def session_timeout_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic()
    seen: list[str] = []
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "sleepers",
            "heartbeat.interval.ms": 100,
        }
    )
    consumer.subscribe(
        [orders.name],
        on_assign=lambda *_: seen.append("assigned"),
        on_revoke=lambda *_: seen.append("revoked"),
        on_lost=lambda *_: seen.append("lost"),
    )
    poll_until(consumer, lambda: seen == ["assigned"])
    # A heartbeat that is on its way while the clock moves would renew the session.
    with kafka.faults.disconnect("HEARTBEAT", times=None) as cut:
        poll_until(consumer, lambda: cut.hits > 0)
        yield
        kafka.group("sleepers").await_state(members=0)
    poll_until(consumer, lambda: len(seen) > 1)
    consumer.close()


def zookeeper_session_timeout_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic("orders", replication=2)
    leader = orders.leader()
    kafka.broker(leader).pause()
    yield
    assert orders.await_leader() != leader
    kafka.broker(leader).resume()


def replica_lag_time_max_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic("orders", replication=2)
    kafka.brokers.partition({1}, {2}, zookeeper={1, 2})
    kafka.existing_topic("orders")
    client = producer(kafka, acks=1)
    client.produce("orders", "a")
    assert client.flush(30) == 0
    yield
    orders.await_isr(size=1)


def connections_max_idle_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    host, port = kafka.broker(1).address.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as idle:
        say_hello(idle)
        hear(idle)
        yield
        assert idle.recv(1) == b""


def max_poll_interval_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    """A member that does not join again; its session is longer than the clock moves."""
    with raw_client(kafka, 1) as asking:
        coordinator = asking.call(FindCoordinatorRequest(key="workers"), 1).node_id

    def join(client: BrokerClient) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id="workers",
            session_timeout_ms=1_700_000,
            rebalance_timeout_ms=60_000,  # a new member waits for five minutes at most
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
        )
        return client.call(request, 3)

    with (
        raw_client(kafka, coordinator) as first,
        raw_client(kafka, coordinator) as second,
        ThreadPoolExecutor() as threads,
    ):
        alone = join(first)
        sync = SyncGroupRequest(
            group_id="workers",
            generation_id=alone.generation_id,
            member_id=alone.member_id,
            assignments=[],
        )
        first.call(sync, 2)
        joining = threads.submit(join, second)
        kafka.group("workers").await_state(state="PreparingRebalance")
        yield
        joined = joining.result(30)
        assert joined.error_code == 0
        assert [member.member_id for member in joined.members] == [joined.member_id]


def fetch_max_wait_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic("orders")
    leader = orders.leader()
    waiting = kafka.broker(leader)._lifecycle.require_broker().replicas.waiters.fetch
    wanted = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(
        max_wait_ms=600_000,
        min_bytes=1,
        topics=[FetchRequest.Topic(topic="orders", partitions=[wanted])],
    )
    with raw_client(kafka, leader) as client, ThreadPoolExecutor() as threads:
        answer = threads.submit(client.call, request, 4)
        await_true(lambda: any(each._timer_task is not None for each in waiting._operations()))
        yield
        (topic,) = answer.result(30).responses
        assert not topic.partitions[0].records


def max_connection_creation_rate(kafka: EmbeddedKafka) -> Iterator[None]:
    host, port = kafka.broker(1).address.split(":")
    with (
        socket.create_connection((host, int(port)), timeout=30) as first,
        socket.create_connection((host, int(port)), timeout=30) as second,
    ):
        say_hello(first)
        hear(first)  # it was accepted, so the next one has to wait
        say_hello(second)
        yield
        hear(second)


def leader_replication_throttled_rate(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic(
        "orders", replication=1, config={"leader.replication.throttled.replicas": "*"}
    )
    count = len(orders.send_many(["x" * 100_000] * 15))  # two fetches take them
    leader = orders.leader()
    (follower,) = {1, 2} - {leader}
    replicas = kafka.broker(follower)._lifecycle.require_broker().replicas

    def copied() -> int:
        partition = replicas.hosted.find(Partition("orders", 0))
        return 0 if partition is None or partition.log is None else partition.log.log_end_offset

    reassign(kafka, "orders", [leader, follower])
    await_true(lambda: copied() > 0)
    assert copied() < count
    yield
    await_true(lambda: copied() > 0 and copied() == count)


def file_delete_delay_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic("orders", config={"file.delete.delay.ms": 600_000})
    orders.send("a")
    orders.delete()
    assert log_files(kafka, "orders*")
    yield
    await_true(lambda: not log_files(kafka, "orders*"))


TIME_OF_DAY: Final[dict[str, Scenario]] = {
    "retention.ms": retention_ms,
    "segment.ms": segment_ms,
    "min.compaction.lag.ms": min_compaction_lag_ms,
    "max.compaction.lag.ms": max_compaction_lag_ms,
    "delete.retention.ms": delete_retention_ms,
    "offsets.retention.minutes": offsets_retention_minutes,
    "transaction.timeout.ms": transaction_timeout_ms,
    "transactional.id.expiration.ms": transactional_id_expiration_ms,
    "producer.id.expiration.ms": producer_id_expiration_ms,
}
TIMERS: Final[dict[str, Scenario]] = {
    "session.timeout.ms": session_timeout_ms,
    "max.poll.interval.ms": max_poll_interval_ms,
    "zookeeper.session.timeout.ms": zookeeper_session_timeout_ms,
    "replica.lag.time.max.ms": replica_lag_time_max_ms,
    "fetch.max.wait.ms": fetch_max_wait_ms,
    "connections.max.idle.ms": connections_max_idle_ms,
    "max.connection.creation.rate": max_connection_creation_rate,
    "leader.replication.throttled.rate": leader_replication_throttled_rate,
    "file.delete.delay.ms": file_delete_delay_ms,
}


@pytest.mark.parametrize("setting", TIME_OF_DAY)
def test_it_follows_the_time_of_day(kafka: EmbeddedKafka, setting: str) -> None:
    kafka.clock.travel(to=datetime.now(UTC) - timedelta(days=30))
    scenario = TIME_OF_DAY[setting](kafka)
    next(scenario)
    kafka.clock.reset()  # thirty days later, but no timer has moved
    kafka.clock.advance(minutes=11)  # for the periodic checks; less than any of these settings
    next(scenario, None)


@pytest.mark.parametrize("setting", TIMERS)
def test_it_counts_milliseconds(kafka: EmbeddedKafka, setting: str) -> None:
    scenario = TIMERS[setting](kafka)
    next(scenario)
    with kafka.clock.freeze() as clock:
        before = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
        clock.advance(minutes=11)
        clock.travel(to=before)  # the time of day has not moved
        next(scenario, None)


def test_the_page_says_so() -> None:
    """Every row of the table is tested here, and every test here has a row."""
    _, _, table = PAGE.read_text().partition("| timer | follows |\n|---|---|\n")
    rows = re.findall(r"^\| .*?`([a-z.]+)` \| (time of day|timers)\b.*\|$", table, re.M)
    assert len(rows) == table.partition("\n\n")[0].count("\n") + 1
    tested = dict.fromkeys(TIME_OF_DAY, "time of day") | dict.fromkeys(TIMERS, "timers")
    assert dict(rows) == tested
