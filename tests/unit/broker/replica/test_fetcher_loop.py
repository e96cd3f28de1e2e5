"""When a follower fetches: at once, after a delay, on news, or never again. Without threads."""

from collections.abc import Callable, Sequence
from typing import cast

import pytest

from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.fetch import PartitionData, PartitionFetch
from embedkafka.broker.replica.following.fetcher import Followed
from embedkafka.broker.replica.following.fetcher_loop import FetcherLoop
from embedkafka.broker.replica.following.leader_endpoint import (
    LeaderAccess,
    LeaderEndPoint,
    LeaderUnavailable,
    OnNews,
)
from embedkafka.runtime.ids import BrokerId, TopicPartition
from tests.doubles.replica_cluster import TOPIC_ID, ReplicaCluster

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
CONFIG = ReplicaConfig(replica_fetch_backoff_ms=1_000, replica_fetch_wait_max_ms=500)


class Leader:
    """A leader in this process with nothing to send; `fetches` lists what it was asked for.

    It lacks the methods that look for offsets: the followers agree with it.
    """

    wakes = True

    def __init__(self) -> None:
        self.fetches: list[list[TopicPartition]] = []
        self.forgotten: list[TopicPartition] = []
        self.high_watermark = 1
        self.is_reachable = True
        self.is_closed = False

    def fetch(self, partitions: Sequence[PartitionFetch]) -> list[PartitionData]:
        names = [request.topic_partition for request in partitions]
        self.fetches.append(names)
        if not self.is_reachable:
            raise LeaderUnavailable("the test says so")
        return [
            PartitionData(name, high_watermark=self.high_watermark, log_start_offset=0)
            for name in names
        ]

    def forget(self, topic_partition: TopicPartition) -> None:
        self.forgotten.append(topic_partition)

    def close(self) -> None:
        self.is_closed = True


