"""`kafka.state_changes()`: what the controller's state machines did, move by move."""

import logging
from collections.abc import Iterator

import pytest

from embedkafka import EmbeddedKafka, StateChange, TopicSpec
from embedkafka.broker.loggers import LOGGERS
from tests.cluster.reassignment import reassign
from tests.presence import present
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
    kafka.existing_topic("orders").delete()
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
    leader = kafka.existing_topic("orders").leader()
    kafka.broker(next(each.id for each in kafka.brokers if each.id != leader)).become_controller()
    mark = kafka.mark()
    kafka.broker(leader).kill()
    successor = kafka.existing_topic("orders").await_leader()
    lost, found = kafka.state_changes("orders", partition=0, since=mark)
    assert moves([lost, found]) == [(ONLINE, OFFLINE), (OFFLINE, ONLINE)]
    assert (lost.leader, found.leader) == (leader, successor)
    assert found.leader_epoch == present(lost.leader_epoch) + 1
    assert found.controller == kafka.brokers.controller
    assert f"orders-0 {OFFLINE} -> {ONLINE}, leader {successor}" in str(found)


def test_an_election_says_why(kafka: EmbeddedKafka) -> None:
    preferred = kafka.existing_topic("orders").leader()
    mark = kafka.mark()
    kafka.broker(preferred).restart()
    kafka.existing_topic("orders").await_isr(size=3)
    assert "elected it when the leader shut down" in kafka.existing_topic("orders").explain()
    kafka.existing_topic("orders").move_leader(to=preferred)
    assert (
        "elected it because it is the preferred replica" in kafka.existing_topic("orders").explain()
    )
    elections = kafka.state_changes("orders", since=mark)
    assert [each.election for each in elections] == ["controlled shutdown", "preferred replica"]
    assert str(elections[-1]).endswith(" (preferred replica)")


def test_a_reassignment_shows_every_move() -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        moved = kafka.topic("moved", replication=1)
        old = moved.leader()
        new = 3 - old
        mark = kafka.mark()
        reassign(kafka, "moved", [new])

        def made() -> list[StateChange]:
            found = kafka.state_changes("moved", since=mark, replicas=True)
            is_over = bool(found) and found[-1].after == "NonExistentReplica"
            return found if is_over else []

        found = eventually(made, "the reassignment is over")
        of_replicas = [(each.replica, each.after) for each in found if each.replica is not None]
        assert of_replicas == [
            (new, "NewReplica"),
            (new, "OnlineReplica"),
            (old, "OfflineReplica"),
            (old, "ReplicaDeletionStarted"),
            (old, "ReplicaDeletionSuccessful"),
            (old, "NonExistentReplica"),
        ]
        [election] = [each for each in found if each.replica is None]
        assert (election.election, election.leader) == ("reassigned partition", new)
        assert "elected it for a reassignment" in kafka.existing_topic("moved").explain()


def test_an_unclean_election_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGERS["state.change.logger"])
    settings = {"unclean.leader.election.enable": "true"}
    with EmbeddedKafka(brokers=3, config={"replica.lag.time.max.ms": 60_000}) as kafka:
        risky = kafka.topic("risky", replication=2, config=settings)
        leader = risky.leader()
        [follower] = set(risky.partition().replicas) - {leader}
        kafka.broker(6 - leader - follower).become_controller()
        kafka.broker(follower).kill()
        risky.await_isr(size=1)
        kafka.broker(leader).kill()
        risky.await_no_leader()
        kafka.broker(follower).start()
        assert risky.await_leader() == follower
        last = kafka.state_changes("risky")[-1]
        assert (last.election, last.is_unclean) == ("offline partition", True)
        assert "though it was not in sync" in risky.explain()
        assert kafka.metrics().total("UncleanLeaderElectionsPerSec") == 1
    logged = [each.getMessage() for each in caplog.records if "risky-0" in each.getMessage()]
    assert str(last) in logged
    assert any(" stays OfflinePartition: no replica is eligible" in line for line in logged)


def test_a_refused_move_says_why() -> None:
    with EmbeddedKafka(brokers=2, topics={"orders": TopicSpec()}) as kafka:
        mark = kafka.mark()
        kafka.broker(kafka.existing_topic("orders").leader()).kill()

        def refused() -> list[StateChange]:
            return [each for each in kafka.state_changes("orders", since=mark) if each.refused]

        last = eventually(refused, "an election without candidates")[-1]
        assert last.refused == "no replica is eligible for strategy offline partition"
        assert str(last).endswith(f"orders-0 stays {OFFLINE}: {last.refused}")
