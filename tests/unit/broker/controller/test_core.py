"""The controller's events, one at a time, on a cluster without threads."""

import pytest

from tests.unit.broker.controller.harness import Cluster, tp


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(brokers=3)


def test_the_first_broker_is_elected_and_all_hear_of_all(cluster: Cluster) -> None:
    assert cluster.controller.info.id == 1
    assert cluster.admin.find_controller_id() == 1
    assert cluster.admin.controller_epoch() == (1, 1)
    assert [node.core.active_id for node in cluster.nodes.values()] == [1, 1, 1]
    assert all(node.live_brokers == {1, 2, 3} for node in cluster.nodes.values())


def test_a_created_topic_gets_leaders_and_isr(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [1, 2, 3], 1: [2, 3, 1]})
    assert (cluster.leader("orders", 0), cluster.isr("orders", 0)) == (1, (1, 2, 3))
    assert (cluster.leader("orders", 1), cluster.isr("orders", 1)) == (2, (2, 3, 1))
    for node in cluster.nodes.values():
        assert node.leaders[tp("orders", 1)].leader == 2
        assert node.leaders[tp("orders", 1)].is_new
        assert node.metadata[tp("orders", 1)].isr == (2, 3, 1)


def test_added_partitions_get_leaders(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [1, 2]})
    topic = cluster.admin.find_topic("orders")
    assert topic is not None
    partitions = {**topic.partitions, 1: topic.partitions[0].reassign_to([2, 1])}
    partitions[1] = type(partitions[1])(replicas=(2, 1))
    cluster.admin.set_topic_assignment("orders", partitions, topic_id=topic.topic_id)
    cluster.settle()
    assert cluster.leader("orders", 1) == 2
    assert cluster.leader("orders", 0) == 1


def test_a_deleted_topic_is_gone_everywhere(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [1, 2, 3]}, config={"retention.ms": "1"})
    before = {path for path in cluster.server.paths() if "orders" in path}
    assert before
    cluster.delete_topic("orders")
    assert not [path for path in cluster.server.paths() if "orders" in path]
    for node in cluster.nodes.values():
        assert tp("orders") not in node.metadata
        assert tp("orders") not in node.leaders


def test_a_lost_broker_is_replaced_as_leader_and_leaves_the_isr(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [2, 3, 1]})
    cluster.kill(2)
    cluster.settle()
    state = cluster.state(tp("orders"))
    assert (state.leader, state.isr) == (3, (3, 1))
    assert state.leader_epoch > 0
    assert cluster.nodes[1].metadata[tp("orders")].leader == 3
    assert cluster.nodes[1].metadata[tp("orders")].offline_replicas == [2]


def test_another_broker_takes_over_when_the_controller_dies(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [1, 2, 3]})
    cluster.kill(1)
    cluster.settle()
    assert cluster.controller.core.context.epoch == 2
    assert (cluster.leader("orders"), cluster.isr("orders")) == (2, (2, 3))
    cluster.start(1)
    cluster.settle()
    assert cluster.nodes[1].leaders[tp("orders")].leader == 2
    assert cluster.nodes[1].live_brokers == {1, 2, 3}
