"""One round of a follower, with a leader that the test plays."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.log import FetchIsolation
from embedkafka.broker.replica.fetch import ClientMetadata, EpochEnd, FetchParams, PartitionData
from embedkafka.broker.replica.following.fetcher import Followed, FollowState, ReplicaFetcher, Round
from embedkafka.broker.replica.following.leader_endpoint import LeaderUnavailable
from embedkafka.broker.replica.partition.partition import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from embedkafka.broker.replica.quota import ReplicationQuota
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.builder import build_batch
from tests.doubles.replica_cluster import Node, ReplicaCluster

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


class Leader:
    """A LeaderEndPoint that answers what the test says."""

    wakes = False

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.answers: list[PartitionData] = []
        self.rounds: list[list[PartitionData]] = []  # before `answers`, which come every time
        self.offsets: dict[int, Any] = {}
        self.epoch_end: Any = None
        self.forgotten: list[TopicPartition] = []

    def fetch(self, partitions: Any) -> list[PartitionData]:
        self.requests += partitions
        return self.rounds.pop(0) if self.rounds else self.answers

    def find_offset(self, topic_partition: TopicPartition, timestamp: int, epoch: int) -> Any:
        return raised_or(self.offsets[timestamp])

    def end_offset_for_epoch(
        self, topic_partition: TopicPartition, epoch: int, current_leader_epoch: int
    ) -> Any:
        return raised_or(self.epoch_end)

    def forget(self, topic_partition: TopicPartition) -> None:
        self.forgotten.append(topic_partition)

    def close(self) -> None:
        pass


def raised_or(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


class Follower:
    """Broker 2, which follows TP from `leader` and has three records."""

    def __init__(self, cluster: ReplicaCluster, *, truncates_on_fetch: bool = True) -> None:
        cluster.elect(1, [1, 2])
        cluster[1].produce("a", "b", "c")
        cluster.settle()
        self.partition = cluster[2].partition()
        self.quota = ReplicationQuota(cluster.clock, windows=11, window_ms=1_000)
        self.leader = Leader()
        self.progress: list[TopicPartition] = []
        self.failures: list[Exception] = []
        self.fetcher = ReplicaFetcher(
            self.leader,
            max_bytes=1 << 20,
            on_progress=self.progress.append,
            on_failure=lambda topic_partition, error: self.failures.append(error),
            truncates_on_fetch=truncates_on_fetch,
            quota=self.quota,
        )
        self.followed = Followed(self.partition, leader_epoch=0, topic_id=uuid.UUID(int=42))
        self.fetcher.follow(self.followed)

    def refuse(self, error: ErrorCode) -> Any:
        """A round in which the leader refuses the fetch."""
        self.leader.answers = [PartitionData(TP, error)]
        return self.fetcher.run_round([TP])

    @property
    def log_end_offset(self) -> int:
        return self.partition.require_log().log_end_offset


@pytest.fixture
def follower(cluster: ReplicaCluster) -> Follower:
    return Follower(cluster)


def test_follower_fetches_from_its_log_end_and_names_its_last_epoch(follower: Follower) -> None:
    follower.fetcher.run_round([TP])
    (request,) = follower.leader.requests
    assert (request.fetch_offset, request.log_start_offset) == (3, 0)
    assert (request.current_leader_epoch, request.last_fetched_epoch) == (0, 0)


def test_partition_that_the_answer_omits_is_fetched_again(follower: Follower) -> None:
    assert follower.fetcher.run_round([TP]).again == [TP]


@pytest.mark.parametrize(("high_watermark", "progress"), [(0, []), (3, [TP])])
def test_consumers_of_a_follower_are_woken_only_by_news(
    follower: Follower, high_watermark: int, progress: list[TopicPartition]
) -> None:
    follower.partition.require_log().update_high_watermark(0)
    follower.leader.answers = [PartitionData(TP, high_watermark=high_watermark, log_start_offset=0)]
    follower.fetcher.run_round([TP])
    assert follower.progress == progress


@pytest.mark.parametrize(("wakes", "offsets"), [(False, [3]), (True, [3, 4])])
def test_follower_reports_at_once_what_it_got_unless_fetches_wait_at_the_leader(
    follower: Follower, wakes: bool, offsets: list[int]
) -> None:
    batch = build_batch([(5, None, b"d", ())], base_offset=3, leader_epoch=0)
    news = PartitionData(TP, high_watermark=3, log_start_offset=0, records=memoryview(batch))
    nothing = PartitionData(TP, high_watermark=3, log_start_offset=0)
    follower.leader.wakes = wakes
    follower.leader.rounds = [[news], [nothing]]
    left = follower.fetcher.run_round([TP])
    assert [request.fetch_offset for request in follower.leader.requests] == offsets
    assert left.moved == ([] if wakes else [TP])
    assert follower.log_end_offset == 4


@pytest.mark.parametrize(
    ("wakes", "high_watermark", "left"),
    [
        (False, 3, Round(again=[TP])),
        (True, 3, Round()),
        (True, 2, Round(unsettled=[TP])),
        (True, 4, Round(put_off=[TP])),
    ],
    ids=["on the wire", "in sync", "not committed", "throttled by the leader"],
)
def test_when_a_partition_without_records_is_fetched_again(
    follower: Follower, wakes: bool, high_watermark: int, left: Round
) -> None:
    follower.leader.wakes = wakes
    follower.leader.answers = [PartitionData(TP, high_watermark=high_watermark, log_start_offset=0)]
    assert follower.fetcher.run_round([TP]) == left


def test_partition_that_is_not_followed_holds_up_no_other(follower: Follower) -> None:
    follower.fetcher.run_round([OTHER, TP])
    assert [request.topic_partition for request in follower.leader.requests] == [TP]


def test_leader_forgets_a_partition_that_was_followed(follower: Follower) -> None:
    follower.fetcher.unfollow(OTHER)
    assert follower.leader.forgotten == []
    follower.fetcher.unfollow(TP)
    assert follower.leader.forgotten == [TP]
    assert follower.fetcher.is_idle


def test_throttle_holds_back_even_the_first_fetch(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    """Until the leader has answered, the follower does not know that it is in sync."""
    config = LogConfig.of({"follower.replication.throttled.replicas": ("*",)})
    follower = Follower(make_cluster(topic_config=config))
    follower.quota.set_rate(1)
    follower.quota.record(1_000_000)
    left = follower.fetcher.run_round([TP])
    assert (left.put_off, follower.leader.requests) == ([TP], [])


def test_fenced_partition_waits_for_the_next_epoch(follower: Follower) -> None:
    left = follower.refuse(ErrorCode.FENCED_LEADER_EPOCH)
    assert follower.fetcher.find_state(TP) is FollowState.FAILED
    assert not [*left.again, *left.moved, *left.put_off, *left.unsettled]


def test_follower_with_more_than_the_leader_goes_back(follower: Follower) -> None:
    follower.leader.offsets = {LATEST_TIMESTAMP: 2, EARLIEST_TIMESTAMP: 0}
    left = follower.refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert (left.again, follower.log_end_offset, follower.followed.fetch_offset) == ([TP], 2, 2)


def test_follower_that_ends_before_the_leader_begins_starts_over(follower: Follower) -> None:
    follower.leader.offsets = {LATEST_TIMESTAMP: 9, EARLIEST_TIMESTAMP: 7}
    left = follower.refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
    log = follower.partition.require_log()
    assert (left.again, log.log_start_offset, follower.followed.fetch_offset) == ([TP], 7, 7)


@pytest.mark.parametrize("leader_end", [3, 5])
def test_follower_within_the_leaders_log_keeps_its_records(
    follower: Follower, leader_end: int
) -> None:
    """The leader has what it lacked a moment ago."""
    follower.leader.offsets = {LATEST_TIMESTAMP: leader_end, EARLIEST_TIMESTAMP: 3}
    left = follower.refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
    log = follower.partition.require_log()
    assert (left.again, log.log_start_offset, log.log_end_offset) == ([TP], 0, 3)


@pytest.mark.parametrize(
    "problem", [ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER), LeaderUnavailable("it is gone")]
)
def test_follower_that_cannot_ask_for_offsets_asks_later(
    follower: Follower, problem: Exception
) -> None:
    follower.leader.offsets = {LATEST_TIMESTAMP: problem}
    left = follower.refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert (left.put_off, left.again, follower.log_end_offset) == ([TP], [], 3)


def test_follower_whose_role_has_changed_waits_for_its_next_epoch(
    cluster: ReplicaCluster, follower: Follower
) -> None:
    cluster.elect(2, [1, 2])
    follower.leader.offsets = {LATEST_TIMESTAMP: 2, EARLIEST_TIMESTAMP: 0}
    follower.refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert follower.fetcher.find_state(TP) is FollowState.FAILED
    assert follower.log_end_offset == 3


def test_partition_that_was_stopped_is_not_fetched(follower: Follower) -> None:
    follower.partition.stop()
    follower.fetcher.run_round([TP])
    assert follower.fetcher.find_state(TP) is FollowState.FAILED
    assert follower.leader.requests == []


def test_answer_for_a_partition_that_was_stopped_is_no_failure(follower: Follower) -> None:
    follower.fetcher.run_round([TP])
    follower.partition.stop()
    follower.refuse(ErrorCode.NONE)
    assert follower.fetcher.find_state(TP) is FollowState.FAILED
    assert follower.failures == []


# -- before the leader compared epochs with every fetch


@pytest.fixture
def older(cluster: ReplicaCluster) -> Follower:
    return Follower(cluster, truncates_on_fetch=False)


def test_older_follower_truncates_before_its_first_fetch(older: Follower) -> None:
    older.leader.epoch_end = EpochEnd(0, 2)
    older.fetcher.run_round([TP])
    (request,) = older.leader.requests
    assert (older.log_end_offset, request.fetch_offset) == (2, 2)
    assert request.last_fetched_epoch == -1


def test_older_follower_asks_again_while_the_leader_knows_only_an_earlier_epoch(
    cluster: ReplicaCluster, older: Follower
) -> None:
    cluster.elect(1, [1, 2])
    cluster.elect(2, [1, 2])
    cluster[2].produce("d", acks=1)
    cluster.elect(1, [1, 2])
    older.followed.leader_epoch = 3
    older.leader.epoch_end = EpochEnd(1, 5)
    left = older.fetcher.run_round([TP])
    assert (left.again, older.leader.requests, older.log_end_offset) == ([TP], [], 3)
    older.leader.epoch_end = EpochEnd(0, 3)
    older.fetcher.run_round([TP])
    assert [request.fetch_offset for request in older.leader.requests] == [3]


def test_older_follower_goes_back_to_its_high_watermark_if_the_leader_knows_no_epoch(
    older: Follower,
) -> None:
    older.partition.require_log().update_high_watermark(1)
    older.leader.epoch_end = EpochEnd(-1, -1)
    older.fetcher.run_round([TP])
    assert older.log_end_offset == 1


def test_older_follower_whose_role_has_changed_truncates_nothing(
    cluster: ReplicaCluster, older: Follower
) -> None:
    cluster.elect(2, [1, 2])
    older.leader.epoch_end = EpochEnd(0, 2)
    older.fetcher.run_round([TP])
    assert older.fetcher.find_state(TP) is FollowState.FAILED
    assert (older.leader.requests, older.log_end_offset) == ([], 3)


def test_older_follower_that_cannot_compare_epochs_compares_them_later(older: Follower) -> None:
    older.leader.epoch_end = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    left = older.fetcher.run_round([TP])
    assert (left.put_off, older.leader.requests) == ([TP], [])


# -- who fetches


@pytest.mark.parametrize("replica_id", [0, 3])
def test_every_broker_id_is_that_of_a_follower(replica_id: int) -> None:
    params = FetchParams(
        replica_id=BrokerId(replica_id),
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1,
        isolation=FetchIsolation.LOG_END,
        client_metadata=ClientMetadata(
            rack_id="", client_id="broker", client_address="127.0.0.1", listener="PLAINTEXT"
        ),
    )
    assert params.is_from_follower
    assert params.only_leader


# -- where partitions are found


def test_replica_that_is_stopped_or_made_again_is_no_longer_offline(single: Node) -> None:
    hosted, partition = single.manager.hosted, single.partition()
    hosted.take_offline([TP])
    assert hosted.is_offline(TP)
    hosted.add(partition)
    assert not hosted.is_offline(TP)
    hosted.take_offline([TP])
    hosted.remove(TP)
    assert not hosted.is_offline(TP)
