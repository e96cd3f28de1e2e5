"""Deletion of topics: what waits for what, and what survives a failover."""

from collections.abc import Callable

import pytest

from embedkafka.broker.controller import events, topic_deletion
from embedkafka.broker.controller.context import ControllerContext, PartitionAndReplica
from embedkafka.broker.controller.core import ControllerConfig
from embedkafka.broker.controller.replica_machine import ReplicaState
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.zk import paths, payloads
from embedkafka.zk.payloads import ReplicaAssignment
from tests.unit.broker.controller.harness import Cluster, broker_info, tp


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(brokers=3)


def queue_deletion(cluster: Cluster, topic: str) -> None:
    """Starts a deletion whose StopReplica requests are queued but not delivered."""
    cluster.admin.request_topic_deletion(topic)
    while cluster.handle_events():
        pass


def miss(cluster: Cluster, broker: int, act: Callable[[], None]) -> None:
    """Stalls a broker until its session ends, calls `act`, and lets it resume."""
    node = cluster.nodes.pop(broker)
    node.session.expire()
    cluster.settle()
    act()
    cluster.nodes[broker] = node
    cluster.settle()


def topic_paths(cluster: Cluster) -> list[str]:
    return [path for path in cluster.server.paths() if "orders" in path]


@pytest.mark.parametrize(
    ("states", "live", "expected"),
    [
        (["DELETION_SUCCESSFUL", "DELETION_SUCCESSFUL"], {1, 2}, "complete"),
        (["DELETION_STARTED", "DELETION_SUCCESSFUL"], {1, 2}, ""),
        (["DELETION_STARTED", "DELETION_INELIGIBLE"], {2}, ""),
        (["DELETION_SUCCESSFUL", "DELETION_INELIGIBLE"], {1}, "complete"),
        (["DELETION_SUCCESSFUL", "DELETION_INELIGIBLE"], {1, 2}, ""),
        (["DELETION_SUCCESSFUL", "OFFLINE"], {1, 2}, "begin"),
        (["DELETION_STARTED", "OFFLINE"], {1, 2}, ""),
        (["OFFLINE", "OFFLINE"], set(), "complete"),
    ],
)
def test_what_can_be_done_follows_from_the_replicas(
    states: list[str], live: set[int], expected: str
) -> None:
    context = ControllerContext()
    for broker in live:
        context.add_broker(broker_info(broker), epoch=1)
    context.set_assignment(tp("orders"), ReplicaAssignment(replicas=(1, 2)))
    context.topics_to_delete["orders"] = None
    context.topics_with_deletion_started.add("orders")
    for broker, name in enumerate(states, start=1):
        context.replica_states[PartitionAndReplica(tp("orders"), broker)] = ReplicaState[name]
    steps = topic_deletion.decide(context)
    done = {"complete": steps.complete, "begin": steps.begin}
    assert " ".join(name for name, topics in done.items() if topics) == expected


def test_the_queue_is_counted_without_the_replicas_that_are_deleted() -> None:
    context = ControllerContext()
    assert topic_deletion.count_queued(context) == (0, 0, 0, 0)
    for topic in ("orders", "kept"):
        context.set_assignment(tp(topic), ReplicaAssignment(replicas=(1, 2, 3)))
    context.topics_to_delete["orders"] = None
    states = ("DELETION_SUCCESSFUL", "DELETION_STARTED", "DELETION_INELIGIBLE")
    for broker, name in enumerate(states, start=1):
        context.replica_states[PartitionAndReplica(tp("orders"), broker)] = ReplicaState[name]
    counts = topic_deletion.count_queued(context)
    assert (counts.topics, counts.replicas) == (1, 2)
    assert (counts.ineligible_topics, counts.ineligible_replicas) == (1, 1)


def test_a_topic_without_partitions_is_complete_at_once(cluster: Cluster) -> None:
    cluster.create_topic("orders", {})
    cluster.delete_topic("orders")
    assert topic_paths(cluster) == []


def test_a_dead_broker_does_not_hold_up_a_deletion(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [1, 2, 3]})
    cluster.kill(3)
    cluster.settle()
    cluster.delete_topic("orders")
    assert topic_paths(cluster) == []
    assert tp("orders") not in cluster.nodes[1].leaders


