"""A throttled reassignment is slow and delays nothing else (KIP-73)."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from embedkafka import EmbeddedKafka
from embedkafka.runtime.ids import TopicPartition
from tests.cluster.reassignment import reassign, replicas_of
from tests.wire.clients import eventually

VALUE = "x" * 100_000
COUNT = 50
ONE_BYTE_A_SECOND = "1"
UNLIMITED = str(2**63 - 1)


@pytest.fixture
def kafka_at_rate() -> Iterator[Any]:
    """Starts three brokers with a given throttle rate."""
    with contextlib.ExitStack() as running:
        yield lambda role, rate: running.enter_context(
            EmbeddedKafka(brokers=3, config={f"{role}.replication.throttled.rate": rate})
        )


def limit(kafka: EmbeddedKafka, role: Any, rate: Any) -> None:
    """Changes the rate of every broker."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    entry = ConfigEntry(
        f"{role}.replication.throttled.rate", rate, incremental_operation=AlterConfigOpType.SET
    )
    for broker in kafka.brokers:
        wanted = ConfigResource(ResourceType.BROKER, str(broker.id), incremental_configs=[entry])
        for done in admin.incremental_alter_configs([wanted]).values():
            done.result(20)


def end_offset(kafka: EmbeddedKafka, broker_id: int, topic: str) -> int:
    replicas = kafka.broker(broker_id)._lifecycle.require_broker().replicas
    partition = replicas.hosted.find(TopicPartition(topic, 0))
    return 0 if partition is None or partition.log is None else partition.log.log_end_offset


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_throttled_reassignment_waits_until_it_may_go_on(kafka_at_rate: Any, role: str) -> None:
    kafka = kafka_at_rate(role, ONE_BYTE_A_SECOND)
    throttled = {f"{role}.replication.throttled.replicas": "*"}
    moving = kafka.topic("moving", replication=1, config=throttled)
    staying = kafka.topic("staying", replication=3)
    moving.send_many([VALUE] * COUNT)
    source = moving.leader()
    if kafka.brokers.controller == source:
        kafka.broker(source).restart()
        kafka.brokers.await_controller()
        kafka.await_no_under_replicated()
    first = kafka.brokers.controller
    assert first != source
    (target,) = {1, 2, 3} - {source, first}

    reassign(kafka, "moving", [target])

    eventually(lambda: end_offset(kafka, target, "moving") > 0, "the first records have come")
    staying.send_many([VALUE] * COUNT)  # all three brokers acknowledge them
    assert 0 < end_offset(kafka, target, "moving") < COUNT
    kafka.broker(first).kill()  # the next controller resumes the reassignment
    kafka.brokers.await_controller()
    kafka.broker(first).start()
    assert replicas_of(kafka, "moving") == {source, target}

    limit(kafka, role, UNLIMITED)

    eventually(lambda: replicas_of(kafka, "moving") == {target}, "the replica has moved")
    assert [message.text for message in moving.read()] == [VALUE] * COUNT
