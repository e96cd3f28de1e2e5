"""Every pair of partition states, and the decisions in a move to ONLINE."""

import itertools

import pytest

from embedkafka.broker.controller import partition_machine
from embedkafka.broker.controller.context import ControllerContext
from embedkafka.broker.controller.election_strategies import Strategy
from embedkafka.broker.controller.partition_machine import PREDECESSORS, IllegalMove, PartitionState
from embedkafka.zk.payloads import LeaderAndIsr, ReplicaAssignment
from tests.unit.broker.controller.harness import broker_info, tp

PARTITION = tp("orders")

LEGAL = {
    ("NON_EXISTENT", "NEW"),
    ("NEW", "ONLINE"),
    ("ONLINE", "ONLINE"),
    ("OFFLINE", "ONLINE"),
    ("NEW", "OFFLINE"),
    ("ONLINE", "OFFLINE"),
    ("OFFLINE", "OFFLINE"),
    ("OFFLINE", "NON_EXISTENT"),
}


def context_with(*brokers: int, replicas: tuple[int, ...] = (1, 2, 3)) -> ControllerContext:
    context = ControllerContext()
    context.epoch = 5
    for broker in brokers:
        context.add_broker(broker_info(broker), broker)
    context.topics.add(PARTITION.topic)
    context.set_assignment(PARTITION, ReplicaAssignment(replicas=replicas))
    return context


@pytest.mark.parametrize(
    ("current", "target"), [*itertools.product(PartitionState, repeat=2)], ids=lambda s: s.name
)
def test_exactly_the_legal_moves_are_made(current: PartitionState, target: PartitionState) -> None:
    context = context_with(1)
    if current is not PartitionState.NON_EXISTENT:
        context.partition_states[PARTITION] = current
    before = dict(context.partition_states)
    may, may_not = partition_machine.legal(context, [PARTITION], target)
    if (current.name, target.name) in LEGAL:
        assert (may, may_not) == ([PARTITION], [])
        partition_machine.move(context, PARTITION, target)
        assert partition_machine.state_of(context, PARTITION) is target
    else:
        assert (may, may_not) == ([], [PARTITION])
        with pytest.raises(IllegalMove, match="orders-0"):
            partition_machine.move(context, PARTITION, target)
        assert context.partition_states == before


def test_the_table_has_every_state() -> None:
    assert PREDECESSORS.keys() == set(PartitionState)


def test_a_new_controller_derives_states_from_leadership() -> None:
    context = context_with(1)
    dead, led, new = tp("orders", 0), tp("orders", 1), tp("orders", 2)
    for partition in (led, new):
        context.set_assignment(partition, ReplicaAssignment(replicas=(1,)))
    context.leadership[dead] = LeaderAndIsr(leader=9, isr=(9,))
    context.leadership[led] = LeaderAndIsr(leader=1, isr=(1,))
    partition_machine.start(context)
    assert context.partition_states == {
        dead: PartitionState.OFFLINE,
        led: PartitionState.ONLINE,
        new: PartitionState.NEW,
    }


def test_first_leaders_come_from_live_replicas_only() -> None:
    context = context_with(2, 3)
    first = partition_machine.decide_first_leaders(context, [PARTITION])
    assert first.states[PARTITION] == LeaderAndIsr(leader=2, isr=(2, 3), controller_epoch=5)
    assert first.recipients[PARTITION] == (2, 3)


def test_a_partition_without_live_replicas_gets_no_first_leader() -> None:
    first = partition_machine.decide_first_leaders(context_with(7), [PARTITION])
    assert not first.states
    assert "no assigned replica is alive" in first.refused[PARTITION]


def test_an_election_is_refused_when_a_newer_controller_wrote_the_state() -> None:
    context = context_with(1, 2, 3)
    current = {PARTITION: LeaderAndIsr(leader=1, isr=(1,), controller_epoch=6)}
    elections = partition_machine.decide_elections(context, Strategy.OFFLINE, [PARTITION], current)
    assert not elections.states
    assert "controller epoch 6" in elections.refused[PARTITION]


def test_an_election_is_refused_without_a_state_in_zookeeper() -> None:
    elections = partition_machine.decide_elections(
        context_with(1), Strategy.OFFLINE, [PARTITION], {}
    )
    assert "no leader and ISR" in elections.refused[PARTITION]


def test_replicas_on_failed_log_directories_are_not_elected() -> None:
    context = context_with(1, 2, 3)
    context.offline_dirs[1] = {PARTITION}
    current = {PARTITION: LeaderAndIsr(leader=1, isr=(1, 2, 3))}
    elections = partition_machine.decide_elections(context, Strategy.OFFLINE, [PARTITION], current)
    assert elections.states[PARTITION].leader == 2
    assert elections.states[PARTITION].isr == (2, 3)


def test_topics_in_deletion_do_not_wait_for_leaders() -> None:
    context = context_with(1)
    context.partition_states[PARTITION] = PartitionState.OFFLINE
    assert partition_machine.waiting_for_leader(context) == [PARTITION]
    assert partition_machine.waiting_for_leader(context, "other") == []
    context.topics_to_delete["orders"] = None
    assert partition_machine.waiting_for_leader(context) == []