def test_a_topic_that_has_no_live_replica_can_go(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [3]})
    cluster.kill(3)
    cluster.settle()
    cluster.delete_topic("orders")
    assert topic_paths(cluster) == []
    assert tp("orders") not in cluster.nodes[1].metadata


def test_a_deletion_completes_without_a_broker_that_dies_before_it_answers(
    cluster: Cluster,
) -> None:
    cluster.create_topic("orders", {0: [1, 2, 3]})
    queue_deletion(cluster, "orders")
    cluster.kill(3)
    cluster.settle()
    assert topic_paths(cluster) == []


def test_a_replica_on_a_failed_disk_does_not_hold_up_a_deletion(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [1, 2, 3]})
    cluster.nodes[2].storage_errors.add(tp("orders"))
    cluster.delete_topic("orders")
    assert topic_paths(cluster) == []
    assert tp("orders") not in cluster.nodes[2].storage_errors, "the name must be free there, too"
    cluster.create_topic("orders", {0: [2]})
    assert cluster.leader("orders") == 2


def test_a_broker_that_missed_a_deletion_drops_what_it_had(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [1, 2, 3]})
    miss(cluster, 3, lambda: cluster.delete_topic("orders"))
    assert cluster.nodes[3].leaders == {}
    assert cluster.nodes[3].metadata == {}


def test_a_broker_that_missed_that_a_topic_was_made_again_begins_again(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [3, 1, 2]})

    def replace() -> None:
        cluster.delete_topic("orders")
        cluster.create_topic("orders", {0: [1, 2, 3]})

    miss(cluster, 3, replace)
    topic = cluster.admin.find_topic("orders")
    assert topic is not None
    assert cluster.nodes[3].topic_ids[tp("orders")] == topic.topic_id
    assert cluster.nodes[3].leaders[tp("orders")].leader == 1


def test_a_broker_that_missed_a_reassignment_drops_the_replica(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [3, 1]})

    def move() -> None:
        cluster.reassign({tp("orders"): [1, 2]})
        cluster.set_isr(tp("orders"), [1, 2])

    miss(cluster, 3, move)
    assert cluster.nodes[3].leaders == {}
    assert cluster.nodes[3].metadata[tp("orders")].leader == 1


def test_a_new_controller_tells_every_broker_everything(cluster: Cluster) -> None:
    """Its predecessor died before it sent anything: only broker 3 has the old log."""
    cluster.create_topic("orders", {0: [3, 2]})
    queue_deletion(cluster, "orders")
    node = cluster.nodes[1]
    assert node.channels is not None
    node.channels.close()
    cluster.kill(1)
    cluster.settle()
    assert topic_paths(cluster) == []
    assert cluster.nodes[3].leaders == {}
    assert cluster.nodes[3].metadata == {}


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
    queue_deletion(cluster, "orders")
    topic = cluster.admin.find_topic("orders")
    assert topic is not None
    more = {**topic.partitions, 1: ReplicaAssignment(replicas=(1,))}
    cluster.admin.set_topic_assignment("orders", more, topic_id=topic.topic_id)
    while cluster.handle_events():
        pass
    kept = cluster.admin.find_topic("orders")
    assert kept is not None
    assert set(kept.partitions) == {0}
    cluster.settle()
    assert topic_paths(cluster) == []


def test_a_deletion_drops_a_reassignment(cluster: Cluster) -> None:
    """As on KRaft. Otherwise it would wait forever for a target broker that stays away."""
    cluster.create_topic("orders", {0: [1, 2]})
    wanted = payloads.encode_reassignment({tp("orders"): (1, 3)})
    cluster.admin.store.create(paths.REASSIGN_PARTITIONS, wanted)
    cluster.settle()
    assert cluster.list_reassignments(None)
    cluster.delete_topic("orders")
    assert topic_paths(cluster) == []
    assert cluster.list_reassignments(None) == {}
    assert cluster.admin.store.exists(paths.REASSIGN_PARTITIONS) is None
    assert cluster.nodes[3].leaders == {}


def test_a_refusal_meant_for_a_brokers_last_life_does_not_halt_its_deletion(
    cluster: Cluster,
) -> None:
    """The session expires while StopReplica is in flight, so the old request is refused late."""
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
