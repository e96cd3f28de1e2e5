"""Throttled replication, which leaves room for other traffic (KIP-73)."""

from collections.abc import Callable

import pytest

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.log import FetchIsolation
from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.fetch import FetchParams, PartitionData, PartitionFetch
from embedkafka.broker.replica.quota import ReplicationQuota, is_throttled
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.ids import BrokerId, TopicPartition
from tests.doubles.replica_cluster import Fetched, ReplicaCluster, values_in

TP = TopicPartition("orders", 0)
FOLLOWER = BrokerId(0)  # not to be taken for a consumer, whose id is -1
BATCH = "x" * 1000
BATCHES = 10


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def quota(clock: ManualClock) -> ReplicationQuota:
    return ReplicationQuota(clock, windows=11, window_ms=1000)


def test_without_a_rate_nothing_is_exceeded(quota: ReplicationQuota) -> None:
    quota.record(1 << 40)
    assert not quota.is_exceeded()


def test_the_rate_is_that_of_the_last_seconds(quota: ReplicationQuota, clock: ManualClock) -> None:
    quota.set_rate(100)
    quota.record(100)
    assert not quota.is_exceeded()
    quota.record(1)
    assert quota.is_exceeded()
    clock.advance(1100)
    assert not quota.is_exceeded()
    quota.record(1000)
    assert quota.is_exceeded()
    clock.advance(8000)
    assert quota.is_exceeded()
    clock.advance(2000)  # the first second is forgotten, the rest spread over ten
    assert not quota.is_exceeded()


def test_a_burst_is_forgotten_in_the_end(quota: ReplicationQuota, clock: ManualClock) -> None:
    quota.set_rate(1)
    quota.record(1 << 40)
    clock.advance(10_999)
    assert quota.is_exceeded()
    clock.advance(1)
    assert not quota.is_exceeded()


def test_all_bytes_of_a_second_count(quota: ReplicationQuota, clock: ManualClock) -> None:
    clock.advance(seconds=1_000)
    quota.set_rate(150)
    for _ in range(20):
        quota.record(10)
    assert quota.is_exceeded()


def test_each_second_is_forgotten_at_its_own_time(
    quota: ReplicationQuota, clock: ManualClock
) -> None:
    quota.set_rate(100)
    quota.record(1)
    clock.advance(1_000)
    quota.record(10_000)
    clock.advance(10_000)
    assert quota.is_exceeded()
    clock.advance(1_000)
    assert not quota.is_exceeded()


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [((), False), (("*",), True), (("0:1", "3:2"), True), (("3:1", "0:2"), False)],
)
def test_a_topic_names_its_throttled_replicas(replicas: tuple[str, ...], expected: bool) -> None:
    assert is_throttled(replicas, partition=3, broker_id=BrokerId(2)) is expected


