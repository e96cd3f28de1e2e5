"""A leader's view of its followers, and of what has moved."""

from collections.abc import Callable

import pytest

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.producers.entry import AppendOrigin
from embedkafka.broker.replica.fetch import PartitionFetch
from embedkafka.runtime.ids import BrokerId, TopicPartition
from tests.doubles.replica_cluster import ReplicaCluster, records

TP = TopicPartition("orders", 0)
LAG_MS = 30_000


@pytest.mark.parametrize(
    ("isr", "min_isr", "moved"), [([1], 1, True), ([1, 2], 1, False), ([1], 2, False)]
)
def test_append_moves_the_high_watermark_only_if_enough_replicas_have_it(
    make_cluster: Callable[..., ReplicaCluster], isr: list[int], min_isr: int, moved: bool
) -> None:
    cluster = make_cluster(topic_config=LogConfig(min_insync_replicas=min_isr))
    cluster.elect(1, [1, 2], isr=isr)
    for follower in isr[1:]:
        cluster[follower].manager.fetchers.run_until_idle()
    _, has_moved, is_replicated = (
        cluster[1]
        .partition()
        .append_as_leader(records("a"), required_acks=1, origin=AppendOrigin.CLIENT)
    )
    assert (has_moved, is_replicated) == (moved, moved)


def test_leader_forgets_only_dead_brokers_outside_the_set(cluster: ReplicaCluster) -> None:
    cluster.elect(1, isr=[1, 2])
    cluster[1].produce("a")
    cluster[2].manager.fetchers.run_until_idle()
    partition = cluster[1].partition()
    partition.fetch_as_follower(
        BrokerId(3), PartitionFetch(TP, 0, 0), max_bytes=0, min_one_message=False
    )
    cluster.metadata.alive.discard(2)
    partition.forget_dead_followers()
    assert partition.view().follower_end_offsets == {2: 1, 3: 0}
    cluster.metadata.alive.discard(3)
    partition.forget_dead_followers()
    assert partition.view().follower_end_offsets == {2: 1, 3: -1}


def test_leader_knows_whether_it_has_heard_of_its_live_followers(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    partition = cluster[1].partition()
    assert partition.has_unheard_follower()
    cluster[2].manager.fetchers.run_until_idle()
    assert partition.has_unheard_follower(), "of broker 3"
    cluster.metadata.alive.discard(3)
    assert not partition.has_unheard_follower()


def test_answer_of_the_store_to_an_earlier_epoch_is_ignored(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster[1].produce("a")
    cluster.clock.advance(LAG_MS + 1)
    partition = cluster[1].partition()
    proposal = partition.propose_shrink()
    assert proposal is not None
    cluster.elect(1)
    assert not partition.awaits(proposal)
    assert not partition.settle(proposal, 9)
    assert not partition.withdraw(proposal)
    assert partition.isr == (1, 2, 3)


def test_a_member_that_is_no_replica_is_out_of_sync(cluster: ReplicaCluster) -> None:
    """As in Kafka. A controller that ended between two writes may leave one."""
    cluster.elect(1, [1, 2], isr=[1, 2, 3])
    proposal = cluster[1].partition().propose_shrink()
    assert proposal is not None
    assert proposal.state.isr == (1, 2)
