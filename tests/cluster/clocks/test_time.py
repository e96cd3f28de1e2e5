"""How a moved clock affects the records, offsets and transactions of stock clients."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import freezegun
import pytest
import time_machine
from confluent_kafka import Consumer, Producer, TopicPartition

from embedkafka import EmbeddedKafka, Topic
from tests.presence import present

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def moving() -> Iterator[EmbeddedKafka]:
    """A cluster for all tests here. Each moves its clock, so none may depend on where it stands."""
    with EmbeddedKafka(brokers=2, config={"log.retention.check.interval.ms": 60_000}) as kafka:
        yield kafka


def send(kafka: EmbeddedKafka, topic: str, value: str, **more: Any) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, value, **more)
    assert producer.flush(30) == 0


def run_retention(kafka: EmbeddedKafka) -> None:
    """Waits until every broker has checked all logs again.

    Only a check that began after the first check's end can delete the second record.
    """
    canary = kafka.topic(config={"retention.ms": 1}, replication=2)
    for _ in range(2):
        send(kafka, canary.name, "old", timestamp=1)
        kafka.clock.advance(minutes=1)
        canary.wait_for(lambda records: records == [])


def texts(topic: Topic) -> list[str]:
    return [present(message.text) for message in topic.read()]


def test_what_is_sent_after_a_jump_is_new(moving: EmbeddedKafka) -> None:
    orders = moving.topic(replication=2, config={"retention.ms": 7 * DAY_MS})
    before_ms = int(time.time() * 1000)
    send(moving, orders.name, "old")
    moving.clock.advance(days=8)
    send(moving, orders.name, "new")
    run_retention(moving)
    (message,) = orders.read()
    assert message.text == "new"
    assert before_ms <= message.timestamp_ms <= time.time() * 1000, (
        "the client's timestamp must stay"
    )
    moving.clock.advance(days=8)
    orders.wait_for(lambda records: records == [])


def test_its_age_survives_restarts_and_leaders(moving: EmbeddedKafka) -> None:
    moving.clock.advance(days=8)
    orders = moving.topic(replication=2, config={"retention.ms": 7 * DAY_MS})
    send(moving, orders.name, "new")
    leader = orders.leader()
    moving.broker(leader).restart()
    orders.await_isr(size=2)
    assert orders.leader() != leader
    run_retention(moving)
    assert texts(orders) == ["new"]


def test_its_age_survives_a_snapshot(moving: EmbeddedKafka) -> None:
    moving.clock.advance(days=8)
    orders = moving.topic(config={"retention.ms": 7 * DAY_MS})
    send(moving, orders.name, "new")
    snapshot = moving.snapshot()
    send(moving, orders.name, "lost")
    moving.restore(snapshot)
    run_retention(moving)
    assert texts(orders) == ["new"]


def test_a_record_with_an_old_timestamp_is_deleted_all_the_same(moving: EmbeddedKafka) -> None:
    moving.clock.advance(days=1)
    orders = moving.topic(config={"retention.ms": 7 * DAY_MS})
    eight_days_ago_ms = int(time.time() * 1000) - 8 * DAY_MS
    send(moving, orders.name, "old", timestamp=eight_days_ago_ms)
    moving.clock.advance(minutes=1)
    orders.wait_for(lambda records: records == [])


def test_a_transaction_after_a_jump_is_as_young_as_its_records(moving: EmbeddedKafka) -> None:
    moving.clock.advance(days=8)
    orders = moving.topic(config={"retention.ms": 7 * DAY_MS})
    producer = Producer(
        {"bootstrap.servers": moving.bootstrap_servers, "transactional.id": "jumper"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(orders.name, "new")
    producer.commit_transaction(30)
    run_retention(moving)
    assert texts(orders) == ["new"]
    moving.clock.advance(days=7, hours=1)
    orders.wait_for(lambda records: records == [])


def test_offsets_committed_after_a_jump_are_kept(moving: EmbeddedKafka) -> None:
    moving.clock.advance(days=8)
    orders = moving.topic()
    send(moving, orders.name, "a")
    consumer = Consumer({"bootstrap.servers": moving.bootstrap_servers, "group.id": "keepers"})
    try:
        offset = TopicPartition(orders.name, 0, 1)
        consumer.commit(offsets=[offset], asynchronous=False)
        run_retention(moving)
        assert consumer.committed([offset], timeout=30)[0].offset == 1
        moving.clock.advance(days=8)
        await_offset(consumer, offset, -1001)
    finally:
        consumer.close()


def await_offset(consumer: Consumer, partition: TopicPartition, offset: int) -> None:
    deadline = time.monotonic() + 30
    while consumer.committed([partition], timeout=30)[0].offset != offset:
        assert time.monotonic() < deadline, "the committed offset did not change"


def test_times_are_searched_as_clients_wrote_them(moving: EmbeddedKafka) -> None:
    orders = moving.topic(config={"retention.ms": -1})
    send(moving, orders.name, "before", timestamp=1_700_000_000_000)
    moving.clock.advance(days=8)
    send(moving, orders.name, "after", timestamp=1_700_000_000_500)
    consumer = Consumer({"bootstrap.servers": moving.bootstrap_servers, "group.id": "search"})
    try:
        wanted = TopicPartition(orders.name, 0, 1_700_000_000_001)
        assert consumer.offsets_for_times([wanted], timeout=30)[0].offset == 1
    finally:
        consumer.close()


def test_a_frozen_clock_stamps_one_moment_and_still_serves(moving: EmbeddedKafka) -> None:
    orders = moving.topic(config={"message.timestamp.type": "LogAppendTime"})
    with moving.clock.freeze() as clock:
        at_ms = clock.now_ms()
        for value in ("a", "b"):
            send(moving, orders.name, value)
        assert [message.timestamp_ms for message in orders.read()] == [at_ms, at_ms]
        clock.travel(to=datetime(2040, 1, 1, tzinfo=UTC))
        send(moving, orders.name, "c")
    assert orders.read()[-1].timestamp_ms == 2_208_988_800_000


def test_a_cluster_does_not_notice_freezegun(moving: EmbeddedKafka) -> None:
    orders = moving.topic()
    with freezegun.freeze_time("2020-01-01"):
        orders.send("a")
        send(moving, orders.name, "b")
        moving.clock.advance(days=1)
        assert texts(orders) == ["a", "b"]


def test_a_cluster_starts_while_time_is_frozen() -> None:
    with freezegun.freeze_time("2020-01-01"), EmbeddedKafka(topics={"orders": 1}) as kafka:
        kafka.existing_topic("orders").send("a")
        assert texts(kafka.existing_topic("orders")) == ["a"]


def test_a_cluster_does_not_notice_time_machine(moving: EmbeddedKafka) -> None:
    orders = moving.topic()
    with time_machine.travel(datetime(2020, 1, 1, tzinfo=UTC), tick=False):
        orders.send("a")
        send(moving, orders.name, "b")
        moving.clock.advance(days=1)
        assert texts(orders) == ["a", "b"]
