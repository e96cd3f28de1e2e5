"""Metrics of controllers and of what waits: by Kafka's names, from the first question on."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.cluster.reports.metrics import Metrics
from embedkafka.runtime.addresses import parse_address
from embedkafka.wire.protocol.messages.topics import DeleteTopicsRequest
from tests.cluster.members import Members
from tests.cluster.traffic import make_producer
from tests.presence import present
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    config = {"replica.lag.time.max.ms": 600_000, "auto.leader.rebalance.enable": "false"}
    with EmbeddedKafka(brokers=3, config=config) as kafka:
        kafka.topic("early")
        first = kafka.metrics()
        assert first.total("TopicChangeRateAndTimeMs.Count") == 0, "events before the question"
        yield kafka


def awaited(kafka: EmbeddedKafka, holds: Callable[[Metrics], bool]) -> Metrics:
    def find() -> list[Metrics]:
        metrics = kafka.metrics()
        return [metrics] if holds(metrics) else []

    return eventually(find, "the metrics show it")[0]


def test_the_creation_of_a_topic_is_timed_and_so_are_its_requests(kafka: EmbeddedKafka) -> None:
    before = kafka.metrics()
    kafka.topic("orders", replication=3)
    other = 1 + present(kafka.brokers.controller) % 3

    def grown(after: Metrics, name: str, **labels: object) -> float:
        labels = {"broker": kafka.brokers.controller, **labels}
        return after.total(name, **labels) - before.total(name, **labels)

    after = awaited(
        kafka,
        lambda now: grown(now, "LeaderAndIsrResponseReceivedRateAndTimeMs.Count") == 3,
    )
    assert grown(after, "TopicChangeRateAndTimeMs.Count") == 1
    assert grown(after, "TopicChangeRateAndTimeMs") > 0
    assert grown(after, "EventQueueTimeMs.Count") >= 4
    assert grown(after, "RequestRateAndQueueTimeMs.Count", broker_id=other) >= 2
    assert grown(after, "RequestRateAndQueueTimeMs", broker_id=other) >= 0
    assert after.total("TopicChangeRateAndTimeMs.Count", broker=other) == 0
    assert after.total("ControllerState", broker=kafka.brokers.controller) in range(18)
    settled = awaited(kafka, lambda now: now.total("EventQueueSize") == 0)
    assert settled.total("TotalQueueSize") == settled.total("QueueSize") == 0


def test_a_deletion_that_waits_for_a_broker_is_counted(kafka: EmbeddedKafka) -> None:
    assert kafka.brokers.controller is not None
    kafka.topic("doomed", partitions=2, replication=3)
    silent = 1 + present(kafka.brokers.controller) % 3
    request = DeleteTopicsRequest(topics=[], topic_names=["doomed"], timeout_ms=60_000)
    with closing(connect(kafka, kafka.brokers.controller)) as raw:
        with kafka.faults.stall_link(kafka.brokers.controller, silent):
            sent = raw.send(request, 5)
            held = awaited(
                kafka,
                lambda now: (
                    now.total("TopicsToDeleteCount") == 1
                    and now.total("ReplicasToDeleteCount") == 2
                    and now.total("QueueSize", broker_id=silent) > 0
                    and now.total("NumDelayedOperations", delayedOperation="topic") == 1
                ),
            )
            assert held.total("TopicsIneligibleToDeleteCount") == 0
            assert held.total("ReplicasIneligibleToDeleteCount") == 0
            assert held.total("TotalQueueSize", broker=kafka.brokers.controller) > 0
        raw.receive(request, 5, sent)
    assert kafka.metrics().total("TopicsToDeleteCount") == 0


def test_metrics_are_there_while_a_controller_does_not_reach_zookeeper() -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        lost = present(kafka.brokers.controller)
        kafka.broker(lost).pause()
        assert kafka.metrics().total("ActiveBrokerCount") == 2
        awaited(kafka, lambda now: now.total("ActiveControllerCount", broker=3 - lost) == 1)
        kafka.broker(lost).resume()
        kafka.brokers.partition({lost}, {3 - lost}, zookeeper={3 - lost})
        metrics = kafka.metrics()
        assert metrics.total("ActiveControllerCount") == 1
        assert "activecontrollercount" in metrics.prometheus()


def test_what_waits_is_counted_by_purgatory(kafka: EmbeddedKafka) -> None:
    slow = kafka.topic("slow", replication=3)
    leader = slow.leader()
    producer = make_producer(kafka, **{"request.timeout.ms": 60_000})
    with kafka.faults.cut_link(1 + leader % 3, leader):
        producer.produce("slow", b"a")
        held = awaited(
            kafka,
            lambda now: now.total("NumDelayedOperations", delayedOperation="Produce") == 1,
        )
        assert held.total("PurgatorySize", delayedOperation="Produce", broker=leader) == 1
    assert producer.flush(30) == 0

    with Members(kafka, "readers", "early") as members:
        members.stable()
        stable = awaited(
            kafka,
            lambda now: now.total("NumDelayedOperations", delayedOperation="Heartbeat") == 1,
        )
        assert stable.total("NumDelayedOperations", delayedOperation="Rebalance") == 0
        members.join_and_wait(members.id())
        awaited(
            kafka,
            lambda now: now.total("NumDelayedOperations", delayedOperation="Rebalance") == 1,
        )


def connect(kafka: EmbeddedKafka, broker: int) -> RawClient:
    return RawClient(*parse_address(kafka.broker(broker).address))
