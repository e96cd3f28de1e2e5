"""Brokers that cannot reach each other."""

from typing import Any

import pytest
from confluent_kafka import TopicPartition

from embedkafka import EmbeddedKafka, EmbedKafkaError
from embedkafka.runtime.hashing import coordinator_partition
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC
from embedkafka.wire.protocol.errors import ErrorCode
from tests.cluster.traffic import (
    assert_nothing_lost,
    make_consumer,
    make_producer,
    produce_to,
    send,
    sending,
)

OFFSETS_PARTITIONS = 5
"""The default of a cluster in a test."""


def led_by(kafka: EmbeddedKafka, topic: str, broker_id: int, partitions: Any) -> Any:
    return next(p for p in range(partitions) if kafka.existing_topic(topic).leader(p) == broker_id)


def test_a_minority_loses_its_leaders_and_rejoins_when_healed(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=3, replication=3)
    cut_off = led_by(kafka, "orders", 1, 3)
    with sending(kafka, "orders", partitions=3) as sender:
        sender.await_acks(30)
        kafka.brokers.partition({1}, {2, 3})
        assert orders.await_leader(cut_off) in (2, 3)
        orders.await_isr(cut_off, size=2)
        sender.await_acks(60)
        kafka.brokers.heal()
        kafka.await_no_under_replicated()
        sender.await_acks(30)
    assert sender.errors == []
    assert_nothing_lost(kafka, sender)


def test_a_leader_on_the_wrong_side_acknowledges_nothing(kafka: EmbeddedKafka) -> None:
    """Clients still reach it, but it cannot replicate, so it acknowledges nothing."""
    orders = kafka.topic("orders", replication=3, config={"min.insync.replicas": 2})
    leader = orders.leader()
    alone = kafka.broker(leader)
    assert produce_to(alone, "orders", b"before", timeout_ms=30_000) is ErrorCode.NONE
    kafka.brokers.partition({leader}, {1, 2, 3} - {leader})
    orders.await_leader()
    code = produce_to(alone, "orders", b"on one side only")
    assert code is ErrorCode.REQUEST_TIMED_OUT
    # A client that asks the isolated broker may learn of no other broker.
    elsewhere = {"bootstrap.servers": kafka.broker(orders.leader()).address}
    assert send(make_producer(kafka, **elsewhere), "orders", "on the other side")[0] is None
    kafka.brokers.heal()
    kafka.await_no_under_replicated()
    texts = [message.text for message in kafka.existing_topic("orders").read()]
    assert texts == ["before", "on the other side"]


def test_a_coordinator_on_the_wrong_side_answers_what_it_knew(kafka: EmbeddedKafka) -> None:
    """It has not heard of its successor, so it cannot refuse."""
    kafka.topic("orders")
    places = [TopicPartition("orders", 0, 5)]
    there = make_consumer(kafka)
    there.commit(offsets=places, asynchronous=False)
    partition = coordinator_partition("readers", OFFSETS_PARTITIONS)
    coordinator = kafka.existing_topic(GROUP_METADATA_TOPIC).leader(partition)

    kafka.brokers.partition({coordinator}, {1, 2, 3} - {coordinator})
    successor = kafka.existing_topic(GROUP_METADATA_TOPIC).await_leader(partition)
    here = make_consumer(kafka, **{"bootstrap.servers": kafka.broker(successor).address})
    here.commit(offsets=[TopicPartition("orders", 0, 9)], asynchronous=False)

    assert there.committed(places, 10)[0].offset == 5
    assert here.committed(places, 10)[0].offset == 9
    there.close()
    here.close()


def test_the_side_that_keeps_zookeeper_can_be_chosen(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=3, replication=3)
    kafka.brokers.partition({1}, {2, 3}, zookeeper={1})
    for partition in range(3):
        orders.await_isr(partition, size=1)
        assert orders.await_leader(partition) == 1
    assert kafka.brokers.await_controller() == 1
    kafka.brokers.heal()
    kafka.await_no_under_replicated()


def test_followers_that_lag_leave_the_isr_though_their_sessions_live(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    leader = orders.leader()
    kafka.brokers.partition({leader}, {1, 2, 3} - {leader}, zookeeper={1, 2, 3})
    with sending(kafka, "orders") as sender:
        assert orders.await_isr(0, size=1) == (leader,)
        sender.await_acks(1)
        kafka.brokers.heal()
        kafka.await_no_under_replicated()
    assert orders.partition().leader_epoch == 0
    assert_nothing_lost(kafka, sender)


def test_equal_sides_must_say_who_keeps_zookeeper() -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        with pytest.raises(EmbedKafkaError, match="say with `zookeeper=`"):
            kafka.brokers.partition({1}, {2})
        with pytest.raises(EmbedKafkaError, match="no broker 9"):
            kafka.brokers.partition({1, 2}, {9})
        kafka.brokers.partition({1}, {2}, zookeeper={2})
        kafka.topic("orders", replication=2)  # a single replica could be on broker 1 alone
        kafka.brokers.heal()
        kafka.brokers.await_all()
        kafka.topic("prices", replication=2)
        kafka.await_no_under_replicated()


def test_a_broker_that_is_kept_from_zookeeper_cannot_start(kafka: EmbeddedKafka) -> None:
    kafka.broker(1).stop()
    kafka.brokers.partition({1}, {2, 3})
    with pytest.raises(EmbedKafkaError, match="a network partition keeps it from ZooKeeper"):
        kafka.broker(1).start()
    kafka.brokers.heal()
    kafka.broker(1).start()
    kafka.topic("orders", replication=3)


def test_a_cluster_ends_while_it_is_split() -> None:
    with EmbeddedKafka(brokers=3) as kafka:
        kafka.topic("orders", partitions=3, replication=3).send("x")
        kafka.brokers.partition({1}, {2, 3})
        kafka.broker(2).pause()
