"""Followers that fetch from their leaders over sockets, like brokers in separate processes."""

from collections.abc import Callable
from typing import Any

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.broker.replica.fetch import EpochEnd
from embedkafka.broker.replica.following.remote_leader import RemoteLeader
from embedkafka.faults.network import Network

MakeKafka = Callable[..., EmbeddedKafka]


@pytest.fixture
def make_kafka(monkeypatch: pytest.MonkeyPatch) -> MakeKafka:
    monkeypatch.setattr(Network, "peers", lambda network, broker, find: None)
    return EmbeddedKafka


def test_followers_keep_a_session_at_their_leader(make_kafka: MakeKafka) -> None:
    with make_kafka(brokers=3) as kafka:
        topic = kafka.topic("orders", replication=3)
        topic.send_many(map(str, range(20)))
        fetches = kafka.broker(topic.leader())._lifecycle.require_broker().parts.fetches
        assert fetches.session_count == 2
        topic.send_many(map(str, range(20)))
        assert fetches.session_count == 2
        topic.await_isr(size=3)


def test_a_session_that_made_room_for_another_begins_anew(make_kafka: MakeKafka) -> None:
    """With room for one session, the two followers evict each other in turns."""
    slots = {"max.incremental.fetch.session.cache.slots": 1}
    with make_kafka(brokers=3, config=slots) as kafka:
        topic = kafka.topic("orders", replication=3)
        for turn in range(4):
            topic.send_many([f"{turn}"])
            kafka.clock.advance(minutes=3)  # from now on the older session may be evicted
        topic.await_isr(size=3)
        assert [message.text for message in topic.read()] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(("release", "asks"), [("2.6", True), ("2.7", False)])
def test_followers_before_2_7_ask_for_the_end_of_their_epoch(
    make_kafka: MakeKafka, monkeypatch: pytest.MonkeyPatch, release: str, asks: bool
) -> None:
    asked: list[int] = []
    ask = RemoteLeader.end_offset_for_epoch

    def note(leader: RemoteLeader, *arguments: Any) -> EpochEnd:
        asked.append(arguments[1])
        return ask(leader, *arguments)

    monkeypatch.setattr(RemoteLeader, "end_offset_for_epoch", note)
    with make_kafka(brokers=2, config={"inter.broker.protocol.version": release}) as kafka:
        topic = kafka.topic("orders", replication=2)
        topic.send_many(["before"])
        leader, follower = topic.partition().replicas
        kafka.broker(follower).restart()
        kafka.await_no_under_replicated()
        topic.send_many(["after"])
        kafka.broker(leader).kill()
        assert [message.text for message in topic.read()] == ["before", "after"]
    assert bool(asked) is asks


def test_followers_find_a_leader_that_was_restarted(make_kafka: MakeKafka) -> None:
    with make_kafka(brokers=3) as kafka:
        topic = kafka.topic("orders", replication=3)
        topic.send_many(["before"])
        leader = kafka.broker(topic.leader())
        leader.restart()
        kafka.await_no_under_replicated()
        topic.send_many(["after"])
        assert [message.text for message in topic.read()] == ["before", "after"]
