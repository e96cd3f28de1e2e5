"""Consumers are sent to the replica in their rack and read from it (KIP-392)."""

from collections.abc import Callable

import pytest

from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.fetch import ClientMetadata, PartitionFetch
from embedkafka.broker.replica.partition.values import ReplicaView
from embedkafka.broker.replica.replica_selector import RackAwareReplicaSelector, replica_selector
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from tests.doubles.replica_cluster import ReplicaCluster

TP = TopicPartition("orders", 0)
LEADER = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture
def racks(make_cluster: Callable[..., ReplicaCluster]) -> ReplicaCluster:
    cluster = make_cluster(config=ReplicaConfig(replica_selector_class=RACK_AWARE))
    cluster.metadata.racks.update({1: "a", 2: "b", 3: "c"})
    cluster.elect(1)
    cluster.settle()
    cluster[1].produce("x")
    cluster.settle()
    cluster.pass_time(cluster.config.replica_fetch_wait_max_ms)
    return cluster


def test_leader_names_the_replica_in_the_consumers_rack(racks: ReplicaCluster) -> None:
    fetched = racks[1].fetch(0, rack="b", max_wait_ms=500)
    assert fetched.data.preferred_read_replica == 2
    assert fetched.values == []


def test_consumer_in_the_leaders_rack_is_served_by_the_leader(racks: ReplicaCluster) -> None:
    fetched = racks[1].fetch(0, rack="a")
    assert (fetched.data.preferred_read_replica, fetched.values) == (-1, ["x"])


@pytest.mark.parametrize("rack", ["", "nowhere"])
def test_consumer_of_no_known_rack_is_served_by_the_leader(
    racks: ReplicaCluster, rack: str
) -> None:
    assert racks[1].fetch(0, rack=rack).values == ["x"]


def test_replica_that_lacks_the_offset_is_not_named(racks: ReplicaCluster) -> None:
    racks.unreachable.add(2)
    racks[1].produce("y", acks=1)
    assert racks[1].fetch(2, rack="b").data.preferred_read_replica == -1


def test_replica_at_the_offset_is_named_though_it_has_nothing_there_yet(
    racks: ReplicaCluster,
) -> None:
    assert racks[1].fetch(1, rack="b", max_wait_ms=500).data.preferred_read_replica == 2


def test_broker_0_is_named_like_any_other_replica(racks: ReplicaCluster) -> None:
    racks.metadata.racks[0] = "d"
    racks.start(0)
    racks.elect(1, [0, 1])
    racks.settle()
    assert racks[1].fetch(1, rack="d", max_wait_ms=500).data.preferred_read_replica == 0


def test_only_a_leader_sends_consumers_elsewhere(racks: ReplicaCluster) -> None:
    """It may have lost its role while the replica was chosen."""
    with pytest.raises(ApiError) as raised:
        racks[2].partition().redirect(PartitionFetch(TP, 0, 1 << 20), BrokerId(3))
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_replica_is_behind_since_it_was_at_the_end(racks: ReplicaCluster) -> None:
    racks.unreachable.add(2)
    racks[1].produce("y", acks=1)
    racks.clock.advance(700)
    views = racks[1].partition().readable_replicas(0)
    assert {view.broker_id: view.behind_ms for view in views}[BrokerId(2)] == 700


def test_follower_serves_a_consumer_that_it_was_sent(racks: ReplicaCluster) -> None:
    assert racks[2].fetch(0, rack="b").values == ["x"]


def test_follower_refuses_clients_that_do_not_know_of_followers(racks: ReplicaCluster) -> None:
    assert racks[2].fetch(0).data.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_consumer_that_waits_at_a_follower_is_woken_by_its_high_watermark(
    racks: ReplicaCluster,
) -> None:
    fetched = racks[2].fetch(1, rack="b", max_wait_ms=10_000)
    racks[1].produce("y")
    racks.settle()
    racks.pass_time(racks.config.replica_fetch_wait_max_ms)
    assert fetched.values == ["y"]


def test_follower_sends_the_consumer_back_when_it_stops_following(racks: ReplicaCluster) -> None:
    fetched = racks[2].fetch(1, rack="b", max_wait_ms=10_000, current_leader_epoch=0)
    racks.elect(1)
    assert fetched.data.error is ErrorCode.FENCED_LEADER_EPOCH


def test_most_caught_up_replica_of_a_rack_is_chosen() -> None:
    selector = RackAwareReplicaSelector(lambda broker: "a" if broker == 1 else "b")
    client = ClientMetadata(rack_id="b", client_id="", client_address="", listener="")
    replicas = [
        ReplicaView(broker_id=BrokerId(n), log_end_offset=end, behind_ms=behind)
        for n, end, behind in [(1, 9, 0.0), (2, 5, 0.0), (3, 7, 9.0), (4, 7, 2.0)]
    ]
    assert selector.select(client, replicas).broker_id == 4


def test_selector_of_leaders_sends_nobody_elsewhere(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(config=ReplicaConfig(replica_selector_class=LEADER))
    cluster.metadata.racks.update({1: "a", 2: "b", 3: "c"})
    cluster.elect(1)
    cluster[1].produce("x")
    cluster.settle()
    assert cluster[1].fetch(0, rack="b").values == ["x"]


def test_unknown_selector_is_refused() -> None:
    with pytest.raises(ConfigError, match="NoSuchSelector"):
        replica_selector("NoSuchSelector", lambda broker: None)


def test_no_selector_sends_nobody_elsewhere() -> None:
    assert replica_selector(None, lambda broker: None) is None
