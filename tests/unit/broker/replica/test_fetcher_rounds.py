"""Whose thread runs a follower's round: the one that brings news, or the fetcher's; never both."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
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
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import BackgroundFailure
from embedkafka.runtime.ids import BrokerId, TopicPartition
from tests.doubles.own_threads import OwnThreads
from tests.doubles.replica_cluster import TOPIC_ID, ReplicaCluster

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
CONFIG = ReplicaConfig(replica_fetch_backoff_ms=1_000)
FETCHER = "ek-b2-fetcher"
LEADERS_THREAD = "brings news"


class WatchedClock(ManualClock):
    """Says when a thread waits, so that a test knows what finds it waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Semaphore(0)

    def wait_until(self, condition: threading.Condition, deadline_ms: float | None) -> bool:
        self.waits.release()
        return super().wait_until(condition, deadline_ms)


class Leader:
    """A leader with nothing to send, whose next fetch the test may hold, refuse or leave empty.

    It lacks the methods that look for offsets: an empty log needs none.
    """

    wakes = True

    def __init__(self) -> None:
        self.fetches: list[tuple[str, list[TopicPartition]]] = []
        self.asked = threading.Semaphore(0)
        self.closed = threading.Event()
        self.hold: Callable[[], object] | None = None
        self.problem: Exception | None = None
        self.omits = False
        self.problem_on_close: Exception | None = None

    def fetch(self, partitions: Sequence[PartitionFetch]) -> list[PartitionData]:
        names = [request.topic_partition for request in partitions]
        self.fetches.append((threading.current_thread().name, names))
        self.asked.release()
        hold, self.hold = self.hold, None
        if hold is not None:
            assert hold()
        problem, self.problem = self.problem, None
        if problem is not None:
            raise problem
        omits, self.omits = self.omits, False
        return [] if omits else [PartitionData(name, high_watermark=0) for name in names]

    def forget(self, topic_partition: TopicPartition) -> None:
        pass

    def close(self) -> None:
        self.closed.set()
        if self.problem_on_close is not None:
            raise self.problem_on_close

    def await_fetch(self) -> tuple[str, list[TopicPartition]]:
        """The next fetch: the name of its thread, and the partitions."""
        assert self.asked.acquire(timeout=10)
        return self.fetches.pop(0)