@pytest.fixture(params=["leader", "follower"])
def role(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def throttled(make_cluster: Callable[..., ReplicaCluster], role: str) -> ReplicaCluster:
    """Broker 1 has ten batches, broker 2 is out of sync and may have 2,000 bytes a second."""
    cluster = make_cluster(
        brokers=2,
        config=ReplicaConfig(replica_fetch_max_bytes=len(BATCH), replica_fetch_backoff_ms=100),
        topic_config=LogConfig.of({f"{role}.replication.throttled.replicas": ("*",)}),
    )
    cluster.unreachable.add(2)
    cluster.elect(1, isr=[1])
    for _ in range(BATCHES):
        cluster[1].produce(BATCH, acks=1)
    for node in (cluster[1], cluster[2]):
        getattr(node.manager, f"{role}_quota").set_rate(2_000)
    cluster.unreachable.clear()
    return cluster


def test_a_follower_out_of_sync_gets_no_more_than_the_rate(throttled: ReplicaCluster) -> None:
    throttled.pass_time(1000)
    first = throttled[2].log().log_end_offset
    assert 0 < first < BATCHES / 2
    throttled.pass_time(100)
    assert throttled[2].log().log_end_offset == first
    throttled.pass_time(2000)
    assert first < throttled[2].log().log_end_offset < BATCHES
    assert throttled[1].partition().isr == (1,)


def test_it_has_everything_in_the_end_and_is_in_sync(throttled: ReplicaCluster) -> None:
    for _ in range(100):
        throttled.pass_time(200)
    assert throttled[2].log().log_end_offset == BATCHES
    assert throttled[1].partition().isr == (1, 2)


def test_a_lifted_limit_lets_it_catch_up(throttled: ReplicaCluster, role: str) -> None:
    throttled.pass_time(1000)
    for node in (throttled[1], throttled[2]):
        getattr(node.manager, f"{role}_quota").set_rate(1 << 40)
    throttled.pass_time(100)
    assert throttled[2].log().log_end_offset == BATCHES


def test_a_replica_in_sync_is_not_held_back(
    make_cluster: Callable[..., ReplicaCluster], role: str
) -> None:
    cluster = make_cluster(
        brokers=2,
        topic_config=LogConfig.of({f"{role}.replication.throttled.replicas": ("*",)}),
    )
    cluster.elect(1)
    cluster.settle()
    for node in (cluster[1], cluster[2]):
        getattr(node.manager, f"{role}_quota").set_rate(1)
    for _ in range(BATCHES):
        produced = cluster[1].produce(BATCH)
        cluster.settle()
        assert produced.is_done


def read_in_process(cluster: ReplicaCluster) -> PartitionData:
    reads = cluster[1].manager.reads
    (data,) = reads.read_as_follower(FOLLOWER, -1, [PartitionFetch(TP, 0, 1 << 20)])
    return data


def read_on_the_wire(cluster: ReplicaCluster) -> PartitionData:
    return fetch_on_the_wire(cluster, max_wait_ms=0).data


def fetch_on_the_wire(cluster: ReplicaCluster, *, max_wait_ms: int) -> Fetched:
    fetched = Fetched()
    params = FetchParams(
        replica_id=FOLLOWER,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation=FetchIsolation.LOG_END,
    )
    cluster[1].manager.reads.fetch_messages(params, [PartitionFetch(TP, 0, 1 << 20)], fetched.take)
    return fetched


@pytest.fixture
def leader(make_cluster: Callable[..., ReplicaCluster]) -> ReplicaCluster:
    """Broker 1 has two batches for its follower, and may send one byte a second."""
    cluster = make_cluster(
        brokers=1,
        topic_config=LogConfig.of({"leader.replication.throttled.replicas": ("*",)}),
    )
    cluster.elect(1, [1, FOLLOWER], isr=[1])
    for value in ("a", "b"):
        cluster[1].produce(value, acks=1)
    cluster[1].manager.leader_quota.set_rate(1)
    return cluster


@pytest.mark.parametrize("read", [read_in_process, read_on_the_wire])
def test_a_leader_sends_all_it_has_and_then_nothing_until_the_rate_allows_it(
    leader: ReplicaCluster, read: Callable[[ReplicaCluster], PartitionData]
) -> None:
    assert values_in(read(leader)) == ["a", "b"]
    assert read(leader).size == 0
    leader.clock.advance(seconds=60)
    assert values_in(read(leader)) == ["a", "b"]


def test_a_fetch_that_waits_for_the_throttle_gets_nothing_at_its_end(
    leader: ReplicaCluster,
) -> None:
    leader[1].manager.leader_quota.record(1 << 20)
    fetched = fetch_on_the_wire(leader, max_wait_ms=500)
    assert not fetched.is_done
    leader.pass_time(500)
    assert fetched.data.size == 0


def test_what_a_waiting_fetch_gets_counts_for_the_throttle(leader: ReplicaCluster) -> None:
    quota = leader[1].manager.leader_quota
    quota.record(1 << 20)
    fetched = fetch_on_the_wire(leader, max_wait_ms=20_000)
    leader.clock.advance(seconds=11)
    leader[1].produce("c", acks=1)
    assert values_in(fetched.data) == ["a", "b", "c"]
    assert quota.is_exceeded()


@pytest.mark.parametrize("throttled", [(), ("7:1", "7:2")])
def test_what_is_not_throttled_is_not_counted(
    make_cluster: Callable[..., ReplicaCluster], throttled: tuple[str, ...]
) -> None:
    cluster = make_cluster(
        brokers=2,
        config=ReplicaConfig(replica_fetch_max_bytes=len(BATCH)),
        topic_config=LogConfig.of(
            {
                "leader.replication.throttled.replicas": throttled,
                "follower.replication.throttled.replicas": throttled,
            }
        ),
    )
    cluster.elect(1, isr=[1])
    for node in (cluster[1], cluster[2]):
        node.manager.leader_quota.set_rate(1)
        node.manager.follower_quota.set_rate(1)
    for _ in range(BATCHES):
        cluster[1].produce(BATCH, acks=1)
    cluster.settle()
    assert cluster[2].log().log_end_offset == BATCHES
