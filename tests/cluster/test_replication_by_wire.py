"""Followers that fetch from their leaders over sockets, like brokers in separate processes."""

from collections.abc import Callable

import pytest

from embedkafka import EmbeddedKafka
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
        fetches = kafka.broker(kafka.leader_of("orders"))._lifecycle.require_broker().fetches
        assert fetches.session_count == 2
        topic.send_many(map(str, range(20)))
        assert fetches.session_count == 2
        kafka.await_isr("orders", size=3)


def test_a_session_that_made_room_for_another_begins_anew(make_kafka: MakeKafka) -> None:
    """With room for one session, the two followers evict each other in turns."""
    slots = {"max.incremental.fetch.session.cache.slots": 1}
    with make_kafka(brokers=3, config=slots) as kafka:
        topic = kafka.topic("orders", replication=3)
        for turn in range(4):
            topic.send_many([f"{turn}"])
            kafka.clock.advance(minutes=3)  # from now on the older session may be evicted
        kafka.await_isr("orders", size=3)
        assert [message.text for message in topic.read()] == ["0", "1", "2", "3"]


def test_followers_find_a_leader_that_was_restarted(make_kafka: MakeKafka) -> None:
    with make_kafka(brokers=3) as kafka:
        topic = kafka.topic("orders", replication=3)
        topic.send_many(["before"])
        leader = kafka.broker(kafka.leader_of("orders"))
        leader.restart()
        kafka.await_no_under_replicated()
        topic.send_many(["after"])
        assert [message.text for message in topic.read()] == ["before", "after"]
