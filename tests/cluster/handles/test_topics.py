"""A test author's use of a topic handle."""

import re
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from embedkafka import AwaitTimeout, EmbeddedKafka, EmbedKafkaError, Message, OwnedBroker, Topic
from embedkafka.broker.replica.delayed import DelayedProduce
from embedkafka.runtime.clock import SystemClock
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.errors import ErrorCode
from tests.presence import present
from tests.wire.one_partition import batch, produce_request


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3) as kafka:
        yield kafka


def test_a_record_comes_back_with_all_its_parts(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic(partitions=3)
    sent = topic.send(
        "value", key="key", partition=2, headers={"trace": "1", "empty": None}, timestamp_ms=1234
    )
    assert (sent.partition, sent.offset) == (2, 0)
    (message,) = topic.read()
    assert message.key == b"key"
    assert message.text == "value"
    assert message.timestamp_ms == 1234
    assert message.headers == (("trace", b"1"), ("empty", None))


def test_json_goes_in_and_comes_out(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic()
    topic.send_json({"id": 1})
    topic.send(None, key="tombstone")
    assert topic.read_json() == [{"id": 1}, None]


def test_reading_an_empty_topic_is_quick_and_gives_nothing(kafka: EmbeddedKafka) -> None:
    assert kafka.topic(partitions=5).read() == []


def test_many_records_keep_their_order(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic()
    topic.send_many(str(n) for n in range(10_000))
    assert [message.text for message in topic.read()] == [str(n) for n in range(10_000)]


def test_waiting_in_vain_says_what_was_seen(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic()
    topic.send("only one")
    said = wait_in_vain(topic, 2)
    assert re.search(rf"for 2 records of {topic.name} and saw 1; the last:\n.*only one", said)


def wait_in_vain(topic: Topic, condition: int | Callable[[list[Message]], object]) -> str:
    """What is said after a wait that was long enough to see the record that is there."""
    for timeout_s in (0.2, 2, 20):
        with pytest.raises(EmbedKafkaError) as error:
            topic.wait_for(condition, timeout_s=timeout_s)
        if isinstance(error.value, AwaitTimeout) and "and saw 1" in str(error.value):
            break
    return str(error.value)


def test_waiting_ends_when_the_condition_holds(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic()
    topic.send_many(["a", "b", "c"])
    assert len(topic.wait_for(lambda messages: messages and messages[-1].text == "c")) == 3


def test_a_condition_on_no_records_sees_those_that_are_there(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic()
    topic.send("still here")
    said = wait_in_vain(topic, lambda records: records == [])
    assert re.search(r"and saw 1; the last:\n.*still here", said)
    assert kafka.topic(partitions=3).wait_for(lambda records: records == []) == []


def test_what_is_deleted_while_waiting_no_longer_counts(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic(partitions=2)
    for partition, value in ((0, "goes"), (0, "stays"), (1, "stays too")):
        topic.send(value, partition=partition)
    calls: list[list[str]] = []

    def is_gone(records: list[Message]) -> bool:
        calls.append(sorted(present(record.text) for record in records))
        if len(calls[-1]) == 3 and calls.count(calls[-1]) == 1:
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
            for done in admin.delete_records([TopicPartition(topic.name, 0, 1)]).values():
                done.result(30)
        return calls[-1] == ["stays", "stays too"]

    assert len(topic.wait_for(is_gone)) == 2
    assert ["goes", "stays", "stays too"] in calls


def test_a_topic_grows_and_goes(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic(partitions=1)
    topic.send("before")
    topic.add_partitions(4)
    assert topic.send("x", partition=3).partition == 3
    topic.delete()
    assert topic.name not in kafka.describe()  # no broker has a replica left
    again = kafka.topic(topic.name)
    assert again.read() == []


@pytest.mark.parametrize("count", [33_000_000, 2**31 - 1])
def test_a_number_alone_does_not_stop_a_broker(kafka: EmbeddedKafka, count: int) -> None:
    """The request is refused before placement, which would block a thread that serves others."""
    topic = kafka.topic()
    with pytest.raises(EmbedKafkaError, match="POLICY_VIOLATION"):
        kafka.topic("large", partitions=count)
    with pytest.raises(EmbedKafkaError, match="POLICY_VIOLATION"):
        topic.add_partitions(count)
    topic.send("goes on")


def test_spark_is_told_where_to_read(kafka: EmbeddedKafka) -> None:
    topic = kafka.topic()
    assert topic.spark_options(failOnDataLoss="false") == {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": topic.name,
        "startingOffsets": "earliest",
        "kafka.fetch.max.wait.ms": "10",
        "failOnDataLoss": "false",
    }


@pytest.mark.timeout(30)
def test_a_deletion_that_nobody_answers_ends_in_its_time(kafka: EmbeddedKafka) -> None:
    """Each of three brokers is asked once, and none for the half minute of other requests."""
    unanswered = kafka.topic("unanswered")
    kafka.faults.drop_reply("DELETE_TOPICS", times=None)
    with pytest.raises(EmbedKafkaError, match="no broker answers"):
        unanswered.delete(timeout_s=0.1)
    kafka.faults.clear()
    unanswered.await_gone()


def test_a_produce_that_waits_is_answered_when_its_topic_is_deleted(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By topic id, as the Java client produces: after the deletion, the id has no name."""
    name = kafka.topic(replication=3).name
    topic_id = kafka.broker(1)._lifecycle.require_broker().metadata.snapshot.topic_ids[name]
    leader = kafka.existing_topic(name).leader()
    everyone = {handle.id for handle in kafka.brokers}
    side = {leader, present(kafka.brokers.controller)}
    kafka.brokers.partition(side, everyone - side, zookeeper=everyone)
    waits = note_waiting(kafka.broker(leader), monkeypatch)
    with ThreadPoolExecutor(2) as threads:
        answer = threads.submit(produce_by_id, kafka.broker(leader), topic_id)
        assert waits.wait(20)
        gone = threads.submit(kafka.existing_topic(name).delete)
        assert answer.result(20) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        kafka.brokers.heal()
        gone.result(20)
    kafka.check()


def note_waiting(handle: OwnedBroker, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event that is set once a produce request waits for replicas at this broker."""
    waits = threading.Event()
    purgatory = handle._lifecycle.require_broker().replicas.waiters.produce
    watch = purgatory.try_complete_else_watch

    def watch_and_tell(operation: DelayedProduce, keys: Any) -> bool:
        completed = watch(operation, keys)
        waits.set()
        return completed

    monkeypatch.setattr(purgatory, "try_complete_else_watch", watch_and_tell)
    return waits


def produce_by_id(handle: OwnedBroker, topic_id: uuid.UUID) -> ErrorCode:
    records = batch(b"a", timestamp=0)
    request = produce_request("", records, topic_id=topic_id, timeout_ms=60_000)
    host, _, port = handle.address.rpartition(":")
    client = BrokerClient(host, int(port), SystemClock(), "by-id")
    try:
        (topic,) = client.call(request, 13).responses
    finally:
        client.close()
    assert topic.topic_id == topic_id
    return ErrorCode(topic.partition_responses[0].error_code)


def test_a_topic_made_again_with_fewer_partitions_takes_records(kafka: EmbeddedKafka) -> None:
    for partitions in (8, 1, 8, 1):
        topic = kafka.topic("shrunk", partitions=partitions)
        for key in range(8):
            topic.send("value", key=str(key))
        assert len(topic.read()) == 8
        topic.delete()


def test_a_topic_from_the_configuration_grows_under_its_producer() -> None:
    with EmbeddedKafka(topics={"configured": 1}) as kafka:
        topic = kafka.existing_topic("configured")
        topic.send("before")
        topic.add_partitions(4)
        assert topic.send("x", partition=3).partition == 3


def test_a_topic_whose_leader_changed_can_be_made_again(kafka: EmbeddedKafka) -> None:
    """The handles' producer would prefer the old leader, whose epoch was higher."""
    topic = kafka.topic(replication=3)
    kafka.broker(topic.leader()).restart()
    kafka.await_no_under_replicated()
    topic.send("old")
    old_leader = topic.leader()
    while True:  # about one time in three it is the same
        topic.delete()
        topic = kafka.topic(topic.name, replication=3)
        if topic.leader() != old_leader:
            break
    topic.send("new")
    assert [message.text for message in topic.read()] == ["new"]
