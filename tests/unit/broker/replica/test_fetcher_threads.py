"""The threads that follow leaders; there are none when there is nothing to follow."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

import pytest

from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.fetch import PartitionData, PartitionFetch
from embedkafka.broker.replica.following.fetcher import Followed
from embedkafka.broker.replica.following.fetcher_manager import FetcherManager
from embedkafka.broker.replica.following.leader_endpoint import LeaderAccess, LeaderEndPoint, OnNews
from embedkafka.broker.replica.produce import PartitionResponse
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from tests.doubles.own_threads import OwnThreads
from tests.doubles.replica_cluster import Node, ReplicaCluster

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
FETCHER = "ek-b2-fetcher"

Follow = Callable[[FetcherManager, TopicPartition, int], None]


class QuietLeader:
    """A leader with nothing to send; says when it was asked.

    It lacks the methods that look for offsets: an empty log needs none.
    """

    wakes = True

    def __init__(self, asked: threading.Event) -> None:
        self.asked = asked

    def fetch(self, partitions: Sequence[PartitionFetch]) -> list[PartitionData]:
        self.asked.set()
        return [PartitionData(request.topic_partition, high_watermark=0) for request in partitions]

    def forget(self, topic_partition: TopicPartition) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def own_threads() -> OwnThreads:
    return OwnThreads()


@pytest.fixture
def asked() -> dict[int, threading.Event]:
    """By leader: set once it has been asked."""
    return {1: threading.Event(), 3: threading.Event()}


@pytest.fixture
def make_manager(
    asked: dict[int, threading.Event], single: Node, own_threads: OwnThreads
) -> Iterator[Callable[..., FetcherManager]]:
    made = []

    def make(*, one_thread: bool) -> FetcherManager:
        def connect(leader: BrokerId, on_news: OnNews) -> LeaderEndPoint:
            return cast(LeaderEndPoint, QuietLeader(asked[leader]))

        manager = FetcherManager(
            BrokerId(2),
            LeaderAccess(connect=connect, one_thread=one_thread),
            config=ReplicaConfig(),
            clock=SystemClock(),
            failures=single.cluster.failures,
            on_progress=lambda topic_partition: None,
            quota=single.manager.follower_quota,
        )
        made.append(manager)
        return manager

    yield make
    for manager in made:
        manager.stop()
    own_threads.await_ends(FETCHER)
    assert own_threads.names(FETCHER) == []


@pytest.fixture
def follow(make_cluster: Callable[..., ReplicaCluster]) -> Follow:
    cluster = make_cluster(brokers=2)
    cluster.elect(1, [1, 2], of=TP)
    cluster.elect(1, [1, 2], of=OTHER)

    def follow(manager: FetcherManager, tp: TopicPartition, leader: int) -> None:
        followed = Followed(cluster[2].partition(tp), leader_epoch=0, topic_id=ZERO_UUID)
        manager.follow({tp: (BrokerId(leader), followed)})

    return follow


def test_local_leaders_share_one_thread(
    make_manager: Callable[..., FetcherManager],
    asked: dict[int, threading.Event],
    follow: Follow,
    own_threads: OwnThreads,
) -> None:
    manager = make_manager(one_thread=True)
    follow(manager, TP, 1)
    follow(manager, OTHER, 3)
    assert own_threads.names(FETCHER) == ["ek-b2-fetcher"]
    assert asked[1].wait(10)
    assert asked[3].wait(10)


def test_remote_leaders_have_a_thread_each(
    make_manager: Callable[..., FetcherManager],
    asked: dict[int, threading.Event],
    follow: Follow,
    own_threads: OwnThreads,
) -> None:
    manager = make_manager(one_thread=False)
    follow(manager, TP, 1)
    follow(manager, OTHER, 3)
    assert own_threads.names(FETCHER) == ["ek-b2-fetcher-1", "ek-b2-fetcher-3"]


def test_thread_ends_when_nothing_is_followed_and_begins_again(
    make_manager: Callable[..., FetcherManager],
    asked: dict[int, threading.Event],
    follow: Follow,
    own_threads: OwnThreads,
) -> None:
    manager = make_manager(one_thread=True)
    follow(manager, TP, 1)
    manager.unfollow([TP])
    own_threads.await_ends(FETCHER)
    assert own_threads.names(FETCHER) == []
    follow(manager, TP, 3)
    assert own_threads.names(FETCHER) == ["ek-b2-fetcher"]
    assert asked[3].wait(10)


@pytest.mark.parametrize("one_thread", [True, False])
def test_nothing_is_followed_after_the_end(
    make_manager: Callable[..., FetcherManager],
    asked: dict[int, threading.Event],
    follow: Follow,
    own_threads: OwnThreads,
    one_thread: bool,
) -> None:
    """The controller may ask for it while the broker stops."""
    manager = make_manager(one_thread=one_thread)
    follow(manager, TP, 1)
    assert asked[1].wait(10)
    manager.stop()
    assert manager.find_state(TP) is None
    follow(manager, OTHER, 1)
    assert manager.find_state(OTHER) is None
    assert own_threads.names(FETCHER) == []


def test_replication_with_real_threads_acknowledges_everything(
    threaded_cluster: ReplicaCluster,
) -> None:
    cluster = threaded_cluster
    partitions = [TopicPartition("orders", n) for n in range(4)]
    for n, tp in enumerate(partitions):
        cluster.elect(n % 3 + 1, of=tp)
    total = 200
    done = threading.Semaphore(0)
    errors = []

    def on_done(answers: Mapping[TopicPartition, PartitionResponse]) -> None:
        errors.extend(answer.error for answer in answers.values() if answer.error)
        done.release()

    for n in range(total):
        index = n % len(partitions)
        cluster[index % 3 + 1].manager.writes.append_records(
            timeout_ms=20_000,
            required_acks=-1,
            entries={partitions[index]: cluster.records(f"v{n}")},
            on_done=on_done,
        )
    for _ in range(total):
        assert done.acquire(timeout=20)
    assert errors == []
    for index, tp in enumerate(partitions):
        expected = [f"v{n}" for n in range(total) if n % len(partitions) == index]
        assert [cluster[b].values(tp) for b in (1, 2, 3)] == [expected] * 3


def test_all_is_answered_when_a_leader_moves_under_load(threaded_cluster: ReplicaCluster) -> None:
    cluster = threaded_cluster
    cluster.elect(1)
    answers = []
    done = threading.Semaphore(0)

    def on_done(result: Mapping[TopicPartition, PartitionResponse]) -> None:
        answers.append(result[TP].error)
        done.release()

    for n in range(60):
        leader = 1 + n // 20
        if n and n % 20 == 0:
            cluster.elect(leader)
        cluster[leader].manager.writes.append_records(
            timeout_ms=20_000,
            required_acks=-1,
            entries={TP: cluster.records(f"v{n}")},
            on_done=on_done,
        )
    for _ in range(60):
        assert done.acquire(timeout=20)
    assert set(answers) <= {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    acknowledged = answers.count(ErrorCode.NONE)
    assert len(cluster[3].values()) >= acknowledged


def test_news_is_fetched_by_the_thread_that_brings_it(threaded_cluster: ReplicaCluster) -> None:
    cluster = threaded_cluster
    cluster.elect(1, of=TP)
    acknowledged_by = []
    produced = threading.Event()

    def on_done(answers: Mapping[TopicPartition, PartitionResponse]) -> None:
        acknowledged_by.append(threading.current_thread())
        produced.set()

    for _ in range(100):  # the fetcher itself may be at it now and then
        produced.clear()
        cluster[1].manager.writes.append_records(
            timeout_ms=30_000, required_acks=-1, entries={TP: cluster.records("v")}, on_done=on_done
        )
        assert produced.wait(10)
    assert threading.current_thread() in acknowledged_by
