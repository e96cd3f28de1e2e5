"""Groups over time, and through the death of their coordinator, on a whole cluster."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from confluent_kafka import Consumer, TopicPartition

from embedkafka import EmbeddedKafka, Topic
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.transactions import DescribeTransactionsRequest
from tests.cluster.members import coordinator_of
from tests.wire.clients import Cluster, await_coordinators, eventually
from tests.wire.consumer_members import Member as ConsumerMember
from tests.wire.consumer_members import describe as describe_consumers
from tests.wire.group_offsets import commit, committed
from tests.wire.members import Member, describe
from tests.wire.raw_client import RawClient
from tests.wire.raw_transaction import RawTransaction

A_YEAR_MS = 365 * 24 * 60 * 60 * 1000


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    config = {"connections.max.idle.ms": A_YEAR_MS}  # a clock jump must not end connections
    with EmbeddedKafka(brokers=1, topics={"orders": 2}, config=config) as kafka:
        yield kafka


@pytest.fixture
def cluster(kafka: EmbeddedKafka) -> Cluster:
    cluster = Cluster(kind="embedded", bootstrap_servers=kafka.bootstrap_servers)
    await_coordinators(cluster)
    return cluster


@pytest.fixture
def raw(cluster: Cluster) -> Iterator[RawClient]:
    with cluster.connect() as client:
        yield client


def test_sessions_end_by_the_clusters_clock(
    kafka: EmbeddedKafka, cluster: Cluster, raw: RawClient
) -> None:
    with Member(cluster, "readers", session_timeout_ms=1_800_000) as member:
        member.join()
        member.sync({member.id: b"all"})
        kafka.clock.advance(minutes=29)
        assert member.heartbeat() == ErrorCode.NONE
        kafka.clock.advance(minutes=29)
        assert member.heartbeat() == ErrorCode.NONE
        kafka.clock.advance(minutes=31)
        eventually(lambda: describe(raw, "readers").group_state == "Empty", "the session ended")
        assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_sessions_of_consumer_groups_end_by_the_clusters_clock(
    kafka: EmbeddedKafka, raw: RawClient
) -> None:
    member = ConsumerMember(raw, "readers", "orders")
    assert member.join().error_code == ErrorCode.NONE
    kafka.clock.advance(seconds=20)
    assert member.beat().error_code == ErrorCode.NONE
    kafka.clock.advance(seconds=46)
    eventually(
        lambda: describe_consumers(raw, "readers").group_state == "Empty", "the session ended"
    )
    assert member.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_that_nobody_uses_expire_by_the_clusters_clock(
    kafka: EmbeddedKafka, cluster: Cluster, raw: RawClient
) -> None:
    assert commit(raw, "gone", "orders", 5) == ErrorCode.NONE
    with Member(cluster, "here", session_timeout_ms=1_800_000) as member:
        member.join()
        member.sync({member.id: b"all"})
        commit(raw, "here", "orders", 6, member=member.id, generation=member.generation)
        kafka.clock.advance(days=6)
        assert committed(raw, "gone") == {("orders", 0): 5}
        kafka.clock.advance(days=2)
        eventually(lambda: committed(raw, "gone") == {}, "the offset has expired")
        # This group's session has only just ended, so its offsets have only begun to age.
        assert committed(raw, "here") == {("orders", 0): 6}


def test_transactions_time_out_by_the_clusters_clock(kafka: EmbeddedKafka, raw: RawClient) -> None:
    transaction = RawTransaction(raw, "payments", "orders", timeout_ms=900_000)
    transaction.add()
    kafka.clock.advance(minutes=14)
    assert transaction.describe().transaction_state == "Ongoing"
    kafka.clock.advance(minutes=2)
    transaction.await_state("CompleteAbort")
    assert transaction.end(commit=True) == ErrorCode.PRODUCER_FENCED
    kafka.clock.advance(days=8)

    def is_forgotten() -> bool:
        request = DescribeTransactionsRequest(transactional_ids=["payments"])
        (state,) = raw.call(request, 0).transaction_states
        return state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    eventually(is_forgotten, "the unused id is forgotten")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_go_on_when_their_coordinator_dies(protocol: str) -> None:
    with EmbeddedKafka(brokers=3) as kafka:
        orders = kafka.topic("orders", partitions=2, replication=3)
        consumers = [new_consumer(kafka, protocol) for _ in range(2)]
        for consumer in consumers:
            consumer.subscribe(["orders"])
        eventually(lambda: shares_of(consumers) == [1, 1], "the two share the topic")
        orders.send_many(map(str, range(20)))
        eventually(partial(have_read, consumers, orders, 20), "the first records are read")
        kafka.broker(coordinator_of(kafka, "readers")).kill()
        orders.send_many(map(str, range(20, 40)))
        eventually(partial(have_read, consumers, orders, 40), "the others are read as well")
        for consumer in consumers:
            consumer.close()


def test_a_coordinator_that_knows_no_topics_yet_takes_no_partitions_away(
    kafka: EmbeddedKafka, cluster: Cluster
) -> None:
    with cluster.connect() as raw:
        member = ConsumerMember(raw, "readers", "orders")
        member.join()
        assert member.partitions == [0, 1]
        epoch = member.epoch
    with (
        ThreadPoolExecutor(1) as other_thread,
        kafka.faults.disconnect("UPDATE_METADATA", topic="orders", times=None) as uninformed,
    ):
        kafka.broker(1).kill()
        starting = other_thread.submit(kafka.broker(1).start)
        uninformed.await_hits()  # the broker has heard only which partitions it leads
        with cluster.connect() as raw:
            member.raw = raw
            assert member.beat_with_owned().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        uninformed.remove()
        starting.result(30)
    with cluster.connect() as raw:
        member.raw = raw
        eventually(
            lambda: member.beat_with_owned().error_code == ErrorCode.NONE,
            "the coordinator has loaded the group",
        )
    assert (member.partitions, member.epoch) == ([0, 1], epoch)


def have_read(consumers: Sequence[Consumer], topic: Topic, count: int) -> bool:
    """Whether the group has read and committed that many records of the topic."""
    for consumer in consumers:
        if [message for message in consumer.consume(100, 0.05) if message.error() is None]:
            consumer.commit(asynchronous=False)
    partitions = [TopicPartition(topic.name, partition) for partition in range(2)]
    return sum(max(p.offset, 0) for p in consumers[0].committed(partitions, 10)) == count


def new_consumer(kafka: EmbeddedKafka, protocol: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "readers",
            "enable.auto.commit": False,
            "log_level": 0,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )


def shares_of(consumers: Sequence[Consumer]) -> list[int]:
    for consumer in consumers:
        consumer.poll(0.05)
    return [len(consumer.assignment()) for consumer in consumers]
