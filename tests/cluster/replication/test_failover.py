"""Producers, consumers and groups while brokers die, leave, or stall."""

import time
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

from embedkafka import EmbeddedKafka
from tests.cluster.members import (
    coordinator_of,
    offsets_partition,
)
from tests.cluster.traffic import (
    assert_nothing_lost,
    make_consumer,
    make_producer,
    send,
    sending,
)
from tests.presence import present


@pytest.fixture(params=["3.9", "2.6"])
def kafka(request: pytest.FixtureRequest) -> Iterator[EmbeddedKafka]:
    """Followers find out on fetch where they left their leader, or ask before they fetch."""
    release = {"inter.broker.protocol.version": request.param}
    with EmbeddedKafka(brokers=3, config=release) as kafka:
        yield kafka


def test_nothing_acknowledged_is_lost_when_a_leader_is_killed(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=3, replication=3)
    with sending(kafka, "orders", partitions=3) as sender:
        sender.await_acks(200)
        dead = orders.leader(0)
        kafka.broker(dead).kill()
        sender.await_acks(200)
        orders.await_isr(0, size=2)
    assert sender.errors == []
    assert_nothing_lost(kafka, sender)
    kafka.broker(dead).start()
    kafka.await_no_under_replicated()
    assert_nothing_lost(kafka, sender)


