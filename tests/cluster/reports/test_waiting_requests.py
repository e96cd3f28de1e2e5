"""`kafka.waiting()`: which requests wait, what for, and until when."""

from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from embedkafka import EmbeddedKafka, TopicPartition, TopicSpec, WaitingRequest
from embedkafka.runtime.addresses import parse_address
from embedkafka.wire.protocol.messages.topics import (
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
)
from tests.cluster.followers import await_first_fetches
from tests.cluster.members import Members
from tests.cluster.traffic import make_consumer, make_producer
from tests.presence import present
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    config = {"replica.lag.time.max.ms": 600_000, "offsets.topic.replication.factor": 3}
    topics = {"orders": TopicSpec(replication=3), "quiet": TopicSpec()}
    with EmbeddedKafka(brokers=3, topics=topics, config=config) as kafka:
        await_first_fetches(kafka, "orders")
        yield kafka


def connect(kafka: EmbeddedKafka, broker: int) -> RawClient:
    return RawClient(*parse_address(kafka.broker(broker).address))


def awaited(kafka: EmbeddedKafka, fits: Callable[[WaitingRequest], bool]) -> WaitingRequest:
    found = eventually(lambda: [one for one in kafka.waiting() if fits(one)], "a request waits")
    return found[0]


def test_a_produce_waits_for_the_replica_that_is_cut_off(kafka: EmbeddedKafka) -> None:
    leader = kafka.existing_topic("orders").leader()
    lost = min({1, 2, 3} - {leader})
    producer = make_producer(kafka, **{"client.id": "shop", "request.timeout.ms": 60_000})
    with kafka.faults.cut_link(lost, leader):
        producer.produce("orders", b"a")
        waiting = awaited(kafka, lambda one: one.api == "PRODUCE")
        report = kafka.report()
    assert (waiting.broker, waiting.operation, waiting.client_id) == (leader, "Produce", "shop")
    assert waiting.partitions == (TopicPartition("orders", 0),)
    assert waiting.topics == ("orders",)
    assert waiting.replicas == (lost,)
    assert waiting.waits_for == f"orders-0: broker {lost}, which is at 0 of 1"
    assert waiting.left_ms is not None
    assert 0 < waiting.left_ms <= 60_000
    assert f"broker {leader}  shop  PRODUCE  waits for {waiting.waits_for}" in report
    assert producer.flush(30) == 0
    assert not [one for one in kafka.waiting() if one.api == "PRODUCE"]


def test_a_deletion_of_records_waits_for_the_replica_that_has_them_still(
    kafka: EmbeddedKafka,
) -> None:
    kafka.topic("trimmed", replication=3).send("a")
    kafka.existing_topic("trimmed").await_isr(size=3)
    leader = kafka.existing_topic("trimmed").leader()
    lost = min({1, 2, 3} - {leader})
    partition = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=-1)
    topic = DeleteRecordsRequest.Topic(name="trimmed", partitions=[partition])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=60_000)
    with connect(kafka, leader) as raw:
        with kafka.faults.cut_link(lost, leader):
            sent = raw.send(request, 2)
            waiting = awaited(kafka, lambda one: one.operation == "DeleteRecords")
        assert raw.receive(request, 2, sent).topics[0].partitions[0].low_watermark == 1
    assert waiting.replicas == (lost,)
    assert waiting.waits_for.startswith(f"trimmed-0: broker {lost}, which is at 0")


def test_a_fetch_waits_for_records_that_are_not_there(kafka: EmbeddedKafka) -> None:
    consumer = make_consumer(kafka, **{"client.id": "idle", "fetch.wait.max.ms": 60_000})
    consumer.assign([confluent_kafka.TopicPartition("quiet", 0, 0)])
    consumer.poll(0)
    waiting = awaited(kafka, lambda one: one.client_id == "idle" and one.operation == "Fetch")
    assert waiting.waits_for == "quiet-0: records from 0 on"
    assert (waiting.partitions, waiting.replicas) == ((TopicPartition("quiet", 0),), ())
    kafka.existing_topic("quiet").send("a")
    assert present(consumer.poll(30)).value() == b"a"
    consumer.close()


def test_topics_wait_for_a_broker_that_the_controller_does_not_reach(kafka: EmbeddedKafka) -> None:
    assert kafka.brokers.controller is not None
    uninformed = 1 + kafka.brokers.controller % 3
    topic = CreateTopicsRequest.Topic(
        name="made", num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    creation = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
    deletion = DeleteTopicsRequest(topics=[], topic_names=["made"], timeout_ms=60_000)
    with connect(kafka, uninformed) as raw:
        for request, version, what in ((creation, 7, "its leaders"), (deletion, 5, "its deletion")):
            with kafka.faults.stall_link(kafka.brokers.controller, uninformed):
                sent = raw.send(request, version)
                waiting = awaited(kafka, lambda one: one.topics == ("made",))
            raw.receive(request, version, sent)
            assert (waiting.broker, waiting.operation) == (uninformed, "topic")
            assert waiting.waits_for == f"made: {what}"
            assert waiting.partitions == ()


def test_members_wait_for_each_other(kafka: EmbeddedKafka) -> None:
    with Members(kafka, "readers", "orders") as members:
        first = members.stable()
        second = members.id()
        members.join_and_wait(second)
        waiting = awaited(kafka, lambda one: one.group == "readers")
        assert (waiting.operation, waiting.api, waiting.client_id) == (
            "Rebalance",
            "JOIN_GROUP",
            "test",
        )
        assert waiting.waits_for == f"group readers: {first} to join"
        assert waiting.left_ms is not None
        assert 0 < waiting.left_ms <= 60_000
        assert f"JOIN_GROUP  waits for {waiting.waits_for}" in kafka.report()


def test_a_commit_waits_like_the_write_that_stores_it(kafka: EmbeddedKafka) -> None:
    consumer = make_consumer(kafka, "committers", **{"client.id": "saver"})
    offset = confluent_kafka.TopicPartition("orders", 0, 0)
    consumer.commit(offsets=[offset], asynchronous=False)
    coordinator = kafka.group("committers").coordinator()
    lost = min({1, 2, 3} - {coordinator})
    with kafka.faults.cut_link(lost, coordinator):
        consumer.commit(offsets=[offset], asynchronous=True)
        waiting = awaited(kafka, lambda one: one.operation == "Produce")
    consumer.close()
    assert (waiting.api, waiting.client_id) == ("OFFSET_COMMIT", "saver")
    assert waiting.replicas == (lost,)
    assert waiting.topics == ("__consumer_offsets",)
