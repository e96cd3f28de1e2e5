"""Loss of brokers, sessions, log directories and the controllership itself."""

import pytest

from embedkafka.broker.controller import events
from embedkafka.runtime.ids import NO_LEADER
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.brokers import StopReplicaRequest
from embedkafka.zk.payloads import BrokerEndpoint, BrokerInfo
from tests.presence import present
from tests.unit.broker.controller.harness import Cluster, tp

ORDERS = tp("orders")


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(brokers=3)
    cluster.create_topic("orders", {0: [2, 3, 1]})
    return cluster


def code(answer: object) -> ErrorCode:
    assert isinstance(answer, ApiError)
    return answer.code


# --- brokers ---


def test_a_broker_that_comes_back_hears_everything_and_follows(cluster: Cluster) -> None:
    cluster.kill(2)
    cluster.settle()
    node = cluster.start(2)
    cluster.settle()
    assert node.metadata[ORDERS].leader == 3
    assert node.leaders[ORDERS].leader == 3
    assert node.live_brokers == {1, 2, 3}
    assert cluster.isr("orders") == (3, 1), "it must not join the ISR before it has caught up"


def test_a_broker_that_bounces_unseen_is_lost_and_found(cluster: Cluster) -> None:
    """It dies and registers again before the controller looks; only its epoch shows it."""
    before = cluster.state(ORDERS).leader_epoch
    cluster.restart(2)
    cluster.settle()
    state = cluster.state(ORDERS)
    assert (state.leader, state.isr) == (3, (3, 1))
    assert state.leader_epoch > before
    assert cluster.nodes[2].leaders[ORDERS].leader == 3


def test_the_channel_to_a_lost_broker_is_closed(cluster: Cluster) -> None:
    cluster.kill(2)
    cluster.settle()
    assert set(present(cluster.controller.channels).queues) == {1, 3}


def test_requests_carry_the_epoch_of_the_brokers_present_life(cluster: Cluster) -> None:
    cluster.restart(2)
    node = cluster.nodes[2]
    cluster.sent.clear()
    cluster.settle()
    epochs = {o.request.broker_epoch for o in cluster.sent if o.broker == 2}
    assert epochs == {node.core.broker_epoch}


def test_changed_listeners_are_told_to_everybody(cluster: Cluster) -> None:
    endpoint = BrokerEndpoint(host="127.0.0.1", port=4444)
    moved = BrokerInfo(id=3, endpoints=(endpoint,))
    for _ in range(2):
        cluster.sent.clear()
        cluster.nodes[3].zk.update_broker(moved)
        cluster.settle()
        assert cluster.controller.core.context.brokers[3] == moved
        moved = BrokerInfo(id=3, endpoints=(BrokerEndpoint(host="127.0.0.1", port=5555),))
        assert {o.broker for o in cluster.sent} == {1, 2, 3}


def test_a_registration_written_again_without_a_change_is_told_to_nobody(cluster: Cluster) -> None:
    cluster.sent.clear()
    cluster.nodes[3].zk.update_broker(cluster.nodes[3].info)
    cluster.settle()
    assert not cluster.sent


def test_all_replicas_gone_and_back(cluster: Cluster) -> None:
    for broker in (1, 2, 3):
        cluster.kill(broker)
        cluster.settle()
    assert cluster.isr("orders") in ((1,), (2,), (3,))
    last = cluster.isr("orders")[0]
    for broker in (1, 2, 3):
        cluster.start(broker)
        cluster.settle()
    assert cluster.leader("orders") == last


def test_a_topic_created_while_its_brokers_are_down_comes_up_with_them(cluster: Cluster) -> None:
    cluster.kill(3)
    cluster.settle()
    cluster.create_topic("later", {0: [3]})
    assert not cluster.admin.partition_states([tp("later")])
    cluster.start(3)
    cluster.settle()
    assert cluster.leader("later") == 3


# --- log directories ---


def test_replicas_on_a_failed_log_directory_are_replaced(cluster: Cluster) -> None:
    cluster.nodes[2].storage_errors.add(ORDERS)
    cluster.nodes[2].zk.notify_log_dir_failure(2)
    cluster.settle()
    assert (cluster.leader("orders"), cluster.isr("orders")) == (3, (3, 1))
    assert cluster.nodes[1].metadata[ORDERS].offline_replicas == [2]
    assert cluster.admin.log_dir_events() == {}
    cluster.restart(2)
    cluster.settle()
    assert cluster.nodes[1].metadata[ORDERS].offline_replicas == []