class Rounds:
    """Broker 2 follows TP and OTHER from broker 1, and its fetcher waits for news."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        for topic_partition in (TP, OTHER):
            cluster.elect(1, [1, 2], of=topic_partition)
        own_threads = OwnThreads()
        self.cluster = cluster
        self.clock = WatchedClock()
        self.leaders = {BrokerId(1): Leader(), BrokerId(3): Leader()}
        self.leader = self.leaders[BrokerId(1)]
        self.hold_connect: Callable[[], object] | None = None
        self.loop = FetcherLoop(
            FETCHER,
            LeaderAccess(connect=self._connect, one_thread=True),
            config=CONFIG,
            clock=self.clock,
            failures=cluster.failures,
            on_progress=lambda topic_partition: None,
            quota=cluster[2].manager.follower_quota,
        )
        self.follow(TP, OTHER)
        assert self.leader.await_fetch() == (FETCHER, [TP, OTHER])
        self.await_waiting()
        (self.thread,) = own_threads.alive(FETCHER)

    def follow(self, *topic_partitions: TopicPartition, leader: int = 1) -> None:
        self.loop.follow(
            {
                topic_partition: (
                    BrokerId(leader),
                    Followed(
                        self.cluster[2].partition(topic_partition),
                        leader_epoch=0,
                        topic_id=TOPIC_ID,
                    ),
                )
                for topic_partition in topic_partitions
            }
        )

    def await_waiting(self) -> None:
        """Returns when the fetcher has waited once more than at the last call."""
        assert self.clock.waits.acquire(timeout=10)

    def bring_news(self) -> threading.Thread:
        """Another thread brings news of TP, and is in its round until the leader lets it go."""
        thread = threading.Thread(
            target=self.loop.on_news, args=[TP], name=LEADERS_THREAD, daemon=True
        )
        thread.start()
        assert self.leader.await_fetch() == (LEADERS_THREAD, [TP])
        return thread

    def _connect(self, leader_id: BrokerId, on_news: OnNews) -> LeaderEndPoint:
        if self.hold_connect is not None:
            assert self.hold_connect()
        return cast(LeaderEndPoint, self.leaders[leader_id])


@pytest.fixture
def rounds(make_cluster: Callable[..., ReplicaCluster]) -> Iterator[Rounds]:
    made = Rounds(make_cluster(brokers=2))
    yield made
    made.loop.stop()


@pytest.fixture
def gate(rounds: Rounds) -> threading.Event:
    """Holds the next fetch until it is set."""
    gate = threading.Event()
    rounds.leader.hold = lambda: gate.wait(10)
    return gate


def test_news_during_a_round_of_another_thread_is_left_to_the_fetcher(
    rounds: Rounds, gate: threading.Event
) -> None:
    thread = rounds.bring_news()
    rounds.loop.on_news(OTHER)
    gate.set()
    assert rounds.leader.await_fetch() == (FETCHER, [OTHER])
    thread.join(10)
    assert not thread.is_alive()


def test_news_during_a_round_of_the_fetcher_is_left_to_it(
    rounds: Rounds, gate: threading.Event
) -> None:
    rounds.follow(TP)
    assert rounds.leader.await_fetch() == (FETCHER, [TP])
    rounds.loop.on_news(OTHER)
    gate.set()
    assert rounds.leader.await_fetch() == (FETCHER, [OTHER])


def test_order_that_comes_during_a_round_is_carried_out_after_it(
    rounds: Rounds, gate: threading.Event
) -> None:
    rounds.bring_news()
    rounds.follow(OTHER, leader=3)
    rounds.await_waiting()
    gate.set()
    assert rounds.leaders[BrokerId(3)].await_fetch() == (FETCHER, [OTHER])


def test_news_that_comes_after_an_order_is_left_to_the_fetcher(
    rounds: Rounds, gate: threading.Event
) -> None:
    """Also if the fetcher has not yet woken up."""
    rounds.follow(TP)
    rounds.loop.on_news(OTHER)
    gate.set()
    fetched: list[TopicPartition] = []
    while OTHER not in fetched:
        thread, names = rounds.leader.await_fetch()
        assert thread == FETCHER
        fetched += names


def test_fetcher_completes_what_the_thread_with_the_news_began(rounds: Rounds) -> None:
    rounds.leader.omits = True  # so TP must be fetched again
    rounds.bring_news()
    assert rounds.leader.await_fetch() == (FETCHER, [TP])


def test_fetcher_retries_after_the_backoff_what_failed_on_another_thread(rounds: Rounds) -> None:
    rounds.leader.problem = LeaderUnavailable("the test says so")
    rounds.bring_news()
    rounds.await_waiting()
    rounds.clock.advance(CONFIG.replica_fetch_backoff_ms)
    assert rounds.leader.await_fetch() == (FETCHER, [TP])


def test_fetcher_does_not_retry_what_another_thread_has_fetched_since(rounds: Rounds) -> None:
    rounds.leader.problem = LeaderUnavailable("the test says so")
    rounds.bring_news()
    rounds.await_waiting()
    rounds.bring_news()
    rounds.await_waiting()
    rounds.clock.advance(CONFIG.replica_fetch_backoff_ms)
    assert rounds.loop.is_idle


def test_waiting_fetcher_ends_when_nothing_is_followed(rounds: Rounds) -> None:
    rounds.loop.unfollow([TP, OTHER])
    rounds.thread.join(10)
    assert not rounds.thread.is_alive()


def test_bug_in_leaving_a_leader_does_not_end_the_fetcher(rounds: Rounds) -> None:
    rounds.leader.problem_on_close = ValueError("a bug in closing")
    rounds.follow(TP, OTHER, leader=3)
    rounds.await_waiting()
    rounds.follow(TP, leader=3)
    assert rounds.leaders[BrokerId(3)].await_fetch() == (FETCHER, [TP, OTHER])
    with pytest.raises(BackgroundFailure, match="a bug in closing"):
        rounds.cluster.failures.check()


# -- the end


def test_end_breaks_off_a_fetch_that_waits_at_the_leader(rounds: Rounds) -> None:
    rounds.leader.hold = lambda: rounds.leader.closed.wait(10)
    rounds.follow(TP)
    rounds.leader.await_fetch()
    rounds.loop.stop()
    assert not rounds.thread.is_alive()
    rounds.cluster.failures.check()


def test_end_waits_for_a_round_on_the_leaders_thread(rounds: Rounds) -> None:
    """It may append to a log that is closed next."""
    over = threading.Event()

    def wait_for_the_end() -> bool:
        rounds.thread.join(10)
        for _ in range(100):
            time.sleep(0)  # gives `stop` every chance to return too early
        over.set()
        return True

    rounds.leader.hold = wait_for_the_end
    rounds.bring_news()
    rounds.loop.stop()
    assert over.is_set()


def test_end_leaves_a_leader_that_was_reached_in_the_last_moment(rounds: Rounds) -> None:
    connecting = threading.Event()

    def wait_for_the_end() -> bool:
        connecting.set()
        return rounds.leader.closed.wait(10)

    rounds.hold_connect = wait_for_the_end
    rounds.follow(OTHER, leader=3)
    assert connecting.wait(10)
    rounds.loop.stop()
    assert rounds.leaders[BrokerId(3)].closed.is_set()
