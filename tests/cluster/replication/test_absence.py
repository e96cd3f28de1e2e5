"""Brokers that return after partitions have moved and topics have been deleted."""

from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from embedkafka import EmbeddedKafka, EmbedKafkaError, TopicSpec
from embedkafka.broker.log.log import Log
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.messages.core import MetadataRequest
from tests.cluster.reassignment import reassign, replicas_of
from tests.cluster.traffic import make_producer
from tests.presence import present
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient

AWAY = ["pause", "cut"]


def leave(kafka: EmbeddedKafka, broker_id: int, how: str) -> None:
    """Takes a broker away until its session has expired."""
    if how == "pause":
        kafka.broker(broker_id).pause()
    else:
        kafka.brokers.partition({broker_id}, {1, 2, 3} - {broker_id})
    zk = kafka._require_brokers().zk
    eventually(lambda: zk.find_broker(broker_id) is None, "its session has expired")


def come_back(kafka: EmbeddedKafka, broker_id: int, how: str) -> None:
    if how == "pause":
        kafka.broker(broker_id).resume()
    else:
        kafka.brokers.heal()
    kafka.brokers.await_all()


def hosted_by(kafka: EmbeddedKafka, broker_id: int, topic: str = "orders") -> list[Log]:
    broker = kafka.broker(broker_id)._lifecycle.require_broker()
    return [log for log in broker.logs.all_logs() if log.topic_partition.topic == topic]


def lose_leader(kafka: EmbeddedKafka, topic: str, how: str) -> Any:
    """Moves a partition away from its leader without its knowledge; returns that leader."""
    old = kafka.existing_topic(topic).leader()
    new = min({1, 2, 3} - {old})
    leave(kafka, old, how)
    kafka.existing_topic(topic).await_isr(size=2)
    reassign(kafka, topic, [new])
    eventually(lambda: replicas_of(kafka, topic) == {new}, "the partition has moved")
    return old


@pytest.mark.parametrize("how", AWAY)
def test_a_leader_that_missed_its_reassignment_drops_its_replica(
    kafka: EmbeddedKafka, how: str
) -> None:
    topic = kafka.topic("orders", replication=3)
    topic.send("before")
    old = lose_leader(kafka, "orders", how)
    come_back(kafka, old, how)
    assert hosted_by(kafka, old) == []
    replicas = kafka.broker(old)._lifecycle.require_broker().replicas
    assert replicas.hosted.find(TopicPartition("orders", 0)) is None


@pytest.mark.parametrize("controller_changes", [False, True])
def test_a_broker_that_is_away_too_briefly_to_be_missed_hears_all_the_same(
    controller_changes: bool,
) -> None:
    """Its session survives, so it gets the queued requests; a new controller has no such queue."""
    with EmbeddedKafka(brokers=3, config={"zookeeper.session.timeout.ms": 600_000}) as kafka:
        kafka.topic("orders", replication=3).send("a")
        controller, leader = kafka.brokers.controller, kafka.existing_topic("orders").leader()
        away = next(b for b in (1, 2, 3) if b not in (controller, leader))
        kafka.broker(away).pause()
        reassign(kafka, "orders", [leader])
        eventually(lambda: replicas_of(kafka, "orders") == {leader}, "the replica is gone")
        assert hosted_by(kafka, away), "the absent broker already knows"
        if controller_changes:
            kafka.broker(present(controller)).restart()
        kafka.broker(away).resume()
        kafka.brokers.await_all()
        assert hosted_by(kafka, away) == []


