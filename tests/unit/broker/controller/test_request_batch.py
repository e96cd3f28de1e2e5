"""The requests that a step of the controller turns into."""

import uuid

import pytest

from embedkafka.broker.controller.context import ControllerContext
from embedkafka.broker.controller.request_batch import (
    LEADER_AND_ISR_VERSION,
    STOP_REPLICA_VERSION,
    UPDATE_METADATA_VERSION,
    RequestBatch,
)
from embedkafka.runtime.ids import LEADER_DURING_DELETE
from embedkafka.wire.protocol.codec import decode, encode
from embedkafka.wire.protocol.messages.brokers import (
    FULL,
    INCREMENTAL,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from embedkafka.zk.payloads import LeaderAndIsr, ReplicaAssignment
from tests.unit.broker.controller.harness import broker_info, tp

TOPIC_ID = uuid.UUID(int=7)


@pytest.fixture
def context() -> ControllerContext:
    context = ControllerContext()
    context.epoch = 3
    for broker in (1, 2, 3):
        context.add_broker(broker_info(broker, rack=f"r{broker}"), 100 + broker)
    for number in (0, 1):
        partition = tp("orders", number)
        context.set_assignment(partition, ReplicaAssignment(replicas=(1, 2), adding=(2,)))
        context.leadership[partition] = LeaderAndIsr(
            leader=1, isr=(1, 2), leader_epoch=4, controller_epoch=3, zk_version=6
        )
    context.topic_ids["orders"] = TOPIC_ID
    return context


def batch_on(context: ControllerContext) -> RequestBatch:
    return RequestBatch(context, controller_id=1, listener="PLAINTEXT")


def test_one_request_of_a_kind_per_broker_metadata_for_all(context: ControllerContext) -> None:
    batch = batch_on(context)
    batch.add_leader_and_isr([1, 2], tp("orders", 0), is_new=False)
    batch.add_leader_and_isr([2], tp("orders", 1), is_new=True)
    batch.add_stop_replica(3, tp("orders", 1), delete=False)
    sent = batch.build()
    kinds = [(type(outgoing.request), outgoing.broker) for outgoing in sent]
    assert kinds == [
        (LeaderAndIsrRequest, 1),
        (LeaderAndIsrRequest, 2),
        (UpdateMetadataRequest, 1),
        (UpdateMetadataRequest, 2),
        (UpdateMetadataRequest, 3),
        (StopReplicaRequest, 3),
    ]
    assert [outgoing.request.broker_epoch for outgoing in sent] == [101, 102, 101, 102, 103, 103]
    assert {outgoing.request.controller_epoch for outgoing in sent} == {3}


def test_a_broker_hears_of_everything_it_hosts_and_then_of_the_cluster(
    context: ControllerContext,
) -> None:
    """Even if it hosts nothing: it must then drop any replica it has."""
    batch = batch_on(context)
    batch.add_leader_and_isr([2], tp("orders", 1), is_new=True)
    batch.add_everything([2, 3])
    orders = {
        o.broker: o.request for o in batch.build() if isinstance(o.request, LeaderAndIsrRequest)
    }
    assert {broker: request.type for broker, request in orders.items()} == {2: FULL, 3: FULL}
    (topic,) = orders[2].topic_states
    told = {state.partition_index: state.is_new for state in topic.partition_states}
    assert told == {0: False, 1: True}
    assert orders[3].topic_states == []
    last = {outgoing.broker: type(outgoing.request) for outgoing in batch.build()}
    assert last[2] is last[3] is UpdateMetadataRequest


def test_a_topic_in_deletion_is_not_among_what_a_broker_hosts(context: ControllerContext) -> None:
    context.topics_to_delete["orders"] = None
    batch = batch_on(context)
    batch.add_everything([1])
    request = batch.build()[0].request
    assert isinstance(request, LeaderAndIsrRequest)
    assert request.topic_states == []


def test_full_metadata_has_every_partition_for_those_who_need_it(
    context: ControllerContext,
) -> None:
    batch = batch_on(context)
    batch.add_update_metadata([1], [tp("orders", 1)])
    batch.add_everything([2])
    told = {}
    for outgoing in batch.build():
        if not isinstance(outgoing.request, UpdateMetadataRequest):
            continue
        (topic,) = outgoing.request.topic_states
        numbers = [state.partition_index for state in topic.partition_states]
        told[outgoing.broker] = (outgoing.request.type, numbers)
    assert told == {1: (INCREMENTAL, [1]), 2: (FULL, [0, 1])}


def test_requests_survive_the_wire(context: ControllerContext) -> None:
    batch = batch_on(context)
    batch.add_leader_and_isr([2], tp("orders", 0), is_new=True)
    batch.add_stop_replica(2, tp("orders", 1), delete=True)
    for outgoing in batch.build():
        data = encode(outgoing.request, outgoing.version)
        again = decode(type(outgoing.request), outgoing.version, memoryview(data))
        assert encode(again, outgoing.version) == data
    versions = (LEADER_AND_ISR_VERSION, UPDATE_METADATA_VERSION, STOP_REPLICA_VERSION)
    assert versions == (7, 8, 4)


def test_leader_and_isr_carries_the_whole_state(context: ControllerContext) -> None:
    batch = batch_on(context)
    batch.add_leader_and_isr([2], tp("orders", 0), is_new=True)
    batch.add_leader_and_isr([2], tp("orders", 0), is_new=False)
    request = batch.build()[0].request
    assert isinstance(request, LeaderAndIsrRequest)
    assert [(leader.broker_id, leader.port) for leader in request.live_leaders] == [(1, 9001)]
    (topic,) = request.topic_states
    assert (topic.topic_name, topic.topic_id) == ("orders", TOPIC_ID)
    (state,) = topic.partition_states
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 4, 6)
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == ((1, 2), (2,), ())
    assert state.is_new, "`is_new` must hold for the whole batch"


