"""Reassignment: validation, phases, cancellation, and resumption after a failover."""

import pytest

from embedkafka.broker.controller import reassignment
from embedkafka.broker.controller.state_changes import StateChanges
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import replace
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.zk.payloads import LeaderAndIsr, ReplicaAssignment
from tests.unit.broker.controller.harness import Cluster, tp

ORDERS = tp("orders")


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(brokers=4)
    cluster.create_topic("orders", {0: [1, 2]})
    return cluster


def assignment(cluster: Cluster) -> ReplicaAssignment:
    topic = cluster.admin.find_topic("orders")
    assert topic is not None
    return topic.partitions[0]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([], "empty replica list"),
        ([1, 1], "more than once"),
        ([1, -1], "broker -1, but no such broker"),
        ([1, 9], "no such broker"),
    ],
)
def test_impossible_targets_are_refused(target: list[int], message: str) -> None:
    error = reassignment.validate(ReplicaAssignment(replicas=(1, 2)), target, {1, 2, 3})
    assert error is not None
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message in error.message


def test_a_dead_replica_may_stay() -> None:
    current = ReplicaAssignment(replicas=(1, 2))
    assert reassignment.validate(current, [2, 3], {1, 3}) is None


def test_completion_needs_every_target_in_sync() -> None:
    moving = ReplicaAssignment(replicas=(1, 2)).reassign_to([2, 3])
    assert not reassignment.is_complete(moving, None)
    assert not reassignment.is_complete(moving, LeaderAndIsr(leader=1, isr=(1, 2)))
    assert reassignment.is_complete(moving, LeaderAndIsr(leader=1, isr=(1, 2, 3)))


def test_new_replicas_start_while_old_ones_serve(cluster: Cluster) -> None:
    before = cluster.state(ORDERS).leader_epoch
    assert cluster.reassign({ORDERS: [3, 4]}) == {ORDERS: None}
    assert assignment(cluster) == ReplicaAssignment(
        replicas=(3, 4, 1, 2), adding=(3, 4), removing=(1, 2)
    )
    state = cluster.state(ORDERS)
    assert (state.leader, state.isr) == (1, (1, 2))
    assert state.leader_epoch == before + 1
    assert cluster.nodes[3].leaders[ORDERS].is_new
    assert cluster.nodes[1].leaders[ORDERS].replicas == (3, 4, 1, 2)
    assert not cluster.nodes[1].leaders[ORDERS].is_new


def test_the_leader_moves_and_old_replicas_go_when_new_ones_are_in_sync(
    cluster: Cluster,
) -> None:
    cluster.reassign({ORDERS: [3, 4]})
    cluster.set_isr(ORDERS, [1, 2, 3])
    assert assignment(cluster).is_being_reassigned
    cluster.set_isr(ORDERS, [1, 2, 3, 4])
    assert assignment(cluster) == ReplicaAssignment(replicas=(3, 4))
    state = cluster.state(ORDERS)
    assert (state.leader, set(state.isr)) == (3, {3, 4})
    assert ORDERS not in cluster.nodes[1].leaders
    assert ORDERS not in cluster.nodes[2].leaders
    assert cluster.nodes[4].leaders[ORDERS].replicas == (3, 4)
    assert cluster.nodes[1].metadata[ORDERS].replicas == (3, 4)
    assert not cluster.controller.core.context.reassigning


def test_a_leader_that_stays_gets_a_new_epoch_and_the_smaller_replica_set(
    cluster: Cluster,
) -> None:
    cluster.reassign({ORDERS: [1, 3]})
    cluster.set_isr(ORDERS, [1, 2, 3])
    state = cluster.state(ORDERS)
    assert (state.leader, set(state.isr)) == (1, {1, 3})
    assert cluster.nodes[1].leaders[ORDERS].replicas == (1, 3)
    assert ORDERS not in cluster.nodes[2].leaders


def test_reordering_replicas_completes_at_once(cluster: Cluster) -> None:
    assert cluster.reassign({ORDERS: [2, 1]}) == {ORDERS: None}
    assert assignment(cluster) == ReplicaAssignment(replicas=(2, 1))
    assert cluster.leader("orders") == 1, "the leader must not change without an election"


def test_the_state_watch_alone_completes_it(cluster: Cluster) -> None:
    cluster.reassign({ORDERS: [1, 3]})
    state = cluster.state(ORDERS)
    grown = LeaderAndIsr(
        leader=1,
        isr=(1, 2, 3),
        leader_epoch=state.leader_epoch,
        controller_epoch=state.controller_epoch,
        zk_version=state.zk_version,
    )
    assert cluster.admin.update_isr_as_leader(ORDERS, grown) is not None
    cluster.settle()
    assert assignment(cluster) == ReplicaAssignment(replicas=(1, 3))


def test_a_cancelled_reassignment_goes_back(cluster: Cluster) -> None:
    cluster.reassign({ORDERS: [3, 4]})
    assert cluster.reassign({ORDERS: None}) == {ORDERS: None}
    assert assignment(cluster) == ReplicaAssignment(replicas=(1, 2))
    assert ORDERS not in cluster.nodes[3].leaders
    assert cluster.leader("orders") == 1
    assert not cluster.controller.core.context.reassigning


