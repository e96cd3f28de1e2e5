"""Each record is copied once, whichever broker dies: one transaction holds records and offsets."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from embedkafka import EmbeddedKafka
from embedkafka.runtime.hashing import coordinator_partition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.transactions import DescribeProducersRequest
from tests.cluster.copying import JavaCopier, copying
from tests.cluster.traffic import make_consumer, make_producer, sending
from tests.java_tools.java_client import JavaClient
from tests.wire.raw_client import RawClient
from tests.wire.raw_transaction import RawTransaction

RECORDS = 300
PARTITIONS = 3
STATE_PARTITIONS = 5  # in each internal topic


@pytest.fixture
def copied(kafka: EmbeddedKafka) -> EmbeddedKafka:
    """A cluster with a source full of records, an empty sink, and coordinators."""
    numbers = range(RECORDS)
    source = kafka.topic("source", partitions=PARTITIONS, replication=3)
    kafka.topic("sink", partitions=PARTITIONS, replication=3)
    source.send_many(map(str, numbers), partitions=[number % PARTITIONS for number in numbers])
    make_producer(kafka, **{"transactional.id": "warm-up"}).init_transactions(30)
    consumer = make_consumer(kafka, "warm-up")
    consumer.committed([], timeout=10)
    consumer.subscribe(["source"])
    consumer.poll(1)
    consumer.close()
    return kafka


def transaction_coordinator(kafka: EmbeddedKafka, name: str = "copier") -> int:
    return kafka.existing_topic("__transaction_state").leader(
        coordinator_partition(name, STATE_PARTITIONS)
    )


def sink_leader(kafka: EmbeddedKafka) -> int:
    return kafka.existing_topic("sink").leader(0)


def connect(kafka: EmbeddedKafka, broker: int) -> RawClient:
    host, _, port = kafka.broker(broker).address.rpartition(":")
    return RawClient(host, int(port))


def group_away_from(kafka: EmbeddedKafka, broker: int) -> str:
    """A group whose coordinator is another broker."""
    for number in range(100):
        group = f"copiers-{number}"
        partition = coordinator_partition(group, STATE_PARTITIONS)
        if kafka.existing_topic("__consumer_offsets").leader(partition) != broker:
            return group
    raise AssertionError(f"broker {broker} coordinates every group")


def by_partition(
    kafka: EmbeddedKafka, topic: str, isolation: str = "read_committed"
) -> dict[Any, Any]:
    found = {partition: [] for partition in range(PARTITIONS)}
    for message in kafka.existing_topic(topic).read(timeout_s=30, isolation=isolation):
        found[message.partition].append(message.text)
    return found


def assert_copied_once(kafka: EmbeddedKafka) -> None:
    source = by_partition(kafka, "source")
    kafka.existing_topic("sink").wait_for(sum(map(len, source.values())), timeout_s=60)
    assert by_partition(kafka, "sink") == source


def test_aborted_copies_are_never_seen(copied: EmbeddedKafka) -> None:
    with copying(copied, "source", "sink", aborts_every=3) as copier:
        assert_copied_once(copied)
    assert copier.aborted > 5
    everything = by_partition(copied, "sink", isolation="read_uncommitted")
    assert sum(map(len, everything.values())) > RECORDS, "no aborted records were written"


@pytest.mark.parametrize("find_victim", [transaction_coordinator, sink_leader])
def test_copying_goes_on_when_a_broker_is_killed(
    copied: EmbeddedKafka, find_victim: Callable[[EmbeddedKafka], int]
) -> None:
    victim = copied.broker(find_victim(copied))
    group = group_away_from(copied, victim.id)
    with copying(copied, "source", "sink", group=group, size=3, aborts_every=5) as copier:
        copier.await_commits(5)
        victim.kill()
        copier.await_commits(5)
        victim.start()
        copied.await_no_under_replicated()
        assert_copied_once(copied)


def test_a_coordinator_that_is_cut_off_is_replaced(copied: EmbeddedKafka) -> None:
    alone = transaction_coordinator(copied)
    group = group_away_from(copied, alone)
    with copying(copied, "source", "sink", group=group, size=3) as copier:
        copier.await_commits(5)
        copied.brokers.partition({alone}, {1, 2, 3} - {alone})
        copier.await_commits(5)
        copied.brokers.heal()
        copied.await_no_under_replicated()
        assert_copied_once(copied)


def test_a_leader_reaches_the_coordinator_after_a_long_silence(kafka: EmbeddedKafka) -> None:
    """The hour also aborts the first transaction at some point, so each round uses another id."""
    source = kafka.topic("source", replication=1)
    leader = source.leader()
    warm = make_producer(kafka, **{"transactional.id": "warm-up"})
    warm.init_transactions(30)
    coordinator = next(broker.id for broker in kafka.brokers if broker.id != leader)
    names = (f"copier-{number}" for number in itertools.count())
    coordinated = (name for name in names if transaction_coordinator(kafka, name) == coordinator)
    for name in itertools.islice(coordinated, 2):
        with connect(kafka, coordinator) as raw, connect(kafka, leader) as at_leader:
            transaction = RawTransaction(raw, name, "source")
            assert transaction.add() is ErrorCode.NONE
            assert transaction.send(b"1", leader=at_leader).error_code == ErrorCode.NONE
            kafka.clock.advance(hours=1)  # longer than any connection may idle
            for connection in (raw, at_leader):
                with pytest.raises(ConnectionError):
                    connection.receive_frame()


def test_a_second_copier_with_the_same_name_fences_the_first(copied: EmbeddedKafka) -> None:
    with copying(copied, "source", "sink", size=2) as first:
        first.await_commits(3)
        with copying(copied, "source", "sink", size=5) as second:
            # A copier without records would never learn that it is fenced.
            with sending(copied, "source", partitions=PARTITIONS):
                first.await_fencing()
            second.await_commits(3)
            assert_copied_once(copied)
    assert not second.is_fenced


def test_what_one_coordinator_began_the_next_one_ends(copied: EmbeddedKafka) -> None:
    producer = make_producer(copied, **{"transactional.id": "copier"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce("sink", b"kept", partition=partition)
    producer.flush(30)
    copied.broker(transaction_coordinator(copied)).kill()
    producer.commit_transaction(30)
    copied.existing_topic("sink").wait_for(PARTITIONS)
    assert by_partition(copied, "sink") == {p: ["kept"] for p in range(PARTITIONS)}


def restore(kafka: EmbeddedKafka) -> None:
    kafka.restore(kafka.snapshot())


def kill_and_start(kafka: EmbeddedKafka) -> None:
    kafka.broker(1).kill()
    kafka.broker(1).start()
    kafka.existing_topic("sink").await_leader()


@pytest.mark.parametrize("begin_again", [restore, kill_and_start])
def test_a_coordinator_that_knows_no_partitions_yet_keeps_a_commit(
    begin_again: Callable[[EmbeddedKafka], None],
) -> None:
    with EmbeddedKafka() as kafka:
        sink = kafka.topic("sink")
        producer = make_producer(kafka, **{"transactional.id": "copier"})
        producer.init_transactions(30)
        refusing = kafka.faults.error(
            "WRITE_TXN_MARKERS", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=None
        )
        producer.begin_transaction()
        producer.produce("sink", b"kept", partition=0)
        producer.commit_transaction(30)
        refusing.await_hits()
        # The broker becomes coordinator again before it learns of the topic.
        uninformed = kafka.faults.disconnect("UPDATE_METADATA", topic="sink")
        begin_again(kafka)
        uninformed.await_hits()
        refusing.remove()
        assert [message.text for message in sink.wait_for(1, timeout_s=30)] == ["kept"]


def test_a_topic_that_is_deleted_during_a_commit_does_not_hold_it_up(kafka: EmbeddedKafka) -> None:
    sink = kafka.topic("sink", replication=3)
    kept = kafka.topic("kept", replication=3)
    producer = make_producer(kafka, **{"transactional.id": "copier"})
    producer.init_transactions(30)
    with kafka.faults.error(
        "WRITE_TXN_MARKERS", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=None
    ) as refusing:
        producer.begin_transaction()
        producer.produce("sink", b"lost", partition=0)
        producer.produce("kept", b"kept", partition=0)
        producer.commit_transaction(30)
        refusing.await_hits()
        sink.delete()
    assert [message.text for message in kept.wait_for(1, timeout_s=30)] == ["kept"]
    # The transactional id is free only once the commit is complete.
    make_producer(kafka, **{"transactional.id": "copier"}).init_transactions(30)


def test_committed_readers_see_whole_transactions_in_order(kafka: EmbeddedKafka) -> None:
    kafka.topic("sink", replication=3)
    producer = make_producer(kafka, **{"transactional.id": "copier"})
    producer.init_transactions(30)
    reader = make_consumer(kafka, **{"isolation.level": "read_committed"})
    reader.assign([TopicPartition("sink", 0, 0)])  # a rebalance would begin again
    seen = []

    def read() -> None:
        seen.extend(m.value() for m in reader.consume(100, 0.05) if m.error() is None)

    for turn in range(40):
        producer.begin_transaction()
        for part in range(3):
            producer.produce("sink", f"{turn}.{part}", partition=0)
        producer.flush(30)
        read()
        if turn % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    expected = [f"{turn}.{part}".encode() for turn in range(0, 40, 2) for part in range(3)]
    while len(seen) < len(expected):
        read()
    reader.close()
    assert seen == expected


@pytest.mark.java
@pytest.mark.gate
@pytest.mark.parametrize("line", [pytest.param("3.9", marks=pytest.mark.slow), "4"])
def test_java_clients_copy_each_record_once_though_every_broker_dies(
    kafka: EmbeddedKafka, line: str
) -> None:
    """Clients of 3.9 use version 1 of transactions, those of 4 version 2."""
    source = kafka.topic("source", replication=3)
    kafka.topic("sink", replication=3)
    source.send_many([f"{number}" for number in range(RECORDS)])
    with JavaClient(line) as java:
        copier = JavaCopier(java, kafka, "source", "sink")
        for handle in kafka.brokers:
            copier.copy_some()
            copier.copy_some(end="abortTransaction")
            copier.copy_some(between=handle.kill)
            copier.copy_some()
            handle.start()
            kafka.await_no_under_replicated()
        while copier.position < RECORDS:
            copier.copy_some()
        copier.close()
    texts = [message.text for message in kafka.existing_topic("sink").read()]
    assert texts == [f"{number}" for number in range(RECORDS)]


def test_any_replica_describes_the_producers_of_a_partition(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", replication=2)
    producer = make_producer(kafka, **{"transactional.id": "t"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", "pending")
    producer.flush(20)
    asked = DescribeProducersRequest.Topic(name="orders", partition_indexes=[0])
    found = {}
    for broker in (1, 2, 3):
        with connect(kafka, broker) as client:
            answer = client.call(DescribeProducersRequest(topics=[asked]), 0)
        (found[broker],) = answer.topics[0].partitions
    replicas = orders.partition().replicas
    for broker, partition in found.items():
        if broker in replicas:
            assert partition.error_code == ErrorCode.NONE
            assert [p.current_txn_start_offset for p in partition.active_producers] == [0]
        else:
            assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