@pytest.mark.parametrize("loses_answers", [False, True])
def test_a_replica_that_could_not_be_opened_for_a_while_leads_again(
    cluster: Cluster, loses_answers: bool
) -> None:
    """A broker that gets an order twice answers STALE_CONTROLLER_EPOCH: it has carried it out."""
    cluster.create_topic("single", {0: [2]})
    cluster.settle()
    cluster.loses_answers = loses_answers
    cluster.nodes[2].storage_errors.add(tp("single"))
    cluster.nodes[2].zk.notify_log_dir_failure(2)
    cluster.settle()
    assert cluster.leader("single") == -1
    cluster.nodes[2].storage_errors.clear()
    cluster.nodes[2].zk.notify_log_dir_failure(2)
    cluster.settle()
    assert cluster.leader("single") == 2
    assert cluster.nodes[1].metadata[tp("single")].offline_replicas == []


# --- ISR changes ---


def test_isr_changes_reach_everybodys_metadata(cluster: Cluster) -> None:
    cluster.set_isr(ORDERS, [2])
    for node in cluster.nodes.values():
        assert node.metadata[ORDERS].isr == (2,)
    assert cluster.admin.isr_changes() == {}


def test_notifications_for_unknown_partitions_are_dropped(cluster: Cluster) -> None:
    cluster.admin.notify_isr_changes([tp("nonesuch")])
    cluster.settle()
    assert cluster.admin.isr_changes() == {}


def test_an_isr_change_between_read_and_write_is_not_lost(cluster: Cluster) -> None:
    """The leader shrinks its ISR just before the controller elects, so the election starts over."""
    real = cluster.controller.core._zk.update_partition_states
    raced = []

    def racing(states, **kwargs):  # type: ignore[no-untyped-def]
        if not raced and ORDERS in states:
            raced.append(True)
            state = cluster.state(ORDERS)
            smaller = type(state)(
                leader=state.leader,
                isr=(2, 1),
                leader_epoch=state.leader_epoch,
                controller_epoch=state.controller_epoch,
                zk_version=state.zk_version,
            )
            assert cluster.admin.update_isr_as_leader(ORDERS, smaller) is not None
        return real(states, **kwargs)

    cluster.controller.core._zk.update_partition_states = racing
    cluster.kill(2)
    cluster.settle()
    assert raced
    assert (cluster.leader("orders"), cluster.isr("orders")) == (1, (1,))


# --- controlled shutdown ---


def test_controlled_shutdown_moves_leaders_and_stops_followers(cluster: Cluster) -> None:
    cluster.create_topic("followed", {0: [3, 2]})
    cluster.sent.clear()
    assert cluster.shut_down(2) == []
    assert (cluster.leader("orders"), cluster.isr("orders")) == (3, (3, 1))
    assert (cluster.leader("followed"), cluster.isr("followed")) == (3, (3,))
    stops = [o for o in cluster.sent if isinstance(o.request, StopReplicaRequest)]
    assert {o.broker for o in stops} == {2}
    assert not any(o.deleting for o in stops)


def test_controlled_shutdown_tells_what_cannot_move(cluster: Cluster) -> None:
    cluster.set_isr(ORDERS, [2])
    assert cluster.shut_down(2) == [ORDERS]
    assert cluster.leader("orders") == 2


def test_a_single_replica_does_not_hold_up_a_shutdown(cluster: Cluster) -> None:
    cluster.create_topic("alone", {0: [2]})
    assert cluster.shut_down(2) == []
    assert cluster.leader("alone") == 2


def test_a_broker_shutting_down_gets_no_new_leaders(cluster: Cluster) -> None:
    cluster.shut_down(2)
    cluster.create_topic("new", {0: [2, 3]})
    assert (cluster.leader("new"), cluster.isr("new")) == (3, (3,))
    cluster.restart(2)
    cluster.settle()
    assert cluster.controller.core.context.shutting_down == set()


def test_shutdown_requests_of_a_past_life_are_refused(cluster: Cluster) -> None:
    old = cluster.nodes[2].core.broker_epoch
    cluster.restart(2)
    cluster.settle()
    assert code(cluster.shut_down(2, old)) is ErrorCode.STALE_BROKER_EPOCH
    assert code(cluster.shut_down(9)) is ErrorCode.BROKER_NOT_AVAILABLE


# --- the controllership ---


