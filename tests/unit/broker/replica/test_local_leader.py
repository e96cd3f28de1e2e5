"""A leader in the same process: where it is found, and when it has news."""

from collections.abc import Callable

import pytest

from embedkafka.broker.replica.fetch import PartitionFetch
from embedkafka.broker.replica.following.leader_endpoint import LeaderUnavailable
from embedkafka.broker.replica.local_leader import LocalLeader
from embedkafka.broker.replica.manager import ReplicaManager
from embedkafka.broker.replica.partition.partition import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from tests.doubles.replica_cluster import TOPIC_ID, ReplicaCluster, values_in

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
FOLLOWER = BrokerId(2)


class Follower:
    """Follows TP and OTHER from broker 1."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        self.cluster = cluster
        self.news: list[TopicPartition] = []
        self.leader = LocalLeader(
            BrokerId(1), FOLLOWER, self._find, self.news.append, lambda: cluster[2].broker_epoch
        )
        self.elect()

    def elect(self) -> None:
        for topic_partition in (TP, OTHER):
            self.cluster.elect(1, [1, FOLLOWER], of=topic_partition)
        self.news.clear()

    def fetch(self, *topic_partitions: TopicPartition) -> list[list[str]]:
        requests = [
            PartitionFetch(name, 0, 1 << 20, topic_id=TOPIC_ID) for name in topic_partitions
        ]
        answers = self.leader.fetch(requests)
        assert {answer.error for answer in answers} == {ErrorCode.NONE}
        return [values_in(answer) for answer in answers]

    def produce(self) -> None:
        """Appends to each partition at the leader."""
        for topic_partition in (TP, OTHER):
            self.cluster[1].produce("a", to=topic_partition, acks=1)

    def _find(self, broker_id: BrokerId) -> ReplicaManager | None:
        node = self.cluster.nodes.get(broker_id)
        return None if node is None else node.manager


@pytest.fixture
def follower(make_cluster: Callable[..., ReplicaCluster]) -> Follower:
    return Follower(make_cluster(brokers=2))


def test_leader_brings_news_of_the_partitions_that_were_fetched(follower: Follower) -> None:
    for _ in range(2):
        assert follower.fetch(TP) == [[]]
    follower.produce()
    assert follower.news == [TP]
    assert follower.fetch(TP, OTHER) == [["a"], ["a"]]
    follower.produce()
    assert follower.news == [TP, TP, OTHER]


def test_leader_brings_no_news_of_a_partition_that_was_forgotten(follower: Follower) -> None:
    follower.leader.forget(OTHER)  # before anything was fetched
    follower.fetch(TP, OTHER)
    follower.leader.forget(TP)
    follower.produce()
    assert follower.news == [OTHER]
    follower.fetch(TP)
    follower.produce()
    assert follower.news == [OTHER, TP, OTHER]


def test_closed_leader_brings_no_news_and_is_not_fetched(follower: Follower) -> None:
    follower.fetch(TP, OTHER)
    follower.leader.close()
    follower.produce()
    assert follower.news == []
    with pytest.raises(LeaderUnavailable):
        follower.fetch(TP)


def test_restarted_leader_brings_news_again(follower: Follower) -> None:
    follower.fetch(TP, OTHER)
    follower.cluster.kill(1)
    with pytest.raises(LeaderUnavailable):
        follower.fetch(TP)
    follower.cluster.start(1)
    follower.elect()
    follower.fetch(TP)
    follower.produce()
    assert follower.news == [TP, OTHER], "also of what was not fetched since"


def test_leader_tells_where_its_log_begins_and_ends(follower: Follower) -> None:
    follower.produce()
    follower.produce()
    assert follower.leader.find_offset(TP, EARLIEST_TIMESTAMP, 0) == 0
    assert follower.leader.find_offset(TP, LATEST_TIMESTAMP, 0) == 2, "also what is not committed"
    assert follower.leader.end_offset_for_epoch(TP, 0, 0) == (0, 2)
