"""Waiting for facts: it ends when they hold, and reports what held instead."""

import threading

import pytest

from embedkafka import AwaitTimeout, ClusterClosed, EmbeddedKafka, EmbedKafkaError
from tests.presence import present


def test_an_isr_that_does_not_come_is_reported_with_what_was_seen(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    kafka.broker(2).kill()
    orders.await_isr(0, size=2)
    with pytest.raises(AwaitTimeout) as caught:
        orders.await_isr(0, size=3, timeout_s=0.2)
    message = str(caught.value)
    assert message.startswith("waited 0.2 s for 3 in-sync replicas of orders-0; last seen: ")
    assert "orders-0 with leader" in message
    assert "ISR [" in message
    assert "broker 2  killed" in message


def test_waiting_ends_when_another_thread_makes_it_true(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    kafka.broker(3).stop()
    starting = threading.Thread(target=kafka.broker(3).start)
    starting.start()
    assert set(orders.await_isr(0, size=3)) == {1, 2, 3}
    starting.join()


def test_a_leader_that_is_dead_does_not_count(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=3)
    dead = orders.leader()
    kafka.broker(dead).kill()
    assert orders.await_leader() != dead


def test_a_controller_that_is_dead_does_not_count(kafka: EmbeddedKafka) -> None:
    dead = present(kafka.brokers.controller)
    kafka.broker(dead).kill()
    assert kafka.brokers.await_controller() != dead


def test_without_any_broker_nothing_comes(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", replication=3)
    for handle in kafka.brokers:
        handle.kill()
    with pytest.raises(AwaitTimeout, match="for a controller; last seen: controller"):
        kafka.brokers.await_controller(timeout_s=0.1)
    with pytest.raises(AwaitTimeout, match="all replicas in sync; last seen: orders-0 with leader"):
        kafka.await_no_under_replicated(timeout_s=0.1)


def test_partitions_that_do_not_exist_are_an_error_at_once(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders")
    with pytest.raises(EmbedKafkaError, match="topic orders has no partition 7"):
        orders.await_leader(7)
    with pytest.raises(EmbedKafkaError, match="no topic 'prices'"):
        kafka.existing_topic("prices").leader()


def test_a_partition_without_a_leader_has_none(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=1)
    kafka.broker(orders.leader()).kill()
    orders.await_no_leader()
    with pytest.raises(EmbedKafkaError, match="no leader: orders-0"):
        orders.leader()


def test_many_partitions_are_summed_up(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=12, replication=3)
    kafka.broker(1).kill()
    orders.await_isr(11, size=2)
    with pytest.raises(AwaitTimeout, match="and 7 more"):
        kafka.await_no_under_replicated(timeout_s=0.1)


def test_a_closed_cluster_says_so() -> None:
    with EmbeddedKafka() as kafka:
        pass
    assert kafka.describe() == "the cluster is not running"
    for use in (
        lambda: kafka.brokers.await_controller(),
        lambda: kafka.broker(1),
        lambda: kafka.bootstrap_servers,
    ):
        with pytest.raises(ClusterClosed, match="not running"):
            use()
