"""`reset()` empties a cluster between tests, while brokers and clients stay."""

import confluent_kafka
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from embedkafka import EmbeddedKafka, EmbedKafkaError, TopicSpec
from tests.cluster.traffic import (
    PATIENT,
    committed,
    make_consumer,
    make_producer,
    next_text,
    sending,
)


def open_transaction(kafka: EmbeddedKafka, topic: str) -> confluent_kafka.Producer:
    producer = make_producer(kafka, **{"transactional.id": "t"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, "never committed")
    producer.flush(20)
    return producer


def commit(kafka: EmbeddedKafka, group: str, topic: str, offset: int) -> None:
    consumer = make_consumer(kafka, group, **PATIENT)
    consumer.subscribe([topic])
    next_text(consumer)
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def change_broker_setting(kafka: EmbeddedKafka, name: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    for resource in ("1", "2"):
        wanted = ConfigResource(ResourceType.BROKER, resource, incremental_configs=[entry])
        for done in admin.incremental_alter_configs([wanted]).values():
            done.result(20)


def test_nothing_is_left_but_the_brokers(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=3, replication=3, config={"retention.ms": 123_456})
    orders.send("a", partition=0)
    commit(kafka, "readers", "orders", 1)
    open_transaction(kafka, "orders")
    change_broker_setting(kafka, "log.retention.ms", "123456")
    addresses = kafka.bootstrap_servers

    kafka.reset()

    assert kafka.describe().endswith("no topics")
    assert kafka.bootstrap_servers == addresses
    for handle in kafka.brokers:
        assert handle._lifecycle.require_broker().config.broker["log.retention.ms"] is None
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    assert admin.list_consumer_groups().result(20).valid == []
    again = kafka.topic("orders", replication=3)
    again.send("b")
    assert [(message.offset, message.text) for message in again.read()] == [(0, "b")]
    assert committed(kafka, "readers", "orders") == confluent_kafka.OFFSET_INVALID
    assert kafka.broker(1)._lifecycle.require_broker().config.overrides("topics", "orders") == {}


#: Errors that a client may see when a topic is deleted and re-created while in use.
CLEAR = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}


@pytest.mark.parametrize("is_idempotent", [False, True])
@pytest.mark.parametrize("brokers", [1, 3])
def test_a_producer_goes_on_through_resets(brokers: int, is_idempotent: bool) -> None:
    """Every record is acknowledged or refused, and no broker fails."""
    with EmbeddedKafka(brokers=brokers) as kafka:
        kafka.topic("orders", replication=brokers)
        with sending(kafka, "orders", **{"enable.idempotence": is_idempotent}) as sender:
            for _ in range(5):
                sender.await_acks(20)
                kafka.reset()
                kafka.topic("orders", replication=brokers)
            sender.await_acks(20)
        assert {error.code() for error in sender.errors} <= CLEAR
        kafka.check()


def test_an_open_transaction_is_nobodys_any_more(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", replication=3)
    former = open_transaction(kafka, "orders")

    kafka.reset()
    orders = kafka.topic("orders", replication=3)
    with pytest.raises(confluent_kafka.KafkaException):
        former.commit_transaction(20)
    producer = open_transaction(kafka, "orders")
    producer.commit_transaction(20)

    assert [message.text for message in orders.read()] == ["never committed"]


def test_brokers_come_back_and_topics_of_the_beginning_too() -> None:
    topics: dict[str, int | TopicSpec] = {
        "orders": 2,
        "prices": TopicSpec(config={"cleanup.policy": "compact"}),
    }
    with EmbeddedKafka(brokers=3, topics=topics) as kafka:
        kafka.existing_topic("orders").send("a")
        kafka.broker(2).kill()
        kafka.broker(3).pause()

        kafka.reset()

        assert [handle.is_reachable for handle in kafka.brokers] == [True, True, True]
        assert kafka.existing_topic("orders").read() == []
        assert len(kafka.existing_topic("orders").partition(1).isr) == 1
        overrides = kafka.broker(1)._lifecycle.require_broker().config.overrides("topics", "prices")
        assert overrides == {"cleanup.policy": "compact"}


def test_a_cluster_that_may_not_delete_says_so() -> None:
    with EmbeddedKafka(config={"delete.topic.enable": False}, topics={"orders": 1}) as kafka:
        with pytest.raises(EmbedKafkaError, match=r"delete\.topic\.enable"):
            kafka.reset()
        assert kafka.existing_topic("orders").leader() == 1
