"""A bug in following one partition is recorded and costs that partition only."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from embedkafka.broker.log.log import Log
from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.fetch import PartitionData, PartitionFetch
from embedkafka.broker.replica.following.fetcher import Followed, FollowState
from embedkafka.broker.replica.following.fetcher_manager import FetcherManager
from embedkafka.broker.replica.following.leader_endpoint import LeaderAccess, LeaderEndPoint, OnNews
from embedkafka.broker.replica.partition.partition import Partition
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.failures import BackgroundFailure
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from tests.doubles.replica_cluster import ReplicaCluster, values_in

BAD = TopicPartition("bad", 0)
GOOD = TopicPartition("good", 0)
LAG_MS = 30_000
BACKOFF_MS = 1_000

BreakMethod = Callable[[type[Log] | type[Partition], str], set[str]]


@pytest.fixture
def cluster(make_cluster: Callable[..., ReplicaCluster]) -> ReplicaCluster:
    """Brokers 1 and 2 have both partitions; broker 1 leads."""
    cluster = make_cluster(brokers=2)
    for tp in (BAD, GOOD):
        cluster.elect(1, of=tp)
    cluster.settle()
    return cluster


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> BreakMethod:
    """Breaks a method for `BAD`; the methods that are broken now."""
    names: set[str] = set()

    def break_method(owner: type[Log] | type[Partition], name: str) -> set[str]:
        real = getattr(owner, name)

        def method(self: Log | Partition, *args: Any, **kwargs: Any) -> Any:
            if name in names and self.topic_partition == BAD:
                raise ValueError(f"a bug in {name}")
            return real(self, *args, **kwargs)

        monkeypatch.setattr(owner, name, method)
        names.add(name)
        return names

    return break_method


def assert_recorded(cluster: ReplicaCluster, *words: str) -> None:
    with pytest.raises(BackgroundFailure) as raised:
        cluster.failures.check()
    for word in words:
        assert word in str(raised.value)


def test_a_bug_in_a_followers_append_stays_with_its_partition(
    cluster: ReplicaCluster, broken: BreakMethod
) -> None:
    broken(Log, "append_as_follower")
    waiting = cluster[1].produce("a", to=BAD, timeout_ms=10 * LAG_MS)
    assert cluster[1].produce("b", to=GOOD, acks=1).error is ErrorCode.NONE
    cluster.settle()
    assert cluster[2].values(GOOD) == ["b"]
    assert cluster[2].manager.fetchers.find_state(BAD) is FollowState.FAILED
    assert_recorded(cluster, "ek-b2-fetcher", "bad-0", "broker 1", "a bug in append_as_follower")
    assert not waiting.is_done
    cluster.pass_time(LAG_MS + 1)
    cluster.pass_time(LAG_MS)
    assert cluster[1].partition(BAD).isr == (1,)
    assert cluster[1].partition(GOOD).isr == (1, 2)
    assert waiting.error is ErrorCode.NONE
    cluster.failures.check()


def test_a_failed_partition_is_tried_again_in_the_next_epoch(
    cluster: ReplicaCluster, broken: BreakMethod
) -> None:
    names = broken(Log, "append_as_follower")
    cluster[1].produce("a", to=BAD)
    cluster.settle()
    assert_recorded(cluster, "bad-0")
    names.clear()
    cluster.pass_time(BACKOFF_MS)
    assert cluster[2].values(BAD) == []
    cluster.elect(1, of=BAD, isr=[1])
    cluster.settle()
    assert cluster[2].values(BAD) == ["a"]
    assert cluster[1].partition(BAD).isr == (1, 2)


@pytest.mark.parametrize("truncates_on_fetch", [True, False])
def test_a_bug_before_the_first_fetch_stays_with_its_partition(
    make_cluster: Callable[..., ReplicaCluster], broken: BreakMethod, truncates_on_fetch: bool
) -> None:
    cluster = make_cluster(brokers=2, config=ReplicaConfig(truncates_on_fetch=truncates_on_fetch))
    broken(Partition, "truncate_to")
    for tp in (BAD, GOOD):
        cluster.elect(1, of=tp)
        cluster[1].produce("a", to=tp)
    cluster.settle()
    assert cluster[2].manager.fetchers.find_state(BAD) is FollowState.FAILED
    assert cluster[2].values(GOOD) == ["a"]
    assert_recorded(cluster, "bad-0", "a bug in truncate_to")


def test_a_bug_in_a_leaders_read_is_recorded_and_the_read_repeated(
    cluster: ReplicaCluster, broken: BreakMethod
) -> None:
    names = broken(Partition, "fetch_as_follower")
    for tp in (BAD, GOOD):
        cluster[1].produce("a", to=tp, acks=1)
    cluster.settle()
    assert cluster[2].values(GOOD) == ["a"]
    assert_recorded(cluster, "broker 1 reading bad-0", "a bug in fetch_as_follower")
    names.clear()
    cluster.pass_time(BACKOFF_MS)
    assert cluster[2].values(BAD) == ["a"]


def test_partition_that_the_leader_refuses_hides_no_other(cluster: ReplicaCluster) -> None:
    cluster[1].produce("a", to=GOOD, acks=1)
    unknown = TopicPartition("unknown", 0)
    refused, read = cluster[1].manager.reads.read_as_follower(
        BrokerId(2), -1, [PartitionFetch(tp, 0, 1 << 20) for tp in (unknown, GOOD)]
    )
    assert refused.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert values_in(read) == ["a"]


def test_a_bug_in_a_read_leaves_a_consumer_its_other_partitions(
    cluster: ReplicaCluster, broken: BreakMethod
) -> None:
    cluster[1].produce("a", to=GOOD)
    cluster.settle()
    broken(Partition, "fetch")
    assert cluster[1].fetch(0, of=BAD).data.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert cluster[1].fetch(0, of=GOOD).values == ["a"]
    assert_recorded(cluster, "broker 1 reading bad-0")


class BrokenLeader:
    """Raises on the first fetch, and has nothing to send on the next; says when it was asked.

    It lacks the methods that look for offsets: the tests get no further.
    """

    def __init__(self, *, wakes: bool) -> None:
        self.wakes = wakes
        self.asked = threading.Semaphore(0)
        self.fetches = 0

    def fetch(self, partitions: Sequence[PartitionFetch]) -> list[PartitionData]:
        self.fetches += 1
        self.asked.release()
        if self.fetches == 1:
            raise ValueError("a bug on the way to the leader")
        return [PartitionData(request.topic_partition, high_watermark=0) for request in partitions]

    def forget(self, topic_partition: TopicPartition) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize("wakes", [True, False])
def test_a_bug_on_the_way_to_the_leader_ends_no_thread(
    cluster: ReplicaCluster, wakes: bool
) -> None:
    leader = BrokenLeader(wakes=wakes)
    manager = FetcherManager(
        BrokerId(2),
        LeaderAccess(
            connect=lambda leader_id, on_news: cast(LeaderEndPoint, leader), one_thread=wakes
        ),
        config=ReplicaConfig(replica_fetch_backoff_ms=1),
        clock=SystemClock(),
        failures=cluster.failures,
        on_progress=lambda topic_partition: None,
        quota=cluster[2].manager.follower_quota,
    )
    followed = Followed(cluster[2].partition(BAD), leader_epoch=0, topic_id=ZERO_UUID)
    try:
        manager.follow({BAD: (BrokerId(1), followed)})
        assert leader.asked.acquire(timeout=10)
        assert leader.asked.acquire(timeout=10), "it is asked again"
    finally:
        manager.stop()
    assert_recorded(cluster, "ek-b2-fetcher", "fetching bad-0", "a bug on the way")


def test_a_thread_that_cannot_begin_to_follow_one_leader_follows_the_others(
    cluster: ReplicaCluster,
) -> None:
    leader = BrokenLeader(wakes=True)

    def connect(leader_id: BrokerId, on_news: OnNews) -> LeaderEndPoint:
        if leader_id == 3:
            raise ValueError("a bug in connecting")
        return cast(LeaderEndPoint, leader)

    manager = FetcherManager(
        BrokerId(2),
        LeaderAccess(connect=connect, one_thread=True),
        config=ReplicaConfig(),
        clock=SystemClock(),
        failures=cluster.failures,
        on_progress=lambda topic_partition: None,
        quota=cluster[2].manager.follower_quota,
    )
    leader.fetches = 1
    try:
        for tp, leader_id in ((BAD, 3), (GOOD, 1)):
            followed = Followed(cluster[2].partition(tp), leader_epoch=0, topic_id=ZERO_UUID)
            manager.follow({tp: (BrokerId(leader_id), followed)})
        assert leader.asked.acquire(timeout=10)
    finally:
        manager.stop()
    assert_recorded(cluster, "ek-b2-fetcher", "bad-0", "a bug in connecting")