def test_a_replica_that_joined_during_the_cancellation_leaves_the_isr(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leader added it after the controller had looked."""
    cluster.reassign({ORDERS: [3, 4]})
    bump = StateChanges.bump_leader_epoch

    def grow_and_bump(changes: StateChanges, partition: TopicPartition) -> None:
        grown = replace(cluster.state(ORDERS), isr=(1, 2, 3))
        assert cluster.admin.update_isr_as_leader(ORDERS, grown) is not None
        bump(changes, partition)

    monkeypatch.setattr(StateChanges, "bump_leader_epoch", grow_and_bump)
    assert cluster.reassign({ORDERS: None}) == {ORDERS: None}
    assert assignment(cluster) == ReplicaAssignment(replicas=(1, 2))
    assert cluster.isr("orders") == (1, 2)
    assert cluster.controller.core.context.leadership[ORDERS].isr == (1, 2)


def test_nothing_to_cancel_is_an_error(cluster: Cluster) -> None:
    (error,) = cluster.reassign({ORDERS: None}).values()
    assert error is not None
    assert error.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_newer_reassignment_replaces_the_one_in_progress(cluster: Cluster) -> None:
    cluster.reassign({ORDERS: [3, 2]})
    cluster.reassign({ORDERS: [4, 2]})
    assert assignment(cluster) == ReplicaAssignment(replicas=(4, 2, 1), adding=(4,), removing=(1,))
    assert ORDERS not in cluster.nodes[3].leaders
    cluster.set_isr(ORDERS, [1, 2, 4])
    assert assignment(cluster) == ReplicaAssignment(replicas=(4, 2))


def test_errors_are_per_partition(cluster: Cluster) -> None:
    answers = cluster.reassign({ORDERS: [1, 9], tp("nonesuch"): [1]})
    codes = {partition: error.code if error else None for partition, error in answers.items()}
    assert codes == {
        ORDERS: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        tp("nonesuch"): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_a_topic_that_is_being_deleted_cannot_be_reassigned(cluster: Cluster) -> None:
    cluster.admin.request_topic_deletion("orders")
    while cluster.handle_events():
        pass
    error = cluster.reassign({ORDERS: [3, 4]})[ORDERS]
    assert error is not None
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_reassignments_are_listed(cluster: Cluster) -> None:
    assert cluster.list_reassignments(None) == {}
    cluster.reassign({ORDERS: [3, 4]})
    expected = {ORDERS: assignment(cluster)}
    assert cluster.list_reassignments(None) == expected
    assert cluster.list_reassignments([ORDERS, tp("nonesuch")]) == expected


def test_a_new_controller_goes_on(cluster: Cluster) -> None:
    cluster.create_topic("others", {0: [2, 3]})
    cluster.reassign({tp("others"): [3, 4]})
    cluster.kill(1)
    cluster.settle()
    assert cluster.controller.core.context.reassigning == {tp("others"): None}
    cluster.set_isr(tp("others"), [2, 3, 4])
    topic = cluster.admin.find_topic("others")
    assert topic is not None
    assert topic.partitions[0] == ReplicaAssignment(replicas=(3, 4))


def test_it_goes_on_when_a_target_broker_comes_back(cluster: Cluster) -> None:
    cluster.reassign({ORDERS: [2, 4]})
    cluster.kill(4)
    cluster.settle()
    assert assignment(cluster).is_being_reassigned
    cluster.start(4)
    cluster.settle()
    assert cluster.nodes[4].leaders[ORDERS].leader == 1
    cluster.set_isr(ORDERS, [1, 2, 4])
    assert assignment(cluster) == ReplicaAssignment(replicas=(2, 4))
    assert cluster.leader("orders") == 2


def test_the_znode_of_old_tools_works_and_goes_away(cluster: Cluster) -> None:
    cluster.admin.create_reassignment({ORDERS: [1, 3], tp("nonesuch"): [1]})
    cluster.settle()
    assert cluster.admin.reassignment() == {ORDERS: (1, 3)}
    cluster.set_isr(ORDERS, [1, 2, 3])
    assert assignment(cluster) == ReplicaAssignment(replicas=(1, 3))
    assert cluster.admin.reassignment() == {}
    cluster.admin.create_reassignment({ORDERS: [1, 2]})
    cluster.settle()
    assert assignment(cluster).is_being_reassigned, "the second znode went unnoticed"


def test_the_api_takes_over_from_the_znode(cluster: Cluster) -> None:
    cluster.admin.create_reassignment({ORDERS: [1, 3]})
    cluster.settle()
    cluster.reassign({ORDERS: [1, 4]})
    assert cluster.admin.reassignment() == {}
    assert assignment(cluster).adding == (4,)


def test_only_the_controller_answers(cluster: Cluster) -> None:
    answer = cluster.ask_reassign(2, {ORDERS: [1, 3]})
    assert isinstance(answer, ApiError)
    assert answer.code is ErrorCode.NOT_CONTROLLER


def test_a_partition_that_never_had_a_leader_can_be_reordered(cluster: Cluster) -> None:
    cluster.kill(3)
    cluster.kill(4)
    cluster.settle()
    cluster.create_topic("asleep", {0: [3, 4]})
    assert cluster.reassign({tp("asleep"): [4, 3]}) == {tp("asleep"): None}
    cluster.start(3)
    cluster.start(4)
    cluster.settle()
    assert cluster.leader("asleep") in (3, 4)
    topic = cluster.admin.find_topic("asleep")
    assert topic is not None
    assert topic.partitions[0] == ReplicaAssignment(replicas=(4, 3))


def test_a_cancellation_never_drops_the_last_replica_in_sync(cluster: Cluster) -> None:
    cluster.reassign({ORDERS: [3, 4]})
    cluster.set_isr(ORDERS, [1, 3])
    cluster.kill(1)
    cluster.kill(2)
    cluster.settle()
    assert (cluster.leader("orders"), cluster.isr("orders")) == (3, (3,))
    (error,) = cluster.reassign({ORDERS: None}).values()
    assert error is not None
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.leader("orders") == 3