def test_metadata_names_offline_replicas_racks_and_listeners(context: ControllerContext) -> None:
    context.remove_broker(2)
    batch = batch_on(context)
    batch.add_update_metadata([1, 2], [tp("orders", 0), tp("unknown")])
    (outgoing,) = batch.build()
    request = outgoing.request
    assert isinstance(request, UpdateMetadataRequest)
    assert [(b.id, b.rack) for b in request.live_brokers] == [(1, "r1"), (3, "r3")]
    assert request.live_brokers[0].endpoints[0].listener == "PLAINTEXT"
    (topic,) = request.topic_states
    assert topic.partition_states[0].offline_replicas == [2]


def test_a_topic_in_deletion_has_the_deletion_leader_and_epoch(
    context: ControllerContext,
) -> None:
    context.topics_to_delete["orders"] = None
    batch = batch_on(context)
    batch.add_update_metadata([1], [tp("orders", 0)])
    batch.add_stop_replica(1, tp("orders", 0), delete=False)
    batch.add_stop_replica(1, tp("orders", 0), delete=True)
    metadata, stop = batch.build()
    assert isinstance(metadata.request, UpdateMetadataRequest)
    assert isinstance(stop.request, StopReplicaRequest)
    assert metadata.request.topic_states[0].partition_states[0].leader == LEADER_DURING_DELETE
    (state,) = stop.request.topic_states[0].partition_states
    assert (state.leader_epoch, state.delete_partition) == (-2, True)
    assert stop.deleting == {tp("orders", 0)}


def test_stop_replica_carries_the_leader_epoch(context: ControllerContext) -> None:
    batch = batch_on(context)
    batch.add_stop_replica(1, tp("orders", 0), delete=False)
    batch.add_stop_replica(1, tp("leaderless"), delete=False)
    (stop,) = batch.build()
    assert isinstance(stop.request, StopReplicaRequest)
    epochs = {t.topic_name: t.partition_states[0].leader_epoch for t in stop.request.topic_states}
    assert epochs == {"orders": 4, "leaderless": -1}


def test_nothing_is_sent_to_brokers_that_are_not_registered(context: ControllerContext) -> None:
    batch = batch_on(context)
    batch.add_leader_and_isr([9], tp("orders", 0), is_new=False)
    batch.add_stop_replica(9, tp("orders", 0), delete=True)
    assert {outgoing.broker for outgoing in batch.build()} == {1, 2, 3}
    assert batch_on(context).build() == []
