"""A follower joins the in-sync replicas only in the incarnation in which it fetched (KIP-903)."""

from collections.abc import Callable

import pytest

from embedkafka.broker.log.log import FetchIsolation
from embedkafka.broker.replica.fetch import FetchParams, PartitionData, PartitionFetch
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from tests.doubles.replica_cluster import ReplicaCluster

TP = TopicPartition("orders", 0)


@pytest.fixture
def cluster(make_cluster: Callable[..., ReplicaCluster]) -> ReplicaCluster:
    """Broker 1 leads alone, with one record; broker 2 fetches only when the test does."""
    cluster = make_cluster(brokers=2)
    cluster.elect(1, isr=[1])
    cluster.unreachable.add(2)
    cluster[1].produce("a")
    return cluster


def fetch(cluster: ReplicaCluster, offset: int, broker_epoch: int) -> ErrorCode:
    """Broker 2 fetches as if over the wire; the error that it gets."""
    answers: list[PartitionData] = []
    params = FetchParams(
        replica_id=BrokerId(2),
        broker_epoch=broker_epoch,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1_000,
        isolation=FetchIsolation.LOG_END,
    )
    request = PartitionFetch(TP, offset, 1_000, log_start_offset=0)
    cluster[1].manager.reads.fetch_messages(params, [request], answers.extend)
    return answers[0].error


def test_a_follower_joins_in_its_present_life(cluster: ReplicaCluster) -> None:
    cluster.store.broker_epochs[2] = 5
    assert fetch(cluster, 1, broker_epoch=5) is ErrorCode.NONE
    cluster[1].tasks.run_due()
    assert cluster[1].partition().isr == (1, 2)


def test_a_follower_that_was_restarted_does_not_join_by_an_old_position(
    cluster: ReplicaCluster,
) -> None:
    fetch(cluster, 1, broker_epoch=5)
    cluster.store.broker_epochs[2] = 6
    cluster[1].tasks.run_due()
    assert cluster[1].partition().isr == (1,)
    assert cluster[1].produce("b").error is ErrorCode.NONE, "it is not waited for"
    fetch(cluster, 0, broker_epoch=6)
    cluster[1].tasks.run_due()
    assert cluster[1].partition().isr == (1,)
    fetch(cluster, 2, broker_epoch=6)
    cluster[1].tasks.run_due()
    assert cluster[1].partition().isr == (1, 2)


def test_a_follower_that_is_gone_does_not_join(cluster: ReplicaCluster) -> None:
    fetch(cluster, 1, broker_epoch=5)
    cluster[1].tasks.run_due()
    assert cluster[1].partition().isr == (1,)


@pytest.mark.parametrize("told", [5, -1])
def test_a_follower_that_goes_while_it_joins_stays_out(cluster: ReplicaCluster, told: int) -> None:
    cluster.store.broker_epochs[2] = 5
    fetch(cluster, 1, broker_epoch=told)
    del cluster.store.broker_epochs[2]  # and the controller has seen it
    cluster[1].tasks.run_due()
    assert cluster[1].partition().isr == (1,)
    assert cluster[1].produce("b").error is ErrorCode.NONE, "it is not waited for"
    cluster.store.broker_epochs[2] = 7
    fetch(cluster, 2, broker_epoch=-1)
    cluster[1].tasks.run_due()
    assert cluster[1].partition().isr == (1, 2)


def test_a_late_fetch_of_an_earlier_life_is_refused(cluster: ReplicaCluster) -> None:
    cluster.store.broker_epochs[2] = 6
    fetch(cluster, 0, broker_epoch=6)
    assert fetch(cluster, 1, broker_epoch=5) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster[1].tasks.run_due()
    assert cluster[1].partition().isr == (1,)


def test_older_followers_tell_no_epoch_and_join_as_ever(cluster: ReplicaCluster) -> None:
    fetch(cluster, 1, broker_epoch=-1)
    cluster[1].tasks.run_due()
    assert cluster[1].partition().isr == (1, 2)
