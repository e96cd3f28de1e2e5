"""Every pair of replica states, and each move's writes and requests."""

import itertools

import pytest

from embedkafka.broker.controller import replica_machine
from embedkafka.broker.controller.context import ControllerContext, PartitionAndReplica
from embedkafka.broker.controller.partition_machine import IllegalMove
from embedkafka.broker.controller.replica_machine import PREDECESSORS, ReplicaState
from embedkafka.zk.payloads import LeaderAndIsr, ReplicaAssignment
from tests.unit.broker.controller.harness import broker_info, tp

PARTITION = tp("orders")
REPLICA = PartitionAndReplica(PARTITION, 2)

LEGAL = {
    ("NON_EXISTENT", "NEW"),
    *itertools.product(("NEW", "ONLINE", "OFFLINE", "DELETION_INELIGIBLE"), ("ONLINE", "OFFLINE")),
    ("OFFLINE", "DELETION_STARTED"),
    ("DELETION_STARTED", "DELETION_SUCCESSFUL"),
    ("DELETION_STARTED", "DELETION_INELIGIBLE"),
    ("OFFLINE", "DELETION_INELIGIBLE"),
    ("DELETION_SUCCESSFUL", "NON_EXISTENT"),
}


@pytest.fixture
def context() -> ControllerContext:
    context = ControllerContext()
    for broker in (1, 2, 3):
        context.add_broker(broker_info(broker), broker)
    context.set_assignment(PARTITION, ReplicaAssignment(replicas=(1, 2, 3)))
    context.leadership[PARTITION] = LeaderAndIsr(leader=1, isr=(1, 2, 3))
    return context


@pytest.mark.parametrize(
    ("current", "target"), [*itertools.product(ReplicaState, repeat=2)], ids=lambda s: s.name
)
def test_exactly_the_legal_moves_are_made(
    context: ControllerContext, current: ReplicaState, target: ReplicaState
) -> None:
    if current is not ReplicaState.NON_EXISTENT:
        context.replica_states[REPLICA] = current
    before = dict(context.replica_states)
    decided = replica_machine.decide(context, 2, [REPLICA], target)
    assert context.replica_states == before, "a decision must not change state"
    if (current.name, target.name) in LEGAL:
        assert not decided.refused
        assert [*decided.at_once, *(PartitionAndReplica(p, 2) for p in decided.shrink)] == [REPLICA]
        replica_machine.move(context, REPLICA, target)
        assert replica_machine.state_of(context, REPLICA) is target
    else:
        assert REPLICA in decided.refused
        work = [decided.at_once, decided.shrink, decided.stop, decided.leader_and_isr]
        assert not any(work)
        with pytest.raises(IllegalMove, match="orders-0"):
            replica_machine.move(context, REPLICA, target)
        assert context.replica_states == before


def test_the_table_has_every_state() -> None:
    assert PREDECESSORS.keys() == set(ReplicaState)


def test_a_new_replica_is_told_whom_to_follow(context: ControllerContext) -> None:
    decided = replica_machine.decide(context, 2, [REPLICA], ReplicaState.NEW)
    assert decided.leader_and_isr == [PARTITION]
    assert decided.is_new


def test_a_leader_cannot_be_new(context: ControllerContext) -> None:
    leader = PartitionAndReplica(PARTITION, 1)
    decided = replica_machine.decide(context, 1, [leader], ReplicaState.NEW)
    assert leader in decided.refused
    assert not decided.at_once


def test_a_replica_that_was_new_is_not_told_twice(context: ControllerContext) -> None:
    context.replica_states[REPLICA] = ReplicaState.NEW
    assert not replica_machine.decide(context, 2, [REPLICA], ReplicaState.ONLINE).leader_and_isr
    context.replica_states[REPLICA] = ReplicaState.OFFLINE
    decided = replica_machine.decide(context, 2, [REPLICA], ReplicaState.ONLINE)
    assert decided.leader_and_isr == [PARTITION]
    assert not decided.is_new


def test_an_offline_replica_is_stopped_and_leaves_the_isr(context: ControllerContext) -> None:
    context.replica_states[REPLICA] = ReplicaState.ONLINE
    decided = replica_machine.decide(context, 2, [REPLICA], ReplicaState.OFFLINE)
    assert decided.stop == [PARTITION]
    assert not decided.delete
    assert decided.shrink == [PARTITION]


def test_a_leaderless_replica_goes_offline_at_once(context: ControllerContext) -> None:
    context.leadership.clear()
    context.replica_states[REPLICA] = ReplicaState.ONLINE
    decided = replica_machine.decide(context, 2, [REPLICA], ReplicaState.OFFLINE)
    assert decided.at_once == [REPLICA]
    assert decided.update_metadata == [PARTITION]


def test_deletion_is_a_stop_with_delete(context: ControllerContext) -> None:
    context.replica_states[REPLICA] = ReplicaState.OFFLINE
    decided = replica_machine.decide(context, 2, [REPLICA], ReplicaState.DELETION_STARTED)
    assert decided.stop == [PARTITION]
    assert decided.delete


def test_a_replica_that_is_gone_leaves_the_assignment(context: ControllerContext) -> None:
    context.replica_states[REPLICA] = ReplicaState.DELETION_SUCCESSFUL
    replica_machine.move(context, REPLICA, ReplicaState.NON_EXISTENT)
    assert context.assignment(PARTITION).replicas == (1, 3)
    assert REPLICA not in context.replica_states


def test_a_new_controller_doubts_replicas_of_dead_brokers(context: ControllerContext) -> None:
    context.remove_broker(3)
    replica_machine.start(context)
    states = [
        context.replica_states[PartitionAndReplica(PARTITION, broker)] for broker in (1, 2, 3)
    ]
    online, ineligible = ReplicaState.ONLINE, ReplicaState.DELETION_INELIGIBLE
    assert states == [online, online, ineligible]
