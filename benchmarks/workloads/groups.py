"""Consumer groups: joining members, many groups, committed offsets."""

import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from benchmarks.clients import check_deadline, create_topic, new_consumer, new_name
from benchmarks.members import Crowd
from benchmarks.rivals.rival import Meter, Rival
from benchmarks.rows import Row, Scale

MEMBERS: Final = 10
COMMITTERS: Final = 4
#: The most commits that one consumer has in flight.
WINDOW: Final = 50

#: A classic member learns of a rebalance by its heartbeat, which takes up to 3 s by default. The
#: broker sets the interval for members of the new protocol.
PROTOCOLS: Final[Mapping[str, Mapping[str, object]]] = {
    "classic": {"heartbeat.interval.ms": 100},
    "consumer": {"group.protocol": "consumer"},
}


def second_member(rival: Rival, scale: Scale, *, protocol: str) -> Iterator[Row]:
    """From `subscribe` of a group's second member to its first partitions."""
    topic = create_topic(rival, partitions=4)
    with Meter(rival) as spent:
        took = [_join_second(rival, topic, protocol) for _ in range(scale.joins)]
    name = f"second member assigned ({protocol})"
    yield Row(name=f"{name} ms (median)", value=statistics.median(took) * 1000)
    yield Row(name=f"{name} broker CPU s", value=spent.cpu_seconds / scale.joins)


def _join_second(rival: Rival, topic: str, protocol: str) -> float:
    group = new_name()
    settings = PROTOCOLS[protocol]
    first, second = (new_consumer(rival, group, settings=settings) for _ in range(2))
    try:
        first.subscribe([topic])
        _poll_until_assigned(first, first)
        began = time.perf_counter()
        second.subscribe([topic])
        _poll_until_assigned(second, first, second)
        return time.perf_counter() - began
    finally:
        second.close()
        first.close()


def _poll_until_assigned(wanted: Consumer, *polled: Consumer) -> None:
    began = time.perf_counter()
    while not wanted.assignment():
        for consumer in polled:
            consumer.poll(0.005)
        check_deadline(began, "assignment of a member")


def full_groups(rival: Rival, scale: Scale) -> Iterator[Row]:
    """All members of many groups join at once."""
    topic = create_topic(rival, partitions=MEMBERS)
    groups = [new_name() for _ in range(scale.full_groups)]
    crowd = Crowd(rival.bootstrap_servers, topic, groups=groups, size=MEMBERS)
    with Meter(rival) as spent:
        crowd.join()
    crowd.leave()
    name = f"{scale.full_groups} groups of {MEMBERS} stable"
    yield Row(name=f"{name} ms", value=spent.ms)
    yield Row(name=f"{name} broker CPU s", value=spent.cpu_seconds)


def sync_commits(rival: Rival, scale: Scale) -> Iterator[Row]:
    """One consumer commits repeatedly and waits for each answer."""
    topic = create_topic(rival)
    consumer = new_consumer(rival)
    _commit(consumer, topic, 0)
    with Meter(rival) as spent:
        for offset in range(scale.commits):
            _commit(consumer, topic, offset)
    consumer.close()
    yield from _per_second("sync commits", scale.commits, spent)


def pipelined_commits(rival: Rival, scale: Scale) -> Iterator[Row]:
    """Several consumers commit without waiting for each answer."""
    topic = create_topic(rival)
    answered: list[KafkaError | None] = []

    def on_commit(error: KafkaError | None, _: list[TopicPartition]) -> None:
        answered.append(error)

    consumers = [new_consumer(rival, settings={"on_commit": on_commit}) for _ in range(COMMITTERS)]
    for consumer in consumers:
        _commit(consumer, topic, 0)
    answered.clear()
    sent, count = 0, scale.commits * 2
    with Meter(rival) as spent:
        began = time.perf_counter()
        while len(answered) < count:
            for consumer in consumers:
                if sent < count and sent - len(answered) < WINDOW * COMMITTERS:
                    consumer.commit(offsets=[TopicPartition(topic, 0, sent)], asynchronous=True)
                    sent += 1
                consumer.poll(0)
            check_deadline(began, "answer to all commits")
    for consumer in consumers:
        consumer.close()
    assert not any(answered), next(filter(None, answered))
    yield from _per_second("pipelined commits", count, spent)


def _commit(consumer: Consumer, topic: str, offset: int) -> None:
    (committed,) = consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    assert committed.error is None, committed.error


def _per_second(name: str, count: int, spent: Meter) -> Iterator[Row]:
    yield Row(name=f"{name} /s", value=count / spent.seconds, more_is_better=True)
    yield Row(name=f"{name} broker CPU ms each", value=spent.cpu_seconds / count * 1000)
