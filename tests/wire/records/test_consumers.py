"""librdkafka's consumer: shared partitions, positions, resets, and topics that disappear."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.wire.clients import (
    WAIT_SECONDS,
    Cluster,
    Out,
    consume,
    create_topic,
    open_consumer,
    poll,
    produce,
    produce_values,
    values,
)
from tests.wire.one_partition import T0
from tests.wire.raw_client import RawClient
from tests.wire.topic_changes import await_gone, delete, delete_records, grow

Unique = Callable[[str], str]


@contextmanager
def consumers(cluster: Cluster, count: int, **settings: object) -> Iterator[list[Consumer]]:
    """Opens consumers with the same settings and closes them all at the end."""
    opened = [open_consumer(cluster, **settings) for _ in range(count)]
    try:
        yield opened
    finally:
        for consumer in opened:
            consumer.close()


def await_shares(members: list[Consumer], partitions: int) -> list[set[int]]:
    """Polls all members until they own each partition exactly once, and returns their shares."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        for member in members:
            member.poll(0.05)
        shares = [{part.partition for part in member.assignment()} for member in members]
        if all(shares) and sorted(p for share in shares for p in share) == list(range(partitions)):
            return shares
        assert time.monotonic() < deadline, f"shares of {partitions} partitions: {shares}"


@pytest.mark.both_io_modes
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_two_members_share_the_partitions(cluster: Cluster, unique: Unique, protocol: str) -> None:
    name = create_topic(cluster, unique("shared"), partitions=6)
    settings = {"group_id": unique("group"), "group_protocol": protocol}
    with consumers(cluster, 2, **settings) as members:
        for member in members:
            member.subscribe([name])
        shares = await_shares(members, 6)
    assert [len(share) for share in shares] == [3, 3]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_one_that_stays_takes_over(cluster: Cluster, unique: Unique, protocol: str) -> None:
    name = create_topic(cluster, unique("shared"), partitions=4)
    settings = {"group_id": unique("group"), "group_protocol": protocol}
    with consumers(cluster, 1, **settings) as (stays,):
        with consumers(cluster, 1, **settings) as (leaves,):
            for member in (stays, leaves):
                member.subscribe([name])
            await_shares([stays, leaves], 4)
        assert await_shares([stays], 4) == [{0, 1, 2, 3}]


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_every_assignor_shares_all_partitions(
    cluster: Cluster, unique: Unique, strategy: str
) -> None:
    name = create_topic(cluster, unique("shared"), partitions=5)
    settings = {"group_id": unique("group"), "partition_assignment_strategy": strategy}
    with consumers(cluster, 2, **settings) as members:
        for member in members:
            member.subscribe([name])
        shares = await_shares(members, 5)
    assert sorted(len(share) for share in shares) == [2, 3]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_where_it_committed(
    cluster: Cluster, unique: Unique, protocol: str
) -> None:
    name = create_topic(cluster, unique("resumed"))
    produce_values(cluster, name, b"a", b"b", b"c")
    settings = {"group_id": unique("group"), "group_protocol": protocol}
    with consumers(cluster, 1, **settings) as (before,):
        before.subscribe([name])
        first, second = poll(before, 2)
        assert values([first, second]) == [b"a", b"b"]
        before.commit(message=second, asynchronous=False)
    with consumers(cluster, 1, **settings) as (after,):
        after.subscribe([name])
        assert values(poll(after, 1)) == [b"c"]


def test_a_static_member_comes_back_to_its_partitions(cluster: Cluster, unique: Unique) -> None:
    name = create_topic(cluster, unique("static"), partitions=2)
    group = unique("group")
    with consumers(cluster, 1, group_id=group, group_instance_id="a") as (stays,):
        with consumers(cluster, 1, group_id=group, group_instance_id="b") as (leaves,):
            stays.subscribe([name])
            leaves.subscribe([name])
            _, before = await_shares([stays, leaves], 2)
        with consumers(cluster, 1, group_id=group, group_instance_id="b") as (returns,):
            returns.subscribe([name])
            _, after = await_shares([stays, returns], 2)
    assert before == after


def test_a_pattern_finds_topics_by_name(cluster: Cluster, unique: Unique) -> None:
    stem = unique("pattern")
    for suffix in ("a", "b"):
        create_topic(cluster, f"{stem}.{suffix}")
        produce_values(cluster, f"{stem}.{suffix}", suffix.encode())
    with consumers(cluster, 1, group_id=unique("group")) as (consumer,):
        consumer.subscribe([f"^{stem}\\..*"])
        assert {message.topic() for message in poll(consumer, 2)} == {f"{stem}.a", f"{stem}.b"}


def test_a_new_group_starts_where_it_is_told(cluster: Cluster, unique: Unique) -> None:
    name = create_topic(cluster, unique("reset"))
    produce_values(cluster, name, b"old")
    with consumers(cluster, 1, group_id=unique("group"), auto_offset_reset="earliest") as (early,):
        early.subscribe([name])
        assert values(poll(early, 1)) == [b"old"]
    with consumers(cluster, 1, group_id=unique("group"), auto_offset_reset="latest") as (late,):
        late.subscribe([name])
        await_shares([late], 1)
        late.poll(0.2)  # the position is known once a fetch was sent
        assert late.get_watermark_offsets(TopicPartition(name, 0), timeout=10) == (0, 1)
        eventually_receives_only_new(cluster, late, name)


