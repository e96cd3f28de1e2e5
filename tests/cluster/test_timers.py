"""Every timer in the table of docs/how-to/time.md follows the clock that the table names."""

import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from embedkafka import EmbeddedKafka

PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "time.md"
DAY_MS: Final = 86_400_000
WEEK_MS: Final = 7 * DAY_MS

Scenario = Callable[[EmbeddedKafka], Iterator[None]]
"""Sets the timer, yields while the clock is moved, and waits for the timer's effect."""


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=2) as kafka:
        yield kafka


def producer(kafka: EmbeddedKafka, **settings: object) -> Producer:
    return Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, **settings})


def send(kafka: EmbeddedKafka, topic: str, value: str, key: str | None = None) -> None:
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
    broker = kafka.broker(kafka.leader_of("orders"))._lifecycle.require_broker()
    names = {path.name for path in broker.spec.log_dirs[0].glob("orders-0/*.log")}
    assert names == {f"{0:020d}.log", f"{1:020d}.log"}


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
    kafka.topic("orders")
    client = producer(kafka, **{"enable.idempotence": True})
    client.produce("orders", "a")
    assert client.flush(30) == 0
    replicas = kafka.broker(kafka.leader_of("orders"))._lifecycle.require_broker().logs
    log = next(log for log in replicas.all_logs() if log.topic_partition.topic == "orders")
    assert len(log.active_producers()) == 1
    yield
    log.remove_expired_producers()
    assert log.active_producers() == []


# -- timers that count milliseconds


def session_timeout_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    orders = kafka.topic()
    seen: list[str] = []
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "sleepers"})
    consumer.subscribe(
        [orders.name],
        on_assign=lambda *_: seen.append("assigned"),
        on_revoke=lambda *_: seen.append("revoked"),
        on_lost=lambda *_: seen.append("lost"),
    )
    poll_until(consumer, lambda: seen == ["assigned"])
    yield
    poll_until(consumer, lambda: len(seen) > 1)
    consumer.close()


def zookeeper_session_timeout_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    kafka.topic("orders", replication=2)
    leader = kafka.leader_of("orders")
    kafka.broker(leader).pause()
    yield
    assert kafka.await_leader("orders") != leader
    kafka.broker(leader).resume()


def replica_lag_time_max_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    kafka.topic("orders", replication=2)
    kafka.partition({1}, {2}, zookeeper={1, 2})
    kafka.existing_topic("orders")
    client = producer(kafka, acks=1)
    client.produce("orders", "a")
    assert client.flush(30) == 0
    yield
    kafka.await_isr("orders", size=1)


def connections_max_idle_ms(kafka: EmbeddedKafka) -> Iterator[None]:
    host, port = kafka.broker(1).address.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as idle:
        idle.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))  # ApiVersions: it is served
        (size,) = struct.unpack(">i", idle.recv(4, socket.MSG_WAITALL))
        idle.recv(size, socket.MSG_WAITALL)
        yield
        assert idle.recv(1) == b""


TIME_OF_DAY: Final[dict[str, Scenario]] = {
    "retention.ms": retention_ms,
    "segment.ms": segment_ms,
    "max.compaction.lag.ms": max_compaction_lag_ms,
    "offsets.retention.minutes": offsets_retention_minutes,
    "transaction.timeout.ms": transaction_timeout_ms,
    "producer.id.expiration.ms": producer_id_expiration_ms,
}
TIMERS: Final[dict[str, Scenario]] = {
    "session.timeout.ms": session_timeout_ms,
    "zookeeper.session.timeout.ms": zookeeper_session_timeout_ms,
    "replica.lag.time.max.ms": replica_lag_time_max_ms,
    "connections.max.idle.ms": connections_max_idle_ms,
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
    rows = re.findall(r"^\| .*?`([a-z.]+)`.*\| (time of day|timers)\b", PAGE.read_text(), re.M)
    tested = dict.fromkeys(TIME_OF_DAY, "time of day") | dict.fromkeys(TIMERS, "timers")
    assert {name: rows_of for name, rows_of in rows if name in tested} == tested