def test_epochs_rise_with_every_controller(cluster: Cluster) -> None:
    seen = [cluster.controller.core.context.epoch]
    for _ in range(4):
        active = cluster.controller.info.id
        cluster.restart(active)
        cluster.settle()
        seen.append(cluster.controller.core.context.epoch)
    assert seen == [1, 2, 3, 4, 5]
    assert all(n.highest_controller_epoch == 5 for n in cluster.nodes.values())


def test_a_controller_whose_znode_is_deleted_resigns_and_another_is_elected(
    cluster: Cluster,
) -> None:
    cluster.admin.store.delete("/controller")
    cluster.settle()
    assert cluster.controller.core.context.epoch == 2
    assert sum(node.core.is_active for node in cluster.nodes.values()) == 1


def test_a_zombie_controller_writes_nothing_and_resigns(cluster: Cluster) -> None:
    """The old controller does not notice its replacement until it tries to write."""
    cluster.create_topic("quiet", {0: [2, 3]})
    zombie = cluster.controller
    zombie.session.expire()
    zombie.events.clear()  # it is stuck and has not noticed the expiry
    for node in cluster.nodes.values():
        while node is not zombie and node.events:
            node.core.handle(node.events.popleft())
    zombie.session.renew()
    assert zombie.core.is_active
    assert cluster.admin.find_controller_id() != zombie.info.id
    partitions = [ORDERS, tp("quiet")]
    before = cluster.admin.partition_states(partitions)
    answers: list[object] = []
    zombie.core.handle(events.ControlledShutdown(2, -1, answers.append))
    assert cluster.admin.partition_states(partitions) == before
    assert code(answers[0]) is ErrorCode.NOT_CONTROLLER
    assert not zombie.core.is_active
    assert zombie.core.context.brokers == {}


def test_brokers_refuse_a_zombies_requests(cluster: Cluster) -> None:
    old = next(o for o in reversed(cluster.sent) if o.broker == 3)
    cluster.restart(cluster.controller.info.id)
    cluster.settle()
    assert cluster.nodes[3].handle(old.request).error_code == ErrorCode.STALE_CONTROLLER_EPOCH


def test_a_broker_whose_session_expires_registers_again(cluster: Cluster) -> None:
    node = cluster.nodes[2]
    before = node.core.broker_epoch
    node.session.expire()
    cluster.settle()
    assert node.core.broker_epoch > before
    assert sorted(cluster.admin.brokers()) == [1, 2, 3]
    assert cluster.leader("orders") != NO_LEADER
    assert cluster.isr("orders") == (3, 1)


def test_a_controller_whose_session_expires_gives_way(cluster: Cluster) -> None:
    first = cluster.controller
    first.session.expire()
    cluster.settle()
    assert cluster.controller.core.context.epoch == 2
    assert sorted(cluster.admin.brokers()) == [1, 2, 3]
    cluster.create_topic("after", {0: [1, 2, 3]})
    assert cluster.leader("after") == 1


def test_a_controller_that_learns_twice_of_an_expiry_goes_on() -> None:
    """A client that loses the connection after its session's expiry learns of that again."""
    alone = Cluster(1)
    session = alone.nodes[1].session
    session.expire()
    session.pause()
    session.resume()
    alone.settle()
    alone.create_topic("after", {0: [1]})
    assert alone.leader("after") == 1


def test_a_new_controller_elects_for_partitions_that_lost_their_leader_meanwhile(
    cluster: Cluster,
) -> None:
    cluster.kill(1)
    cluster.kill(2)
    cluster.settle()
    assert (cluster.leader("orders"), cluster.isr("orders")) == (3, (3,))


def test_a_new_controller_creates_topics_that_the_last_one_did_not_see(
    cluster: Cluster,
) -> None:
    cluster.admin.create_topic("missed", {0: [2, 3]}, topic_id=None, config={})
    cluster.kill(1)
    cluster.settle()
    assert cluster.leader("missed") == 2
    topic = cluster.admin.find_topic("missed")
    assert topic is not None
    assert topic.topic_id is not None, "topics of old Kafka versions must get an id"


def test_a_failed_take_over_gives_the_controllership_back(cluster: Cluster) -> None:
    cluster.kill(1)
    node = cluster.nodes[2]

    def broken() -> None:
        raise RuntimeError("cannot take over")

    node.core._take_over = broken
    with pytest.raises(RuntimeError, match="cannot take over"):
        while node.events:
            node.core.handle(node.events.popleft())
    assert not node.core.is_active
    while cluster.nodes[3].events:
        cluster.nodes[3].core.handle(cluster.nodes[3].events.popleft())
    assert cluster.nodes[3].core.is_active