def eventually_receives_only_new(cluster: Cluster, consumer: Consumer, topic: str) -> None:
    """Produces until the consumer, which starts at the end, reads a record: always a new one."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        produce_values(cluster, topic, b"new")
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None
            assert message.value() == b"new"
            return
    raise AssertionError("the consumer read nothing new")


def test_without_a_reset_a_lost_position_is_an_error(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("reset"))
    produce_values(cluster, name, b"a", b"b")
    delete_records(raw, name, 1)
    with pytest.raises(KafkaException) as refused:
        consume(cluster, name, 1, offset=0, auto_offset_reset="error")
    assert refused.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET
    (kept,) = consume(cluster, name, 1, offset=0, auto_offset_reset="earliest")
    assert (kept.offset(), kept.value()) == (1, b"b")


def test_a_position_is_found_by_time(cluster: Cluster, unique: Unique) -> None:
    name = create_topic(cluster, unique("times"))
    sent = [Out(value=str(i).encode(), timestamp=T0 + i * 1000) for i in range(10)]
    produce(cluster, name, sent)
    with consumers(cluster, 1) as (consumer,):
        asked = [TopicPartition(name, 0, T0 + 4500)]
        (found,) = consumer.offsets_for_times(asked, timeout=10)
        assert found.offset == 5
        consumer.assign([found])
        assert values(poll(consumer, 2)) == [b"5", b"6"]
        (none,) = consumer.offsets_for_times([TopicPartition(name, 0, T0 + 99_000)], timeout=10)
        assert none.offset == -1


def test_a_consumer_moves_back_and_forth(cluster: Cluster, unique: Unique) -> None:
    name = create_topic(cluster, unique("seek"))
    produce_values(cluster, name, *(str(i).encode() for i in range(10)))
    with consumers(cluster, 1) as (consumer,):
        consumer.assign([TopicPartition(name, 0, 8)])
        assert values(poll(consumer, 2)) == [b"8", b"9"]
        consumer.seek(TopicPartition(name, 0, 3))
        assert values(poll(consumer, 2)) == [b"3", b"4"]


def test_watermarks_and_committed_offsets_are_told(cluster: Cluster, unique: Unique) -> None:
    name = create_topic(cluster, unique("marks"), partitions=2)
    produce_values(cluster, name, b"a", b"b", partition=1)
    with consumers(cluster, 1, group_id=unique("group")) as (consumer,):
        assert consumer.get_watermark_offsets(TopicPartition(name, 1), timeout=10) == (0, 2)
        consumer.commit(offsets=[TopicPartition(name, 1, 2)], asynchronous=False)
        both = [TopicPartition(name, 0), TopicPartition(name, 1)]
        found = consumer.committed(both, timeout=10)
    assert [part.offset for part in found] == [-1001, 2]


def test_every_partition_of_many_is_read(cluster: Cluster, unique: Unique) -> None:
    name = create_topic(cluster, unique("many"), partitions=50)
    sent = [Out(value=str(i).encode(), partition=i % 50) for i in range(500)]
    produce(cluster, name, sent)
    with consumers(cluster, 1, group_id=unique("group")) as (consumer,):
        consumer.subscribe([name])
        got = poll(consumer, 500)
    assert sorted(int(message.value() or -1) for message in got) == list(range(500))


@pytest.mark.both_io_modes
def test_what_is_produced_while_consuming_arrives_in_order(
    cluster: Cluster, unique: Unique
) -> None:
    name = create_topic(cluster, unique("live"))
    with consumers(cluster, 1) as (consumer,):
        consumer.assign([TopicPartition(name, 0, 0)])
        for start in range(0, 1000, 100):
            sent = [str(i).encode() for i in range(start, start + 100)]
            produce_values(cluster, name, *sent)
            assert values(poll(consumer, 100)) == sent


def test_a_topic_deleted_under_a_consumer_is_an_error_and_not_a_hang(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("doomed"))
    produce_values(cluster, name, b"a")
    settings = {"group_id": unique("group"), "topic_metadata_refresh_interval_ms": 200}
    with consumers(cluster, 1, allow_auto_create_topics=False, **settings) as (consumer,):
        consumer.subscribe([name])
        assert values(poll(consumer, 1)) == [b"a"]
        delete(raw, name)
        await_gone(raw, name)
        deadline = time.monotonic() + WAIT_SECONDS
        error = None
        while error is None:
            assert time.monotonic() < deadline, "the consumer never noticed the deletion"
            message = consumer.poll(0.5)
            error = message.error() if message is not None else None
        assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_consumer_sees_partitions_that_are_added(
    cluster: Cluster, raw: RawClient, unique: Unique
) -> None:
    name = create_topic(cluster, unique("growing"))
    settings = {"group_id": unique("group"), "topic_metadata_refresh_interval_ms": 200}
    with consumers(cluster, 1, **settings) as (consumer,):
        consumer.subscribe([name])
        await_shares([consumer], 1)
        grow(raw, name, 3)
        await_shares([consumer], 3)


def test_consumers_of_three_brokers_read_all_of_them(
    three_brokers: Cluster, unique: Unique
) -> None:
    name = create_topic(three_brokers, unique("spread"), partitions=6, replication=3)
    sent = [Out(value=str(i).encode(), partition=i % 6) for i in range(600)]
    produce(three_brokers, name, sent, acks="all")
    with consumers(three_brokers, 1, group_id=unique("group")) as (consumer,):
        consumer.subscribe([name])
        got = poll(consumer, 600)
    assert sorted(int(message.value() or -1) for message in got) == list(range(600))
