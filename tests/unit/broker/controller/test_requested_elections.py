"""Elections on demand, unclean elections, and the rebalancing of leaders."""

import pytest

from embedkafka.broker.controller import events
from embedkafka.broker.controller.core import ControllerConfig
from embedkafka.broker.controller.events import ElectionType
from embedkafka.runtime.ids import NO_LEADER
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.zk.payloads import RECOVERING
from tests.unit.broker.controller.harness import Cluster, tp

ORDERS = tp("orders")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(brokers=3)


def with_leader_elsewhere(cluster: Cluster) -> None:
    """Makes broker 2 preferred and broker 3 leader."""
    cluster.create_topic("orders", {0: [2, 3]})
    cluster.restart(2)
    cluster.settle()
    cluster.set_isr(ORDERS, [3, 2])
    assert cluster.leader("orders") == 3


def code(answer: int | ApiError) -> ErrorCode | int:
    return answer.code if isinstance(answer, ApiError) else answer


def test_the_preferred_replica_is_elected(cluster: Cluster) -> None:
    with_leader_elsewhere(cluster)
    assert cluster.elect([ORDERS], ElectionType.PREFERRED) == {ORDERS: 2}
    assert cluster.leader("orders") == 2
    assert cluster.nodes[1].metadata[ORDERS].leader == 2


def test_all_partitions_are_meant_when_none_is_named(cluster: Cluster) -> None:
    with_leader_elsewhere(cluster)
    cluster.create_topic("fine", {0: [1]})
    answers = cluster.elect(None, ElectionType.PREFERRED)
    assert {p: code(a) for p, a in answers.items()} == {
        ORDERS: 2,
        tp("fine"): ErrorCode.ELECTION_NOT_NEEDED,
    }


def test_every_refusal_has_its_error(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [2, 3]})
    cluster.create_topic("doomed", {0: [3, 2]})
    cluster.kill(2)
    cluster.settle()
    cluster.admin.request_topic_deletion("doomed")
    while cluster.handle_events():
        pass  # without deliveries, the deletion stays in progress
    answers = cluster.elect([ORDERS, tp("doomed"), tp("nonesuch")], ElectionType.PREFERRED)
    assert {p: code(a) for p, a in answers.items()} == {
        ORDERS: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        tp("doomed"): ErrorCode.INVALID_TOPIC_EXCEPTION,
        tp("nonesuch"): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_a_znode_asks_for_preferred_elections(cluster: Cluster) -> None:
    with_leader_elsewhere(cluster)
    for _ in range(2):
        cluster.admin.create_preferred_election([ORDERS, tp("nonesuch")])
        cluster.settle()
        assert cluster.leader("orders") == 2
        assert cluster.admin.preferred_election() == []


def test_a_new_controller_finishes_the_znodes_election(cluster: Cluster) -> None:
    with_leader_elsewhere(cluster)
    cluster.admin.create_preferred_election([ORDERS])
    cluster.kill(1)
    cluster.settle()
    assert cluster.leader("orders") == 2


def leaderless(cluster: Cluster) -> None:
    """Only broker 2 is in sync, and it is dead."""
    cluster.create_topic("orders", {0: [2, 3]})
    cluster.set_isr(ORDERS, [2])
    cluster.kill(2)
    cluster.settle()
    assert (cluster.leader("orders"), cluster.isr("orders")) == (NO_LEADER, (2,))


def test_a_partition_waits_for_its_isr(cluster: Cluster) -> None:
    leaderless(cluster)
    cluster.start(2)
    cluster.settle()
    assert cluster.leader("orders") == 2
    assert cluster.state(ORDERS).leader_recovery_state == 0


def test_an_admin_may_force_an_unclean_election(cluster: Cluster) -> None:
    leaderless(cluster)
    assert cluster.elect([ORDERS], ElectionType.UNCLEAN) == {ORDERS: 3}
    state = cluster.state(ORDERS)
    assert (state.isr, state.leader_recovery_state) == ((3,), RECOVERING)
    (again,) = cluster.elect([ORDERS], ElectionType.UNCLEAN).values()
    assert code(again) is ErrorCode.ELECTION_NOT_NEEDED


def test_a_setting_of_the_topic_allows_unclean_elections(cluster: Cluster) -> None:
    leaderless(cluster)
    cluster.admin.set_config("topics", "orders", {"unclean.leader.election.enable": "true"})
    cluster.controller.events.append(events.UncleanLeaderElectionEnable("orders"))
    cluster.settle()
    assert cluster.leader("orders") == 3


def test_unclean_elections_by_default(cluster: Cluster) -> None:
    leaderless(cluster)
    cluster.controller.events.append(events.UncleanLeaderElectionEnable())
    cluster.settle()
    assert cluster.leader("orders") == 3


def test_the_default_can_be_turned_off_again(cluster: Cluster) -> None:
    cluster.controller.events.append(events.UncleanLeaderElectionEnable())
    cluster.controller.events.append(events.UncleanLeaderElectionEnable(enabled=False))
    leaderless(cluster)


def test_a_topic_may_forbid_what_the_default_allows() -> None:
    cluster = Cluster(brokers=3, config=ControllerConfig(unclean_leader_election_enable=True))
    cluster.create_topic("orders", {0: [2, 3]}, {"unclean.leader.election.enable": "false"})
    cluster.create_topic("other", {0: [2, 3]})
    cluster.set_isr(ORDERS, [2])
    cluster.set_isr(tp("other"), [2])
    cluster.kill(2)
    cluster.settle()
    assert cluster.leader("orders") == NO_LEADER
    assert cluster.leader("other") == 3


def test_leaders_are_balanced_when_it_is_time(cluster: Cluster) -> None:
    with_leader_elsewhere(cluster)
    timers = cluster.controller.timers
    assert [delay for _, delay, _ in timers.tasks] == [5_000]
    timers.fire()
    cluster.settle()
    assert cluster.leader("orders") == 2
    assert [delay for _, delay, _ in timers.tasks] == [300_000]


def test_a_small_imbalance_is_left_alone() -> None:
    config = ControllerConfig(leader_imbalance_per_broker_percentage=100)
    cluster = Cluster(brokers=3, config=config)
    with_leader_elsewhere(cluster)
    cluster.controller.timers.fire()
    cluster.settle()
    assert cluster.leader("orders") == 3


def test_balancing_waits_until_the_preferred_replica_is_in_sync(cluster: Cluster) -> None:
    cluster.create_topic("orders", {0: [2, 3]})
    cluster.restart(2)
    cluster.settle()
    assert cluster.isr("orders") == (3,)
    cluster.controller.timers.fire()
    cluster.settle()
    assert cluster.leader("orders") == 3


def test_balancing_can_be_turned_off() -> None:
    cluster = Cluster(brokers=1, config=ControllerConfig(auto_leader_rebalance_enable=False))
    assert cluster.controller.timers.tasks == []
