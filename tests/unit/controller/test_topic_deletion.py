"""Deletion of topics: who waits for what, and what survives a failover."""

import pytest

from embedkafka.controller import events, topic_deletion
from embedkafka.controller.context import ControllerContext, Replica
from embedkafka.controller.loop import ControllerConfig
from embedkafka.controller.replica_machine import ReplicaState
from embedkafka.protocol.errors import ErrorCode
from embedkafka.zk.payloads import ReplicaAssignment
from tests.unit.controller.harness import Cluster, tp


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(brokers=3)


def topic_paths(cluster: Cluster) -> list[str]:
    return [path for path in cluster.server.paths() if "orders" in path]


@pytest.mark.parametrize(
    ("states", "halted", "expected"),
    [
        (["DELETION_SUCCESSFUL", "DELETION_SUCCESSFUL"], False, "complete"),
        (["DELETION_STARTED", "DELETION_SUCCESSFUL"], False, ""),
        (["DELETION_STARTED", "DELETION_INELIGIBLE"], False, ""),
        (["ONLINE", "ONLINE"], False, "begin"),
        (["ONLINE", "ONLINE"], True, ""),
        (["DELETION_SUCCESSFUL", "DELETION_INELIGIBLE"], True, "retry"),
        (["DELETION_SUCCESSFUL", "DELETION_INELIGIBLE"], False, "retry begin"),
    ],
)
def test_what_can_be_done_follows_from_the_replicas(
    states: list[str], halted: bool, expected: str
) -> None:
    context = ControllerContext()
    context.set_assignment(tp("orders"), ReplicaAssignment(replicas=(1, 2)))
    context.topics_to_delete["orders"] = None
    for broker, name in enumerate(states, start=1):
        context.replica_states[Replica(tp("orders"), broker)] = ReplicaState[name]
    if halted:
        context.topics_ineligible_for_deletion.add("orders")
    steps = topic_deletion.decide(context)
    done = {"complete": steps.complete, "retry": steps.retry, "begin": steps.begin}
    assert " ".join(name for name, topics in done.items() if topics) == expected


def test_a_topic_without_partitions_is_complete_at_once(cluster: Cluster) -> None:
    cluster.create_topic("orders", {})
    cluster.delete_topic("orders")
    assert topic_paths(cluster) == []


def test_deletion_waits_for_a_broker_that_is_down(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [1, 2, 3]})
    cluster.kill(3)
    cluster.settle()
    cluster.delete_topic("orders")
    assert cluster.admin.topic_exists("orders")
    assert tp("orders") not in cluster.nodes[1].leaders, "live replicas are deleted already"
    cluster.start(3)
    cluster.settle()
    assert topic_paths(cluster) == []


def test_deletion_waits_when_a_broker_dies_before_it_answers(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [1, 2, 3]})
    cluster.admin.request_topic_deletion("orders")
    while cluster.handle_events():
        pass  # StopReplica requests are queued, none is delivered
    cluster.kill(3)
    cluster.settle()
    assert cluster.admin.topic_exists("orders")
    cluster.start(3)
    cluster.settle()
    assert topic_paths(cluster) == []


def test_a_replica_that_cannot_be_deleted_is_retried_when_its_broker_is_back(
    cluster: Cluster,
) -> None:
    cluster.create_topic("orders", {0: [1, 2, 3]})
    cluster.nodes[2].storage_errors.add(tp("orders"))
    cluster.delete_topic("orders")
    assert cluster.admin.topic_exists("orders")
    context = cluster.controller.core.context
    assert context.topics_ineligible_for_deletion == {"orders"}
    cluster.restart(2)
    cluster.settle()
    assert topic_paths(cluster) == []


def test_a_new_controller_goes_on_with_a_deletion(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [2, 3]})
    cluster.admin.request_topic_deletion("orders")
    cluster.handle_events()
    cluster.kill(1)
    cluster.settle()
    assert topic_paths(cluster) == []
    assert cluster.controller.info.id != 1


def test_a_topic_deleted_and_created_again_is_another_topic(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [1, 2], 1: [2, 1]})
    first = cluster.controller.core.context.topic_ids["orders"]
    cluster.delete_topic("orders")
    cluster.create_topic("orders", {0: [3, 1]})
    assert cluster.leader("orders") == 3
    context = cluster.controller.core.context
    assert context.topic_ids["orders"] != first
    assert first not in context.topic_names
    assert list(context.partitions()) == [tp("orders", 0)]
    assert set(context.partition_states) == {tp("orders", 0)}


def test_requests_for_unknown_topics_are_dropped(cluster: Cluster) -> None:
    cluster.delete_topic("nonesuch")
    assert cluster.admin.topic_deletions() == set()


def test_requests_are_dropped_when_deletion_is_disabled() -> None:
    cluster = Cluster(brokers=1, config=ControllerConfig(delete_topic_enable=False))
    cluster.create_topic("orders", {0: [1]})
    cluster.delete_topic("orders")
    assert cluster.admin.topic_exists("orders")
    assert cluster.admin.topic_deletions() == set()
    assert cluster.leader("orders") == 1
    assert cluster.controller.core.context.topics_to_delete == {}


def test_partitions_added_during_deletion_are_taken_back(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [1, 2, 3]})
    cluster.kill(3)
    cluster.settle()
    cluster.delete_topic("orders")
    topic = cluster.admin.find_topic("orders")
    assert topic is not None
    more = {**topic.partitions, 1: ReplicaAssignment(replicas=(1,))}
    cluster.admin.set_topic_assignment("orders", more, topic_id=topic.topic_id)
    cluster.settle()
    kept = cluster.admin.find_topic("orders")
    assert kept is not None
    assert set(kept.partitions) == {0}


def test_deletion_waits_for_a_reassignment(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [1, 2]})
    cluster.reassign({tp("orders"): [1, 3]})
    cluster.delete_topic("orders")
    assert cluster.admin.topic_exists("orders")
    cluster.set_isr(tp("orders"), [1, 2, 3])
    assert topic_paths(cluster) == []


def test_a_refusal_meant_for_a_brokers_last_life_does_not_halt_its_deletion(
    cluster: Cluster,
) -> None:
    """The session expires while StopReplica is on its way: the old request is refused late."""
    cluster.create_topic("orders", {0: [1, 2]})
    cluster.admin.request_topic_deletion("orders")
    while cluster.handle_events():
        pass
    node, controller = cluster.nodes[2], cluster.nodes[1]
    assert controller.channels is not None
    node.session.expire()
    while node.events:
        node.core.handle(node.events.popleft())
    late = controller.channels.queues[2].pop()
    cluster.settle()
    refusal = node.handle(late.request)
    assert refusal.error_code == ErrorCode.STALE_BROKER_EPOCH
    controller.events.append(events.ResponseReceived(late, refusal))
    cluster.settle()
    assert topic_paths(cluster) == []