def test_every_broker_in_turn_is_killed_and_comes_back(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", partitions=6, replication=3)
    with sending(kafka, "orders", partitions=6) as sender:
        for handle in kafka.brokers:
            sender.await_acks(50)
            handle.kill()
            sender.await_acks(50)
            handle.start()
            kafka.await_no_under_replicated()
    assert sender.errors == []
    assert_nothing_lost(kafka, sender)


def test_killing_the_controller_moves_it_and_loses_nothing(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", partitions=3, replication=3)
    with sending(kafka, "orders", partitions=3) as sender:
        sender.await_acks(50)
        first = present(kafka.brokers.controller)
        kafka.broker(first).kill()
        second = kafka.brokers.await_controller()
        assert second != first
        sender.await_acks(50)
        kafka.topic("prices", partitions=3, replication=2)  # proves that the new controller works
        kafka.broker(first).start()
        kafka.await_no_under_replicated()
        assert kafka.brokers.controller == second
    assert sender.errors == []
    assert_nothing_lost(kafka, sender)


def test_a_controlled_stop_moves_leaders_before_connections_die(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic("orders", partitions=6, replication=3)
    topic.send_many(map(str, range(60)))
    leaving = kafka.broker(2)
    broker = leaving._lifecycle.require_broker()
    led_at_end: list[int] = []
    stop = broker.stop

    def look_then_stop(*, keep: bool = True) -> None:
        led_at_end.extend(p for p in range(6) if kafka.existing_topic("orders").leader(p) == 2)
        stop(keep=keep)

    broker.stop = look_then_stop
    with sending(kafka, "orders", partitions=6) as sender:
        sender.await_acks(50)
        leaving.stop()
        assert led_at_end == []
        assert {kafka.existing_topic("orders").leader(p) for p in range(6)} <= {1, 3}
        sender.await_acks(50)
    assert sender.errors == []


def test_a_stopped_controller_hands_over_too(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=3, replication=3)
    first = present(kafka.brokers.controller)
    with sending(kafka, "orders", partitions=3) as sender:
        sender.await_acks(10)
        kafka.broker(first).stop()
        assert kafka.brokers.await_controller() != first
        for partition in range(3):
            assert orders.await_leader(partition) != first
        sender.await_acks(10)
        kafka.broker(first).start()
        kafka.await_no_under_replicated()
    assert_nothing_lost(kafka, sender)


def test_a_paused_leader_is_fenced_and_acknowledges_nothing(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    with sending(kafka, "orders") as sender:
        sender.await_acks(50)
        paused = orders.leader()
        epoch = orders.partition().leader_epoch
        kafka.broker(paused).pause()
        orders.await_isr(0, size=2)
        assert orders.await_leader() != paused
        sender.await_acks(50)
        kafka.broker(paused).resume()
        sender.await_acks(50)
        orders.await_isr(0, size=3)
    status = orders.partition()
    assert status.leader != paused
    assert status.leader_epoch > epoch
    assert sender.errors == []
    assert_nothing_lost(kafka, sender)


def test_a_resumed_leader_refuses_what_it_can_no_longer_replicate(kafka: EmbeddedKafka) -> None:
    """It still believes it leads, but acknowledges only what all in-sync replicas have."""
    orders = kafka.topic("orders", replication=3)
    paused = kafka.broker(orders.leader())
    stale = make_producer(kafka, **{"bootstrap.servers": paused.address})
    assert send(stale, "orders", "before")[0] is None
    paused.pause()
    orders.await_isr(0, size=2)
    paused.resume()
    error, message = send(stale, "orders", "after")
    assert error is None
    orders.await_isr(0, size=3)
    messages = kafka.existing_topic("orders").read()
    assert [(m.offset, m.text) for m in messages] == [(0, "before"), (message.offset(), "after")]


def test_a_short_pause_goes_unnoticed(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    before = orders.partition()
    kafka.broker(present(before.leader)).pause()
    kafka.broker(present(before.leader)).resume()
    assert send(make_producer(kafka), "orders", "x")[0] is None
    assert orders.partition().leader_epoch == before.leader_epoch


def test_a_paused_controller_is_replaced_and_comes_back_as_a_follower(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", partitions=3, replication=3)
    first = present(kafka.brokers.controller)
    kafka.broker(first).pause()
    second = kafka.brokers.await_controller()
    assert second != first
    kafka.topic("prices", replication=2)
    kafka.broker(first).resume()
    kafka.await_no_under_replicated()
    assert kafka.brokers.controller == second
    deposed = kafka.broker(first)._lifecycle.require_broker().controller
    assert deposed is not None
    assert not deposed.is_active


def test_too_few_in_sync_replicas_refuse_acks_all(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3, config={"min.insync.replicas": 2})
    leader, *others = orders.partition().replicas
    producer = make_producer(kafka, **{"enable.idempotence": False, "retries": 0})
    for broker_id in others:
        kafka.broker(broker_id).kill()
    orders.await_isr(0, size=1)
    error, _ = send(producer, "orders", "refused")
    assert error.code() == KafkaError.NOT_ENOUGH_REPLICAS
    lazy = make_producer(kafka, acks="1", **{"enable.idempotence": False})
    assert send(lazy, "orders", "taken")[0] is None
    kafka.broker(others[0]).start()
    orders.await_isr(0, size=2)
    assert send(producer, "orders", "taken again")[0] is None
    assert leader == orders.leader()


def test_without_unclean_election_a_partition_waits_for_its_last_replica(
    kafka: EmbeddedKafka,
) -> None:
    orders = kafka.topic("orders", replication=2)
    leader, follower = orders.partition().replicas
    topic = kafka.existing_topic("orders")
    topic.send("both have this")
    kafka.broker(follower).kill()
    topic.await_isr(0, size=1)
    topic.send("only the leader has this")
    kafka.broker(leader).kill()
    topic.await_no_leader()
    kafka.broker(follower).start()
    assert topic.partition().leader is None
    kafka.broker(leader).start()
    assert topic.await_leader() == leader
    assert len(topic.read()) == 2


def test_an_unclean_election_gives_up_records_to_go_on(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=2, config={"unclean.leader.election.enable": True})
    leader, follower = orders.partition().replicas
    topic = kafka.existing_topic("orders")
    topic.send("both have this")
    kafka.broker(follower).kill()
    topic.await_isr(0, size=1)
    topic.send("only the leader has this")
    kafka.broker(leader).kill()
    kafka.broker(follower).start()
    assert topic.await_leader() == follower
    # A new producer: an idempotent one would notice that its last record is missing.
    assert send(make_producer(kafka), "orders", "instead")[0] is None
    kafka.broker(leader).start()
    topic.await_isr(0, size=2)
    assert [message.text for message in topic.read()] == ["both have this", "instead"]


def test_a_topic_with_a_dead_replica_can_be_deleted_and_made_again(kafka: EmbeddedKafka) -> None:
    """When it starts, the dead broker finds logs of the earlier topic and sets them aside."""
    kafka.topic("orders", partitions=3, replication=3).send("old")
    dead = kafka.broker(2)
    directory = dead._lifecycle.require_broker().spec.log_dirs[0]
    dead.kill()
    kafka.existing_topic("orders").await_isr(0, size=2)
    kafka.existing_topic("orders").delete()
    assert any(directory.glob("orders-[0-9]"))
    topic = kafka.topic("orders", partitions=3, replication=2)
    dead.start()
    kafka.await_no_under_replicated()
    assert not any(directory.glob("orders-[0-9]"))
    assert topic.read() == []


def test_a_group_finds_its_offsets_again_when_its_coordinator_dies(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic("orders", partitions=1, replication=3)
    topic.send_many(map(str, range(10)))
    consumer = make_consumer(kafka)
    consumer.subscribe(["orders"])
    taken = read(consumer, 4)
    consumer.commit(message=taken[-1], asynchronous=False)
    coordinators = {kafka.existing_topic("__consumer_offsets").leader(p) for p in range(5)}
    assert coordinators == {1, 2, 3}
    dead = coordinator_of(kafka, "readers")
    kafka.broker(dead).kill()
    consumer.close()
    kafka.existing_topic("__consumer_offsets").await_leader(offsets_partition(kafka, "readers"))
    successor = make_consumer(kafka)
    successor.subscribe(["orders"])
    assert [int(present(message.value())) for message in read(successor, 6)] == list(range(4, 10))
    successor.close()


def test_a_consumer_goes_on_when_the_leader_it_reads_from_dies(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=3, replication=3)
    consumer = make_consumer(kafka)
    consumer.assign([confluent_kafka.TopicPartition("orders", p, 0) for p in range(3)])
    with sending(kafka, "orders", partitions=3) as sender:
        seen = read(consumer, 30)
        kafka.broker(orders.leader(1)).kill()
        seen += read(consumer, 300)
    consumer.close()
    for partition in range(3):
        offsets = [m.offset() for m in seen if m.partition() == partition]
        assert offsets == list(range(len(offsets)))
    assert_nothing_lost(kafka, sender)


def test_kafkas_own_session_timeout_can_be_set() -> None:
    config = {"zookeeper.session.timeout.ms": 60_000}
    with EmbeddedKafka(brokers=2, config=config) as kafka:
        orders = kafka.topic("orders", replication=2)
        dead = orders.leader()
        kafka.broker(dead).kill()
        assert orders.leader() == dead
        kafka.clock.advance(minutes=2)
        assert orders.await_leader() != dead


def read(
    consumer: confluent_kafka.Consumer, count: int, timeout_s: float = 20.0
) -> list[confluent_kafka.Message]:
    messages, deadline = [], time.monotonic() + timeout_s
    while len(messages) < count:
        assert time.monotonic() < deadline, f"got only {len(messages)} of {count} records in time"
        messages += [m for m in consumer.consume(count - len(messages), 0.1) if not m.error()]
    return messages