def test_what_is_acknowledged_after_its_return_is_kept(kafka: EmbeddedKafka) -> None:
    """The producer knows no other leader and looks for one when the old one refuses."""
    topic = kafka.topic("orders", replication=3)
    quiet = {"topic.metadata.refresh.interval.ms": -1, "metadata.max.age.ms": 900_000}
    producer = make_producer(kafka, **{"acks": 1, "enable.idempotence": False}, **quiet)
    producer.produce("orders", "before")
    producer.flush(20)
    old = lose_leader(kafka, "orders", "pause")
    come_back(kafka, old, "pause")
    errors = []
    producer.produce("orders", "after", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert errors == [None]
    assert [message.text for message in topic.read()] == ["before", "after"]


@pytest.mark.parametrize("how", AWAY)
def test_a_topic_made_again_is_whole_on_a_broker_that_missed_the_deletion(
    kafka: EmbeddedKafka, how: str
) -> None:
    kafka.topic("orders", partitions=3, replication=3).send("old")
    away = kafka.existing_topic("orders").leader()
    leave(kafka, away, how)
    kafka.existing_topic("orders").delete()
    orders = kafka.topic("orders", partitions=3, replication=2)
    come_back(kafka, away, how)
    kafka.await_no_under_replicated()
    assert hosted_by(kafka, away) == []
    orders.delete()
    topic = kafka.topic("orders", partitions=3, replication=3)
    kafka.await_no_under_replicated()
    assert topic.read() == []
    assert len(hosted_by(kafka, away)) == 3


@pytest.mark.parametrize("how", AWAY)
def test_reset_leaves_nothing_on_a_leader_that_missed_its_reassignment(how: str) -> None:
    topics = {"orders": TopicSpec(replication=3)}
    with EmbeddedKafka(brokers=3, topics=topics) as kafka:
        topic = kafka.existing_topic("orders")
        topic.send("old")
        with Transaction(kafka):
            old = lose_leader(kafka, "orders", how)
            kafka.reset()
        kafka.await_no_under_replicated()
        assert [log.log_end_offset for log in hosted_by(kafka, old)] == [0]
        assert kafka.existing_topic("orders").read() == []
        with Transaction(kafka) as transaction:
            transaction.commit_transaction(20)
        assert [m.text for m in topic.read()] == ["in a transaction"]


class Transaction:
    """An open transaction with one record. Entering it returns the producer."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self._producer = make_producer(kafka, **{"transactional.id": "t"})

    def __enter__(self) -> Producer:
        self._producer.init_transactions(20)
        self._producer.begin_transaction()
        self._producer.produce("orders", "in a transaction")
        self._producer.flush(20)
        return self._producer

    def __exit__(self, *failure: Any) -> None:
        """Leaves the transaction open."""


def test_reset_gives_a_broker_back_a_disk_that_failed() -> None:
    with EmbeddedKafka(brokers=2, log_dirs=2) as kafka:
        kafka.topic("orders", partitions=4, replication=2).send("old")
        kafka.faults.disk(1).fail(directory=2)
        for partition in range(4):
            kafka.existing_topic("orders").send("old", partition=partition)
        eventually(lambda: not kafka.broker(1).has_all_disks, "the disk has failed")
        kafka.reset()
        assert kafka.broker(1).has_all_disks
        topic = kafka.topic("orders", partitions=4, replication=2)
        kafka.await_no_under_replicated()
        assert topic.read() == []


@pytest.mark.parametrize("controller_changes", [False, True])
def test_a_broker_that_missed_a_deletion_does_not_list_the_topic(
    kafka: EmbeddedKafka, controller_changes: bool
) -> None:
    away = next(broker.id for broker in kafka.brokers if broker.id != kafka.brokers.controller)
    orders = kafka.topic("orders", replication=2)
    kafka.topic("payments", replication=2)
    leave(kafka, away, "cut")
    orders.delete()
    if controller_changes:
        kafka.broker(kafka.brokers.await_controller()).restart()
    come_back(kafka, away, "cut")
    for broker in kafka.brokers:
        host, _, port = broker.address.rpartition(":")
        with RawClient(host, int(port)) as client:
            answer = client.call(MetadataRequest(topics=None), 12)
        assert [topic.name for topic in answer.topics] == ["payments"], f"broker {broker.id}"


def test_the_name_of_a_deleted_topic_is_free_though_a_replica_is_dead() -> None:
    """As on KRaft: the dead broker settles its log when it returns."""
    with EmbeddedKafka(brokers=3, config={"auto.create.topics.enable": False}) as kafka:
        kafka.topic("orders", replication=3).send("old")
        kafka.broker(3).kill()
        kafka.existing_topic("orders").await_isr(size=2)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        admin.delete_topics(["orders"], operation_timeout=20)["orders"].result(20)
        admin.create_topics([NewTopic("orders", 1, 2)], operation_timeout=20)["orders"].result(20)
        kafka.broker(3).start()
        reassign(kafka, "orders", [3])
        eventually(lambda: replicas_of(kafka, "orders") == {3}, "the topic is on broker 3 alone")
        assert kafka.existing_topic("orders").read() == []


def test_a_topic_whose_only_broker_is_dead_can_be_deleted(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=1)
    dead = orders.leader()
    kafka.broker(dead).kill()
    orders.delete()
    with pytest.raises(EmbedKafkaError):
        orders.partition()
    kafka.broker(dead).start()
    assert hosted_by(kafka, dead) == []


def test_a_topic_that_is_being_moved_to_a_dead_broker_can_be_deleted(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=1)
    leader = orders.leader()
    target = min({1, 2, 3} - {leader, kafka.brokers.controller})
    kafka.broker(target).pause()
    reassign(kafka, "orders", [target])
    orders.delete()
    others = [
        AdminClient({"bootstrap.servers": kafka.broker(b).address}) for b in {1, 2, 3} - {target}
    ]
    eventually(
        lambda: not any(target in admin.list_topics(timeout=5).brokers for admin in others),
        "the others know that its session has expired, and place nothing there",
    )
    kafka.topic("orders", replication=1).send("new")
    kafka.broker(target).resume()
    kafka.brokers.await_all()
    assert len([b for b in (1, 2, 3) if hosted_by(kafka, b)]) == 1