class Loop:
    """Broker 2, with one record in each partition, and leaders 1 and 3."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        self.clock = cluster.clock
        self._cluster = cluster
        for topic_partition in (TP, OTHER):
            cluster.elect(1, [1, 2], of=topic_partition)
            cluster[1].produce("a", to=topic_partition)
        cluster.settle()
        self.leaders = {BrokerId(1): Leader(), BrokerId(3): Leader()}
        self.tested = FetcherLoop(
            "ek-b2-fetcher",
            LeaderAccess(connect=self._connect, one_thread=True, threaded=False),
            config=CONFIG,
            clock=cluster.clock,
            failures=cluster.failures,
            on_progress=lambda topic_partition: None,
            quota=cluster[2].manager.follower_quota,
        )

    def follow(self, *topic_partitions: TopicPartition, leader: int = 1) -> None:
        self.tested.follow(
            {
                topic_partition: (
                    BrokerId(leader),
                    Followed(
                        self._cluster[2].partition(topic_partition),
                        leader_epoch=0,
                        topic_id=TOPIC_ID,
                    ),
                )
                for topic_partition in topic_partitions
            }
        )

    def run(self) -> list[list[TopicPartition]]:
        """Runs until nothing is due; what leader 1 was asked for."""
        leader = self.leaders[BrokerId(1)]
        leader.fetches.clear()
        while not self.tested.is_idle:
            self.tested.run_once()
        return leader.fetches

    def run_after(self, ms: int) -> list[list[TopicPartition]]:
        self.clock.advance(ms)
        return self.run()

    def _connect(self, leader_id: BrokerId, on_news: OnNews) -> LeaderEndPoint:
        return cast(LeaderEndPoint, self.leaders[leader_id])


@pytest.fixture
def loop(make_cluster: Callable[..., ReplicaCluster]) -> Loop:
    return Loop(make_cluster(brokers=2))


@pytest.fixture
def leader(loop: Loop) -> Leader:
    return loop.leaders[BrokerId(1)]


def test_all_partitions_of_a_leader_are_fetched_in_one_request(loop: Loop, leader: Leader) -> None:
    loop.follow(TP, OTHER)
    assert loop.run() == [[TP, OTHER]]
    assert loop.run_after(60_000) == [], "a leader in this process brings news"


def test_unreachable_leader_is_asked_again_after_the_backoff(loop: Loop, leader: Leader) -> None:
    leader.is_reachable = False
    loop.follow(TP)
    assert loop.run() == [[TP]]
    assert loop.run_after(CONFIG.replica_fetch_backoff_ms - 1) == []
    leader.is_reachable = True
    assert loop.run_after(1) == [[TP]]
    assert loop.run_after(CONFIG.replica_fetch_backoff_ms) == []


def test_news_ends_the_backoff(loop: Loop, leader: Leader) -> None:
    leader.is_reachable = False
    loop.follow(TP)
    loop.run()
    leader.is_reachable = True
    loop.tested.on_news(TP)
    assert loop.run() == [[TP]]
    assert loop.run_after(CONFIG.replica_fetch_backoff_ms) == []


def test_news_is_fetched_for_the_partition_that_has_it(loop: Loop) -> None:
    loop.follow(TP, OTHER)
    loop.run()
    loop.tested.on_news(OTHER)
    assert loop.run() == [[OTHER]]


def test_follower_asks_again_whether_its_records_are_committed(loop: Loop, leader: Leader) -> None:
    """The leader brings news of records, not of its high watermark."""
    leader.high_watermark = 0
    loop.follow(TP)
    assert loop.run() == [[TP]]
    assert loop.run_after(CONFIG.replica_fetch_wait_max_ms - 1) == []
    assert loop.run_after(1) == [[TP]], "and it still is not"
    leader.high_watermark = 1
    assert loop.run_after(CONFIG.replica_fetch_wait_max_ms) == [[TP]]
    assert loop.run_after(CONFIG.replica_fetch_wait_max_ms) == []


def test_partition_is_not_asked_for_again_once_its_records_are_committed(
    loop: Loop, leader: Leader
) -> None:
    leader.high_watermark = 0
    loop.follow(TP)
    loop.run()
    leader.high_watermark = 1
    loop.run_after(CONFIG.replica_fetch_wait_max_ms)
    leader.high_watermark = 0
    loop.follow(OTHER)
    assert loop.run() == [[OTHER]]
    assert loop.run_after(CONFIG.replica_fetch_wait_max_ms) == [[OTHER]]


def test_uncommitted_partitions_are_asked_for_together(loop: Loop, leader: Leader) -> None:
    leader.high_watermark = 0
    loop.follow(TP)
    loop.run()
    loop.clock.advance(CONFIG.replica_fetch_wait_max_ms - 1)
    loop.follow(OTHER)
    loop.run()
    (asked,) = loop.run_after(1)
    assert sorted(asked) == [TP, OTHER]


@pytest.mark.parametrize("is_reachable", [True, False])
def test_partition_that_is_no_longer_followed_is_not_fetched(
    loop: Loop, leader: Leader, is_reachable: bool
) -> None:
    """Neither when its delay ends, nor to see whether its records are committed."""
    leader.is_reachable, leader.high_watermark = is_reachable, 0
    loop.follow(TP, OTHER)
    loop.run()
    loop.tested.unfollow([TP])
    loop.run()
    assert leader.forgotten == [TP]
    assert loop.tested.find_state(TP) is None
    assert loop.run_after(CONFIG.replica_fetch_backoff_ms) == [[OTHER]]


def test_nothing_is_due_after_the_last_partition_is_gone(loop: Loop, leader: Leader) -> None:
    leader.is_reachable = False
    loop.follow(TP)
    loop.run()
    loop.tested.unfollow([TP])
    loop.run()
    loop.clock.advance(CONFIG.replica_fetch_backoff_ms)
    assert loop.tested.is_idle


def test_news_of_a_partition_that_is_no_longer_followed_is_ignored(loop: Loop) -> None:
    loop.follow(TP, OTHER)
    loop.run()
    loop.tested.unfollow([TP])
    loop.tested.on_news(TP)
    assert loop.run() == []


def test_connection_to_a_leader_ends_with_its_last_partition(loop: Loop, leader: Leader) -> None:
    loop.follow(TP, OTHER)
    loop.run()
    loop.tested.unfollow([TP])
    loop.run()
    assert not leader.is_closed
    loop.tested.unfollow([OTHER])
    loop.run()
    assert leader.is_closed


def test_partition_is_followed_from_its_new_leader_only(loop: Loop, leader: Leader) -> None:
    loop.follow(TP)
    loop.run()
    loop.follow(TP, leader=3)
    assert loop.run() == []
    assert loop.leaders[BrokerId(3)].fetches == [[TP]]
    assert leader.is_closed
    loop.tested.on_news(TP)
    assert loop.run() == []
    assert loop.leaders[BrokerId(3)].fetches == [[TP], [TP]]


def test_every_leader_is_left_at_the_end(loop: Loop) -> None:
    loop.follow(TP)
    loop.follow(OTHER, leader=3)
    loop.run()
    loop.tested.stop()
    assert [leader.is_closed for leader in loop.leaders.values()] == [True, True]
