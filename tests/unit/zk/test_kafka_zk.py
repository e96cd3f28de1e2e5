"""Typed access: registrations, fenced writes, and writes that lose a race."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.zk import paths
from embedkafka.zk.kafka_zk import ControllerMoved, KafkaZk
from embedkafka.zk.memory import MemoryZk
from embedkafka.zk.payloads import (
    BrokerEndpoint,
    BrokerInfo,
    LeaderAndIsr,
    ProducerIdBlock,
    ReplicaAssignment,
)
from embedkafka.zk.store import (
    ConnectionLoss,
    NodeExists,
    NoNode,
    Op,
    OpResult,
    SessionExpired,
)

INFO = BrokerInfo(id=1, endpoints=(BrokerEndpoint(host="127.0.0.1", port=9092),))


@pytest.fixture
def server() -> Iterator[MemoryZk]:
    server = MemoryZk(ManualClock(), Failures())
    yield server
    server.close()


def connect(server: MemoryZk) -> KafkaZk:
    zk = KafkaZk(server.connect(), ManualClock())
    zk.make_persistent_paths()
    return zk


@pytest.fixture
def zk(server: MemoryZk) -> KafkaZk:
    return connect(server)


def tp(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def test_a_new_cluster_has_kafkas_paths(server: MemoryZk, zk: KafkaZk) -> None:
    assert set(paths.PERSISTENT) <= set(server.paths())
    zk.make_persistent_paths()


def test_the_first_cluster_id_stays(zk: KafkaZk) -> None:
    assert zk.find_cluster_id() is None
    assert zk.create_or_get_cluster_id("first") == "first"
    assert zk.create_or_get_cluster_id("second") == "first"


def test_a_registered_broker_is_listed_with_its_epoch(server: MemoryZk, zk: KafkaZk) -> None:
    epoch = zk.register_broker(INFO)
    assert connect(server).brokers() == {1: (INFO, epoch)}
    assert zk.register_broker(INFO) == epoch, "a repeated registration should succeed"


def test_two_brokers_cannot_have_one_id(server: MemoryZk, zk: KafkaZk) -> None:
    zk.register_broker(INFO)
    with pytest.raises(NodeExists):
        connect(server).register_broker(INFO)


def test_a_broker_that_registers_again_has_a_higher_epoch(server: MemoryZk, zk: KafkaZk) -> None:
    first = zk.register_broker(INFO)
    zk.store.close()
    assert connect(server).register_broker(INFO) > first


def test_one_controller_per_epoch(server: MemoryZk, zk: KafkaZk) -> None:
    other = connect(server)
    assert zk.register_controller_and_increment_epoch(1) == (1, 1)
    with pytest.raises(ControllerMoved):
        other.register_controller_and_increment_epoch(2)
    assert other.find_controller_id() == 1
    zk.store.close()
    assert other.register_controller_and_increment_epoch(2) == (2, 2)


def test_a_won_election_whose_answer_was_lost_is_recognized(zk: KafkaZk) -> None:
    real = zk.store.multi

    def losing(ops: Sequence[Op]) -> list[OpResult]:
        real(ops)
        return real(ops)  # a retry after the first answer was lost

    zk.store.multi = losing
    assert zk.register_controller_and_increment_epoch(1) == (1, 1)


def test_a_replaced_controller_writes_nothing(server: MemoryZk, zk: KafkaZk) -> None:
    _, version = zk.register_controller_and_increment_epoch(1)
    zk.create_topic("orders", {0: [1]}, topic_id=None, config={})
    state = LeaderAndIsr(leader=1, isr=(1,))
    zk.create_partition_states({tp(0): state}, epoch_version=version)
    zk.delete_controller(epoch_version=version)
    connect(server).register_controller_and_increment_epoch(2)
    before = server.paths()
    writes = [
        lambda: zk.create_partition_states({tp(1): state}, epoch_version=version),
        lambda: zk.update_partition_states(
            {tp(0): state}, controller_epoch=1, epoch_version=version
        ),
        lambda: zk.set_topic_assignment("orders", {}, topic_id=None, epoch_version=version),
        lambda: zk.delete_topic_znodes("orders", epoch_version=version),
        lambda: zk.delete_topic_requests(["orders"], epoch_version=version),
        lambda: zk.delete_controller(epoch_version=version),
    ]
    for write in writes:
        with pytest.raises(ControllerMoved):
            write()
    assert server.paths() == before
    assert zk.partition_states([tp(0)]) == {tp(0): state}


def test_a_topic_is_created_with_settings_and_only_once(zk: KafkaZk) -> None:
    topic_id = uuid.UUID(int=5)
    zk.create_topic("orders", {0: [1, 2]}, topic_id=topic_id, config={"retention.ms": "1"})
    topic = zk.find_topic("orders")
    assert topic is not None
    assert topic.topic_id == topic_id
    assert topic.partitions == {0: ReplicaAssignment(replicas=(1, 2))}
    assert zk.config("topics", "orders") == {"retention.ms": "1"}
    with pytest.raises(NodeExists):
        zk.create_topic("orders", {0: [2]}, topic_id=topic_id, config={"retention.ms": "2"})
    assert zk.config("topics", "orders") == {"retention.ms": "1"}


def test_settings_left_over_from_a_dead_topic_are_replaced(zk: KafkaZk) -> None:
    zk.set_config("topics", "orders", {"retention.ms": "1"})
    zk.create_topic("orders", {0: [1]}, topic_id=None, config={})
    assert zk.config("topics", "orders") == {}


def test_a_cluster_without_paths_says_so(server: MemoryZk) -> None:
    bare = KafkaZk(server.connect(), ManualClock())
    with pytest.raises(NoNode):
        bare.create_topic("orders", {0: [1]}, topic_id=None, config={})


def test_many_states_are_created_and_updated_at_once(zk: KafkaZk) -> None:
    _, version = zk.register_controller_and_increment_epoch(1)
    zk.create_topic("orders", {n: [1] for n in range(700)}, topic_id=None, config={})
    states = {tp(n): LeaderAndIsr(leader=1, isr=(1,)) for n in range(700)}
    created = zk.create_partition_states(states, epoch_version=version)
    assert created.written == states
    moved = {p: s.with_leader(2) for p, s in states.items()}
    updated = zk.update_partition_states(moved, controller_epoch=1, epoch_version=version)
    assert len(updated.written) == 700
    assert zk.partition_states(states) == updated.written


def test_states_that_exist_or_have_no_topic_fail_alone(zk: KafkaZk) -> None:
    _, version = zk.register_controller_and_increment_epoch(1)
    zk.create_topic("orders", {0: [1]}, topic_id=None, config={})
    state = LeaderAndIsr(leader=1, isr=(1,))
    zk.create_partition_states({tp(0): state.with_leader(2)}, epoch_version=version)
    created = zk.create_partition_states({tp(0): state, tp(1): state}, epoch_version=version)
    assert set(created.written) == {tp(1)}
    assert isinstance(created.failed[tp(0)], NodeExists)


def test_states_whose_creation_was_done_but_not_answered_are_created(zk: KafkaZk) -> None:
    _, version = zk.register_controller_and_increment_epoch(1)
    zk.create_topic("orders", {0: [1], 1: [1]}, topic_id=None, config={})
    states = {tp(n): LeaderAndIsr(leader=1, isr=(1,), controller_epoch=1) for n in (0, 1)}
    store: Any = zk.store
    real = store.multi

    def write_twice(ops: Sequence[Op]) -> Sequence[OpResult]:
        store.multi = real
        real(ops)
        return zk.store.multi(ops)  # a retry after the first answer was lost

    store.multi = write_twice
    created = zk.create_partition_states(states, epoch_version=version)
    assert created.written == states
    assert not created.failed


def test_an_update_that_lost_the_race_is_returned_for_retry(zk: KafkaZk) -> None:
    _, version = zk.register_controller_and_increment_epoch(1)
    zk.create_topic("orders", {0: [1], 1: [1]}, topic_id=None, config={})
    states = {tp(n): LeaderAndIsr(leader=1, isr=(1, 2)) for n in (0, 1)}
    zk.create_partition_states(states, epoch_version=version)
    assert zk.update_isr_as_leader(tp(0), replace(states[tp(0)], isr=(1,))) == 1
    updates = zk.update_partition_states(
        {**states, tp(9): states[tp(0)]}, controller_epoch=1, epoch_version=version
    )
    assert updates.retry == [tp(0)]
    assert set(updates.written) == {tp(1)}
    assert isinstance(updates.failed[tp(9)], NoNode)


@pytest.fixture
def alone(zk: KafkaZk) -> LeaderAndIsr:
    """Makes broker 1 leader and only in-sync replica of `orders-0`."""
    _, version = zk.register_controller_and_increment_epoch(1)
    zk.create_topic("orders", {0: [1, 2]}, topic_id=None, config={})
    state = LeaderAndIsr(leader=1, isr=(1,))
    zk.create_partition_states({tp(0): state}, epoch_version=version)
    return state


TWO = BrokerId(2)


def test_the_leader_of_a_deleted_topic_does_not_write_to_its_namesake(zk: KafkaZk) -> None:
    _, version = zk.register_controller_and_increment_epoch(1)
    old_id, new_id = uuid.UUID(int=1), uuid.UUID(int=2)
    old, new = LeaderAndIsr(leader=1, isr=(1, 2)), LeaderAndIsr(leader=2, isr=(2, 1))
    alone = replace(old, isr=(1,))
    zk.create_topic("orders", {0: [1, 2]}, topic_id=old_id, config={})
    zk.create_partition_states({tp(0): old}, epoch_version=version)
    zk.delete_topic_znodes("orders", epoch_version=version)
    assert zk.update_isr_as_leader(tp(0), alone, topic_id=old_id) is None
    zk.create_topic("orders", {0: [2, 1]}, topic_id=new_id, config={})
    zk.create_partition_states({tp(0): new}, epoch_version=version)
    assert zk.update_isr_as_leader(tp(0), alone, topic_id=old_id) is None
    assert zk.partition_states([tp(0)]) == {tp(0): new}
    assert zk.update_isr_as_leader(tp(0), replace(new, isr=(2,)), topic_id=new_id) == 1


def test_who_joins_an_isr_must_be_registered_in_that_moment(
    zk: KafkaZk, alone: LeaderAndIsr
) -> None:
    larger = replace(alone, isr=(1, 2))
    with pytest.raises(NoNode):
        zk.update_isr_as_leader(tp(0), larger, joining={TWO: -1})
    assert zk.partition_states([tp(0)])[tp(0)].isr == (1,)
    zk.register_broker(replace(INFO, id=2))
    assert zk.update_isr_as_leader(tp(0), larger, joining={TWO: -1}) == 1
    assert zk.update_isr_as_leader(tp(5), larger, joining={TWO: -1}) is None


def test_who_joins_an_isr_must_live_the_life_in_which_it_was_seen(
    zk: KafkaZk, alone: LeaderAndIsr
) -> None:
    larger = replace(alone, isr=(1, 2))
    epoch = zk.register_broker(replace(INFO, id=2))
    with pytest.raises(NoNode):
        zk.update_isr_as_leader(tp(0), larger, joining={TWO: epoch - 1})
    assert zk.partition_states([tp(0)])[tp(0)].isr == (1,)
    assert zk.update_isr_as_leader(tp(5), larger, joining={TWO: epoch - 1}) is None
    assert zk.update_isr_as_leader(tp(0), larger, joining={TWO: epoch}) == 1


@pytest.mark.parametrize("told", [True, False])
def test_who_has_joined_and_gone_is_in_the_isr_still(
    zk: KafkaZk, alone: LeaderAndIsr, *, told: bool
) -> None:
    """Only the answer was lost, so it does not matter that the broker has left since."""
    larger = replace(alone, isr=(1, 2))
    epoch = zk.register_broker(replace(INFO, id=2))
    joining = {TWO: epoch if told else -1}
    assert zk.update_isr_as_leader(tp(0), larger, joining=joining) == 1
    zk.store.delete("/brokers/ids/2")
    assert zk.update_isr_as_leader(tp(0), larger, joining=joining) == 1
    other = replace(alone, isr=(1, 2, 3))
    assert zk.update_isr_as_leader(tp(0), other, joining=joining) is None


def test_a_leader_that_was_fenced_cannot_change_its_isr(zk: KafkaZk) -> None:
    _, version = zk.register_controller_and_increment_epoch(1)
    zk.create_topic("orders", {0: [1]}, topic_id=None, config={})
    state = LeaderAndIsr(leader=1, isr=(1, 2))
    zk.create_partition_states({tp(0): state}, epoch_version=version)
    smaller = replace(state, isr=(1,))
    assert zk.update_isr_as_leader(tp(0), smaller) == 1
    assert zk.update_isr_as_leader(tp(0), smaller) == 1, "a retry should recognize its own write"
    assert zk.update_isr_as_leader(tp(0), state) is None
    assert zk.update_isr_as_leader(tp(5), state) is None


def test_producer_ids_are_given_out_once(server: MemoryZk, zk: KafkaZk) -> None:
    assert zk.allocate_producer_ids(1) == ProducerIdBlock(broker_id=1, first=0, last=999)
    block = connect(server).allocate_producer_ids(2)
    assert block == ProducerIdBlock(broker_id=2, first=1000, last=1999)


def test_settings_are_set_listed_and_announced(zk: KafkaZk) -> None:
    zk.set_config("users", "alice", {"SCRAM-SHA-256": "x"})
    zk.set_config("users", "alice", {})
    assert zk.configured_entities("users") == ["alice"]
    assert zk.configs("users", ["alice", "bob"]) == {"alice": {}, "bob": {}}
    assert len(zk.store.children(paths.CONFIG_CHANGES)) == 2


def test_broken_reassignment_json_is_ignored(zk: KafkaZk) -> None:
    zk.store.create(paths.REASSIGN_PARTITIONS, b"not json")
    assert zk.reassignment() == {}


def test_a_lost_session_is_not_blamed_on_partitions(server: MemoryZk) -> None:
    session = server.connect()
    zk = KafkaZk(session, ManualClock())
    zk.make_persistent_paths()
    _, version = zk.register_controller_and_increment_epoch(1)
    state = {tp(0): LeaderAndIsr(leader=1, isr=(1,))}
    session.pause()
    with pytest.raises(ConnectionLoss):
        zk.update_partition_states(state, controller_epoch=1, epoch_version=version)
    with pytest.raises(ConnectionLoss):
        zk.create_partition_states(state, epoch_version=version)
    session.expire()
    session.resume()
    with pytest.raises(SessionExpired):
        zk.update_partition_states(state, controller_epoch=1, epoch_version=version)


def test_everything_that_a_cluster_was_told_can_be_found_and_forgotten(zk: KafkaZk) -> None:
    ids = {"orders": uuid.uuid4(), "prices": uuid.uuid4()}
    for topic, topic_id in ids.items():
        zk.create_topic(topic, {0: [1]}, topic_id=topic_id, config={"retention.ms": "1"})
    zk.request_topic_deletion("orders")
    zk.request_topic_deletions(["orders", "prices"])
    assert zk.topic_ids() == ids
    assert zk.topic_deletions() == {"orders", "prices"}

    zk.set_config("brokers", "1", {"log.retention.ms": "1"})
    zk.set_config("users", "ann/clients/shop", {"producer_byte_rate": "1.0"})
    zk.set_config("groups", "readers", {})
    assert zk.overrides() == {
        ("topics", "orders"): {"retention.ms": "1"},
        ("topics", "prices"): {"retention.ms": "1"},
        ("brokers", "1"): {"log.retention.ms": "1"},
        ("users", "ann/clients/shop"): {"producer_byte_rate": "1.0"},
    }

    zk.set_consumer_offset("readers", tp(0), 5)
    zk.delete_consumer_offsets()
    assert zk.find_consumer_offset("readers", tp(0)) is None
    zk.set_consumer_offset("readers", tp(0), 6)
    assert zk.find_consumer_offset("readers", tp(0)) == 6
