"""A broker's view of the cluster: changes are merged, a full update replaces everything."""

import uuid
from collections.abc import Sequence

import pytest

from embedkafka.broker.metadata_cache import MetadataCache
from embedkafka.runtime.ids import LEADER_DURING_DELETE, TopicPartition
from embedkafka.wire.protocol.message import replace
from embedkafka.wire.protocol.messages.brokers import FULL, INCREMENTAL, UpdateMetadataRequest

OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.fixture
def cache() -> MetadataCache:
    """A cache with two partitions of `orders`, and `payments`."""
    cache = MetadataCache()
    cache.update(update(topic("orders", 2), topic("payments", 1, topic_id=uuid.UUID(int=3))))
    return cache


def topic(
    name: str, partitions: int, *, topic_id: uuid.UUID = OLD, leader: int = 1
) -> UpdateMetadataRequest.TopicState:
    return UpdateMetadataRequest.TopicState(
        topic_name=name,
        topic_id=topic_id,
        partition_states=[
            UpdateMetadataRequest.TopicState.PartitionState(
                partition_index=partition,
                controller_epoch=1,
                leader=leader,
                leader_epoch=0,
                isr=[1],
                zk_version=0,
                replicas=[1],
            )
            for partition in range(partitions)
        ],
    )


def update(
    *topics: UpdateMetadataRequest.TopicState,
    type: int = INCREMENTAL,
    broker_epoch: int = 5,
    alive: Sequence[int] = (),
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=broker_epoch,
        type=type,
        topic_states=topics,
        live_brokers=[UpdateMetadataRequest.Broker(id=broker, endpoints=[]) for broker in alive],
    )


def test_a_change_leaves_other_topics(cache: MetadataCache) -> None:
    assert cache.update(update(topic("orders", 1))) == set()
    assert {name: len(listed) for name, listed in cache.snapshot.topics.items()} == {
        "orders": 2,
        "payments": 1,
    }


def test_everything_leaves_no_ghosts(cache: MetadataCache) -> None:
    removed = cache.update(update(topic("orders", 1), type=FULL))
    assert removed == {TopicPartition("orders", 1), TopicPartition("payments", 0)}
    assert list(cache.snapshot.topics) == ["orders"]
    assert cache.snapshot.topic_names == {OLD: "orders"}


@pytest.mark.parametrize("type", [INCREMENTAL, FULL])
def test_a_topic_made_again_is_another(cache: MetadataCache, type: int) -> None:
    removed = cache.update(update(topic("orders", 1, topic_id=NEW), type=type))
    assert {TopicPartition("orders", 0), TopicPartition("orders", 1)} <= removed
    assert len(cache.snapshot.topics["orders"]) == 1
    assert cache.snapshot.topic_ids["orders"] == NEW
    assert OLD not in cache.snapshot.topic_names


def test_a_topic_in_deletion_is_gone(cache: MetadataCache) -> None:
    removed = cache.update(update(topic("orders", 2, leader=LEADER_DURING_DELETE)))
    assert removed == {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    assert list(cache.snapshot.topics) == ["payments"]


def test_a_topic_has_leaders_when_each_partition_has_a_live_one() -> None:
    cache = MetadataCache()
    cache.update(update(topic("orders", 2), topic("payments", 1, leader=2), alive=[1]))
    snapshot = cache.snapshot
    assert snapshot.has_leaders("orders", 2)
    assert not snapshot.has_leaders("orders", 3), "a partition is still missing"
    assert not snapshot.has_leaders("payments", 1), "its leader is dead"
    assert not snapshot.has_leaders("unknown", 1)


def test_a_snapshot_tells_for_which_registration_it_is_everything(cache: MetadataCache) -> None:
    cache.update(update(broker_epoch=8))
    assert cache.snapshot.broker_epoch == -1, "an incremental update must not count as full"
    cache.update(update(type=FULL, broker_epoch=9))
    cache.update(update(broker_epoch=9))
    assert cache.snapshot.broker_epoch == 9


def test_what_waits_for_everything_is_not_content_with_a_change(cache: MetadataCache) -> None:
    heard: list[str] = []
    cache.once_informed(lambda: heard.append("waited"))
    cache.update(update())
    assert heard == []
    cache.update(update(type=FULL))
    cache.once_informed(lambda: heard.append("at once"))
    assert heard == ["waited", "at once"]


@pytest.mark.parametrize("name", ["../outside", "", "..", "a b", "a" * 250])
def test_a_topic_that_cannot_be_is_left_out(cache: MetadataCache, name: str) -> None:
    cache.update(update(topic(name, 1)))
    assert cache.snapshot.topics.keys() == {"orders", "payments"}


def test_a_partition_that_cannot_be_is_left_out(cache: MetadataCache) -> None:
    negative = topic("orders", 1)
    object.__setattr__(negative.partition_states[0], "partition_index", -1)
    cache.update(update(negative))
    assert cache.snapshot.topics["orders"].keys() == {0, 1}


def endpoint(listener: str) -> UpdateMetadataRequest.Broker.Endpoint:
    return UpdateMetadataRequest.Broker.Endpoint(
        host="broker", port=9092, listener=listener, security_protocol=0
    )


def test_brokers_with_different_listeners_are_reported_once(
    cache: MetadataCache, caplog: pytest.LogCaptureFixture
) -> None:
    def living(*names: str) -> UpdateMetadataRequest:
        brokers = [
            UpdateMetadataRequest.Broker(
                id=id_,
                endpoints=[endpoint("CONTROLLER"), *([endpoint(each)] if each else [])],
            )
            for id_, each in enumerate(names)
        ]
        return replace(update(), live_brokers=brokers)

    cache.update(living("PLAINTEXT", "PLAINTEXT"))
    assert not caplog.messages
    cache.update(living("PLAINTEXT", ""))
    cache.update(living("PLAINTEXT", ""))
    assert caplog.messages == [
        "listeners are not identical across brokers: broker 0 has CONTROLLER, PLAINTEXT; "
        "broker 1 has CONTROLLER"
    ]
