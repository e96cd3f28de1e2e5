"""`kafka.state_changes()`: what the controller's state machines did, move by move."""

from collections.abc import Iterator

import pytest

from embedkafka import EmbeddedKafka, StateChange, TopicSpec
from tests.wire.clients import eventually

NEW, ONLINE, OFFLINE = "NewPartition", "OnlinePartition", "OfflinePartition"
NON_EXISTENT = "NonExistentPartition"


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3, topics={"orders": TopicSpec(replication=3)}) as kafka:
        yield kafka


def moves(changes: list[StateChange]) -> list[tuple[str, str]]:
    return [(change.before, change.after) for change in changes if change.refused is None]


def test_a_topic_is_created_and_deleted(kafka: EmbeddedKafka) -> None:
    assert moves(kafka.state_changes("orders")) == [(NON_EXISTENT, NEW), (NEW, ONLINE)]
    mark = kafka.mark()
    kafka.delete_topic("orders")
    assert moves(kafka.state_changes("orders", since=mark)) == [
        (ONLINE, OFFLINE),
        (OFFLINE, NON_EXISTENT),
    ]
    of_replicas = [
        change
        for change in kafka.state_changes("orders", since=mark, replicas=True)
        if change.replica == 1
    ]
    assert moves(of_replicas) == [
        ("OnlineReplica", "OfflineReplica"),
        ("OfflineReplica", "ReplicaDeletionStarted"),
        ("ReplicaDeletionStarted", "ReplicaDeletionSuccessful"),
        ("ReplicaDeletionSuccessful", "NonExistentReplica"),
    ]


def test_a_failover_shows_who_leads_and_who_decided(kafka: EmbeddedKafka) -> None:
    leader = kafka.leader_of("orders")
    kafka.elect_controller(next(each.id for each in kafka.brokers if each.id != leader))
    mark = kafka.mark()
    kafka.broker(leader).kill()
    successor = kafka.await_leader("orders")
    lost, found = kafka.state_changes("orders", partition=0, since=mark)
    assert moves([lost, found]) == [(ONLINE, OFFLINE), (OFFLINE, ONLINE)]
    assert (lost.leader, found.leader) == (leader, successor)
    assert found.leader_epoch == lost.leader_epoch + 1
    assert found.controller == kafka.controller
    assert f"orders-0 {OFFLINE} -> {ONLINE}, leader {successor}" in str(found)


def test_a_refused_move_says_why() -> None:
    with EmbeddedKafka(brokers=2, topics={"orders": TopicSpec()}) as kafka:
        mark = kafka.mark()
        kafka.broker(kafka.leader_of("orders")).kill()

        def refused() -> list[StateChange]:
            return [each for each in kafka.state_changes("orders", since=mark) if each.refused]

        last = eventually(refused, "an election without candidates")[-1]
        assert last.refused == "no replica is eligible for strategy offline partition"
        assert str(last).endswith(f"orders-0 stays {OFFLINE}: {last.refused}")
