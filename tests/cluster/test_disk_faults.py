"""Disks that fill up or break: replicas go offline, leaders move, a broker without a disk dies."""

import pytest

from embedkafka import ConfigError, EmbeddedKafka
from embedkafka.cluster.lifecycle import BrokerState
from tests.cluster.traffic import assert_nothing_lost, sending


def await_state(kafka, broker_id, state):
    handle = kafka.broker(broker_id)
    kafka._await(
        f"broker {broker_id} to be {state.value}",
        lambda: None if handle.state is state else handle.state.value,
    )


@pytest.mark.parametrize("fault", ["fill", "fail"])
def test_a_broker_whose_only_disk_fails_dies_and_comes_back_when_it_is_healed(kafka, fault):
    kafka.topic("orders", partitions=3, replication=3)
    with sending(kafka, "orders", partitions=3) as sender:
        sender.await_acks(30)
        getattr(kafka.faults.disk(2), fault)()
        await_state(kafka, 2, BrokerState.KILLED)
        for partition in range(3):
            assert kafka.await_leader("orders", partition) != 2
        sender.await_acks(30)
        kafka.faults.disk(2).heal()
        kafka.broker(2).start()
        kafka.await_no_under_replicated()
        sender.await_acks(30)
    assert sender.errors == []
    assert_nothing_lost(kafka, sender)


def test_a_broker_with_another_directory_goes_on_with_what_is_there():
    with EmbeddedKafka(brokers=3, log_dirs=2) as kafka:
        kafka.topic("orders", partitions=6, replication=3)
        with sending(kafka, "orders", partitions=6) as sender:
            sender.await_acks(60)
            kafka.faults.disk(1).fail(directory=2)
            lost = [log.topic_partition.partition for log in logs_in(kafka, 1, directory=2)]
            assert lost
            for partition in lost:
                assert 1 not in kafka.await_isr("orders", partition, size=2)
                assert kafka.await_leader("orders", partition) != 1
            kept = set(range(6)) - set(lost)
            assert kept
            for partition in kept:
                assert 1 in kafka.describe_partition("orders", partition).isr
            sender.await_acks(60)
            kafka.faults.disk(1).heal()
            kafka.broker(1).restart()
            kafka.await_no_under_replicated()
        assert sender.errors == []
        assert_nothing_lost(kafka, sender)


def test_a_full_disk_leaves_what_was_written_readable():
    with EmbeddedKafka() as kafka:
        topic = kafka.topic("orders")
        topic.send_many(map(str, range(10)))
        kafka.faults.disk(1).fill()
        kafka.faults.disk(1).heal()
        assert len(topic.read()) == 10
        topic.send("more")


def test_a_broker_needs_a_directory():
    with pytest.raises(ConfigError, match="at least one log directory"):
        EmbeddedKafka(log_dirs=0)


def logs_in(kafka, broker_id, *, directory):
    broker = kafka.broker(broker_id).require_broker()
    root = broker.spec.log_dirs[directory - 1]
    return [
        log
        for log in broker.logs.all_logs()
        if log.directory.parent == root and log.topic_partition.topic == "orders"
    ]
