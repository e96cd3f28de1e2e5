"""Several brokers in one process: following, the high watermark, the in-sync set, failover."""

import shutil
from collections.abc import Callable, Mapping

import pytest

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.log import FetchIsolation
from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.fetch import FetchParams, PartitionFetch
from embedkafka.broker.replica.following.fetcher import FollowState
from embedkafka.broker.replica.produce import PartitionResponse
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.builder import build_batch
from tests.doubles.replica_cluster import Fetched, Produced, ReplicaCluster
from tests.presence import present

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
LAG_MS = 30_000
LINGER_MS = 5_000


def marks(cluster: ReplicaCluster) -> dict[int, int]:
    return {broker: node.log().high_watermark for broker, node in cluster.nodes.items()}


def ends(cluster: ReplicaCluster) -> dict[int, int]:
    return {broker: node.log().log_end_offset for broker, node in cluster.nodes.items()}


# -- following


def test_followers_copy_the_leaders_log(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster[1].produce("a", "b", acks=1)
    cluster[1].produce("c", acks=1)
    cluster.settle()
    assert [cluster[n].values() for n in (1, 2, 3)] == [["a", "b", "c"]] * 3


def test_acks_all_waits_for_every_replica_in_sync(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.settle()
    produced = cluster[1].produce("a")
    cluster[2].manager.fetchers.run_until_idle()
    assert not produced.is_done
    cluster[3].manager.fetchers.run_until_idle()
    assert produced.error is ErrorCode.NONE


def test_acks_all_is_not_asked_of_replicas_outside_the_set(cluster: ReplicaCluster) -> None:
    cluster.elect(1, isr=[1, 2])
    cluster.unreachable.add(3)
    produced = cluster[1].produce("a")
    cluster[2].manager.fetchers.run_until_idle()
    assert produced.error is ErrorCode.NONE


def test_acks_all_times_out_when_a_replica_stays_away(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.settle()
    produced = cluster[1].produce("a", timeout_ms=1_000)
    cluster.clock.advance(1_000)
    cluster[1].tasks.run_due()
    assert produced.error is ErrorCode.REQUEST_TIMED_OUT
    assert produced.response.base_offset == 0


def test_high_watermark_of_a_follower_lags_until_its_next_fetch(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.settle()
    cluster[1].produce("a")
    cluster.settle()
    assert marks(cluster) == {1: 1, 2: 0, 3: 1}
    cluster.pass_time(cluster.config.replica_fetch_wait_max_ms)
    assert marks(cluster) == {1: 1, 2: 1, 3: 1}


def test_consumers_do_not_see_what_followers_lack(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.settle()
    cluster[1].produce("a", acks=1)
    fetched = cluster[1].fetch(0, max_wait_ms=500)
    assert not fetched.is_done
    cluster.settle()
    assert fetched.values == ["a"]


def test_follower_that_waits_at_the_leader_is_answered_by_the_append(
    cluster: ReplicaCluster,
) -> None:
    """Over the wire; consumers do not see the record before the follower has it."""
    cluster.elect(1, [1, 2])
    fetched = Fetched()
    cluster[1].manager.reads.fetch_messages(
        FetchParams(
            replica_id=BrokerId(2),
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation=FetchIsolation.LOG_END,
        ),
        [PartitionFetch(TP, 0, 1 << 20)],
        fetched.take,
    )
    assert not fetched.is_done
    cluster[1].produce("a", acks=1)
    assert fetched.values == ["a"]
    assert cluster[1].log().high_watermark == 0


def test_follower_that_starts_before_its_leader_is_woken_when_the_leader_is_ready(
    cluster: ReplicaCluster,
) -> None:
    cluster.elect(1, to=[2, 3])
    cluster.settle()
    request_epoch = cluster[2].partition().leader_epoch
    assert request_epoch == 0
    cluster.repeat_election(to=[1])
    produced = cluster[1].produce("a")
    cluster.settle()
    assert produced.error is ErrorCode.NONE


def test_large_backlog_arrives_piece_by_piece(make_cluster: Callable[..., ReplicaCluster]) -> None:
    cluster = make_cluster(brokers=2, config=ReplicaConfig(replica_fetch_max_bytes=200))
    cluster.elect(1)
    for n in range(20):
        cluster[1].produce(f"record {n}" * 10, acks=1)
    cluster.settle()
    assert cluster[2].values() == cluster[1].values()


def test_batch_larger_than_the_fetch_size_still_arrives(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(brokers=2, config=ReplicaConfig(replica_fetch_max_bytes=10))
    cluster.elect(1)
    cluster[1].produce("x" * 1_000, acks=1)
    cluster.settle()
    assert cluster[2].values() == ["x" * 1_000]


def test_many_partitions_are_followed_from_several_leaders(cluster: ReplicaCluster) -> None:
    partitions = [TopicPartition("orders", n) for n in range(9)]
    for n, tp in enumerate(partitions):
        cluster.elect(n % 3 + 1, of=tp)
    produced = [cluster[n % 3 + 1].produce("v", to=tp) for n, tp in enumerate(partitions)]
    cluster.settle()
    assert {answer.error for answer in produced} == {ErrorCode.NONE}
    assert all(node.values(tp) == ["v"] for node in cluster.nodes.values() for tp in partitions)


# -- min.insync.replicas


def test_too_few_in_sync_replicas_refuse_the_append(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(topic_config=LogConfig(min_insync_replicas=2))
    cluster.elect(1, isr=[1])
    assert cluster[1].produce("a").error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert cluster[1].log().log_end_offset == 0


def test_acks_one_is_taken_by_too_few_replicas_but_not_shown(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(topic_config=LogConfig(min_insync_replicas=2))
    cluster.elect(1, isr=[1])
    assert cluster[1].produce("a", acks=1).error is ErrorCode.NONE
    assert cluster[1].fetch(0).values == []


def test_set_that_shrinks_below_the_minimum_after_the_append_is_told(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(topic_config=LogConfig(min_insync_replicas=2))
    cluster.elect(1)
    cluster.settle()
    produced = cluster[1].produce("a", timeout_ms=120_000)
    cluster.unreachable.update({1})
    cluster.pass_time(LAG_MS * 2)
    assert cluster[1].partition().isr == (1,)
    assert not produced.is_done
    cluster.unreachable.clear()
    cluster.pass_time(1_000)
    assert produced.error is ErrorCode.NONE


def test_lowered_minimum_acknowledges_waiting_records_with_the_next_append(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(topic_config=LogConfig(min_insync_replicas=2))
    cluster.elect(1)
    cluster.settle()
    waiting = cluster[1].produce("a", timeout_ms=120_000)
    cluster.unreachable.add(1)
    cluster.pass_time(LAG_MS * 2)
    cluster[1].log().update_config(LogConfig(min_insync_replicas=1))
    assert cluster[1].produce("b", acks=1).error is ErrorCode.NONE
    assert waiting.error is ErrorCode.NONE


def test_acknowledgement_tells_when_the_set_shrank_after_the_append(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(topic_config=LogConfig(min_insync_replicas=2))
    cluster.elect(1)
    cluster[1].produce("a")
    cluster.settle()
    partition = cluster[1].partition()
    assert partition.find_ack(1) is ErrorCode.NONE
    cluster.unreachable.add(1)
    cluster[1].produce("b", acks=1)
    cluster.pass_time(LAG_MS * 2)
    assert partition.find_ack(1) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_minimum_above_the_replication_factor_does_not_refuse(
    make_cluster: Callable[..., ReplicaCluster],
) -> None:
    cluster = make_cluster(brokers=1, topic_config=LogConfig(min_insync_replicas=2))
    cluster.elect(1)
    assert cluster[1].produce("a").error is ErrorCode.NONE


# -- the in-sync set


def test_lagging_follower_leaves_the_set_and_the_high_watermark_moves_on(
    cluster: ReplicaCluster,
) -> None:
    cluster.elect(1)
    cluster.settle()
    produced = cluster[1].produce("a", timeout_ms=120_000)
    cluster[2].manager.fetchers.run_until_idle()
    cluster.clock.advance(LAG_MS + LAG_MS // 2)
    cluster[1].tasks.run_due()
    assert cluster[1].partition().isr == (1, 2)
    assert produced.error is ErrorCode.NONE
    assert cluster.store.states[TP].isr == (1, 2)


def test_silent_follower_without_anything_to_fetch_stays_in_the_set(
    cluster: ReplicaCluster,
) -> None:
    cluster.elect(1)
    cluster.settle()
    cluster.unreachable.add(1)
    cluster.pass_time(LAG_MS * 4)
    assert cluster[1].partition().isr == (1, 2, 3)


def test_follower_that_had_nothing_to_fetch_has_the_full_lag_time_when_records_come(
    cluster: ReplicaCluster,
) -> None:
    cluster.elect(1)
    cluster.settle()
    cluster.clock.advance(LAG_MS * 4)
    cluster[1].produce("a")
    cluster[1].tasks.run_due()
    assert cluster[1].partition().isr == (1, 2, 3)
    cluster.clock.advance(LAG_MS + LAG_MS // 2)
    cluster[1].tasks.run_due()
    assert cluster[1].partition().isr == (1,)


def test_follower_that_catches_up_joins_the_set_and_the_controller_hears(
    cluster: ReplicaCluster,
) -> None:
    cluster.elect(1, isr=[1])
    cluster[1].produce("a", acks=1)
    cluster.settle()
    assert sorted(cluster[1].partition().isr) == [1, 2, 3]
    cluster.pass_time(LINGER_MS)
    cluster.pass_time(LINGER_MS)
    assert set(cluster.store.notified) == {TP}
    assert cluster.store.versions[TP] == 2


def test_controller_hears_of_a_single_change(cluster: ReplicaCluster) -> None:
    cluster.elect(1, isr=[1, 2])
    cluster.settle()
    assert cluster[1].partition().isr == (1, 2, 3)
    cluster.pass_time(LINGER_MS)
    assert cluster.store.notified == [TP]


def test_broker_joins_the_set_only_when_it_is_known_to_be_alive(cluster: ReplicaCluster) -> None:
    cluster.elect(1, isr=[1, 2])
    cluster.metadata.alive.discard(3)
    cluster.settle()
    assert cluster[1].partition().isr == (1, 2)
    cluster.metadata.alive.add(3)
    for node in cluster.nodes.values():
        node.manager.isr_updates.on_brokers_changed()
    cluster.settle()
    assert cluster[1].partition().isr == (1, 2, 3)


@pytest.mark.parametrize("was_in_sync", [True, False])
def test_broker_that_comes_back_joins_the_set_only_after_it_has_fetched(
    cluster: ReplicaCluster, was_in_sync: bool
) -> None:
    cluster.elect(1, isr=[1, 2])
    cluster[1].produce("a")
    if was_in_sync:
        cluster.settle()
    else:
        cluster.metadata.alive.discard(3)  # so that it catches up, and may not join
        cluster.settle()
        cluster.metadata.alive.add(3)
    cluster.kill(3)
    cluster[1].manager.isr_updates.on_brokers_changed()
    if was_in_sync:
        cluster.elect(1, [1, 2, 3], isr=[1, 2])
    assert cluster[1].partition().view().follower_end_offsets[BrokerId(3)] == -1
    shutil.rmtree(cluster.directory / "broker-3")  # what it once had, it has no longer
    cluster.start(3)
    cluster[1].manager.isr_updates.on_brokers_changed()
    cluster.pass_time(LAG_MS)
    assert cluster[1].partition().isr == (1, 2)
    cluster.repeat_election(to=[3])
    cluster.settle()
    assert cluster[1].partition().isr == (1, 2, 3)
    assert cluster[3].log().log_end_offset == 1


def test_broker_that_has_fetched_before_it_is_known_to_be_back_is_asked_again(
    cluster: ReplicaCluster,
) -> None:
    """Another broker's end may be heard of between its fetch and its return."""
    cluster.elect(1, isr=[1, 2])
    cluster.metadata.alive.discard(3)
    cluster.settle()
    cluster.unreachable.add(3)
    cluster[1].manager.isr_updates.on_brokers_changed()  # of some other broker
    cluster.settle()
    cluster.unreachable.clear()
    cluster.metadata.alive.add(3)
    cluster[1].manager.isr_updates.on_brokers_changed()
    cluster.settle()
    assert cluster[1].partition().isr == (1, 2, 3)


def test_leader_that_missed_another_one_forgets_how_far_its_followers_were(
    cluster: ReplicaCluster,
) -> None:
    """They may have thrown away since then what the other leader did not have."""
    cluster.elect(1)
    cluster.settle()
    cluster[1].produce("a")
    cluster[2].manager.fetchers.run_until_idle()
    assert ends(cluster) == {1: 1, 2: 1, 3: 0}
    cluster.elect(3, to=[2, 3])
    cluster.elect(1, isr=[1, 2], to=[1])
    assert marks(cluster)[1] == 0
    cluster.settle()
    assert ends(cluster)[2] == 0, "it follows the other one"
    cluster.repeat_election(to=[2, 3])
    cluster.settle()
    assert marks(cluster)[1] == 1


def test_leader_that_stays_remembers_how_far_its_followers_are(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.settle()
    cluster[1].produce("a")
    cluster[2].manager.fetchers.run_until_idle()
    cluster.elect(1, isr=[1, 2], to=[1])
    assert marks(cluster)[1] == 1


def test_high_watermark_counts_a_follower_from_the_moment_it_is_proposed(
    cluster: ReplicaCluster,
) -> None:
    cluster.elect(1, [1, 2], isr=[1])
    cluster[2].manager.fetchers.run_until_idle()  # joins, but the store has not answered
    cluster[1].produce("a", acks=1)
    assert cluster[1].partition().isr == (1,)
    assert cluster[1].log().high_watermark == 0
    cluster.settle()
    assert cluster[1].partition().isr == (1, 2)
    assert cluster[1].log().high_watermark == 1


def test_set_refused_by_the_store_waits_for_the_controller(cluster: ReplicaCluster) -> None:
    cluster.elect(1, isr=[1])
    cluster.store.versions[TP] += 1  # someone else has written
    cluster[1].produce("a", acks=1)
    cluster.settle()
    assert cluster[1].partition().isr == (1,)
    cluster.elect(1, isr=[1])
    cluster.settle()
    assert sorted(cluster[1].partition().isr) == [1, 2, 3]


def test_follower_below_the_start_of_the_leaders_epoch_may_not_join(
    cluster: ReplicaCluster,
) -> None:
    cluster.elect(1, [1, 2], isr=[1])
    cluster[1].produce("a", acks=1)
    cluster.elect(1, [1, 2], isr=[1])
    assert cluster[1].partition().isr == (1,)
    cluster.settle()
    assert cluster[1].partition().isr == (1, 2)


@pytest.mark.parametrize("count", [1, 2])
def test_the_controller_is_told_soon_of_every_change(cluster: ReplicaCluster, count: int) -> None:
    changed = [TopicPartition("orders", n) for n in range(count)]
    for tp in changed:
        cluster.elect(1, [1, 2], of=tp, isr=[1])
    cluster.settle()
    assert cluster.store.notified == []
    cluster.pass_time(LINGER_MS)
    cluster.pass_time(LINGER_MS)
    assert cluster.store.notified == changed, "each once"


def test_announcements_wait_until_sets_stay_as_they_are_but_not_for_ever(
    cluster: ReplicaCluster,
) -> None:
    changing = [TopicPartition("orders", n) for n in range(30)]
    told = []
    for tp in changing:
        cluster.elect(1, [1, 2], of=tp, isr=[1])
        cluster.settle()
        cluster.pass_time(LINGER_MS // 2)
        told.append(len(cluster.store.notified))
    assert told[:20] == [0] * 20
    assert told[-1] > 20
    cluster.pass_time(LINGER_MS)
    cluster.pass_time(LINGER_MS)
    assert cluster.store.notified == changing


def test_the_controller_is_told_later_when_the_store_was_lost_in_between(
    cluster: ReplicaCluster,
) -> None:
    cluster.elect(1, isr=[1])
    cluster.store.takes_notes = False
    cluster.settle()
    cluster.pass_time(LAG_MS // 2)
    assert sorted(cluster[1].partition().isr) == [1, 2, 3]
    assert cluster.store.notified == []
    cluster.store.takes_notes = True
    cluster.pass_time(LAG_MS // 2)
    assert cluster.store.notified == [cluster[1].partition().topic_partition]


# -- leader changes


@pytest.fixture(params=[True, False], ids=["truncation on fetch", "by epoch end"])
def diverging(
    request: pytest.FixtureRequest, make_cluster: Callable[..., ReplicaCluster]
) -> ReplicaCluster:
    """Both ways for a follower to find out where it left its leader."""
    return make_cluster(config=ReplicaConfig(truncates_on_fetch=request.param))


def test_follower_truncates_to_the_leaders_epoch_end(diverging: ReplicaCluster) -> None:
    diverging.elect(1)
    diverging[1].produce("kept", acks=1)
    diverging.settle()
    diverging.unreachable.add(1)
    diverging[1].produce("lost", acks=1)
    diverging.elect(2, isr=[2, 3])
    diverging.unreachable.clear()
    diverging[2].produce("new", acks=1)
    diverging.settle()
    assert [diverging[n].values() for n in (1, 2, 3)] == [["kept", "new"]] * 3


def test_follower_steps_back_through_epochs_that_the_leader_never_had(
    diverging: ReplicaCluster,
) -> None:
    diverging.elect(1)
    diverging[1].produce("a", acks=1)
    diverging.settle()
    diverging.unreachable.update({1, 2, 3})
    diverging[1].produce("x", acks=1)
    diverging.elect(1, isr=[1])
    diverging[1].produce("y", acks=1)
    diverging.elect(3, isr=[3])
    diverging[3].produce("z", acks=1)
    diverging.unreachable.clear()
    diverging.pass_time(1_000)
    assert [diverging[n].values() for n in (1, 2, 3)] == [["a", "z"]] * 3


def test_follower_without_epochs_truncates_to_its_high_watermark(diverging: ReplicaCluster) -> None:
    diverging.elect(1, [1, 2])
    diverging.unreachable.add(2)
    for value in ("a", "b"):
        diverging[1].produce(value, acks=1)
    log = diverging[2].log()
    for offset, old in enumerate((b"x", b"y", b"z")):
        log.append_as_follower(build_batch([(5, None, old, ())], base_offset=offset))
    log.update_high_watermark(1)
    assert log.latest_epoch == -1
    diverging.unreachable.clear()
    diverging.elect(1, [1, 2])
    diverging.settle()
    assert diverging[2].values() == ["x", "b"]


def test_follower_ahead_of_an_unclean_leader_goes_back(diverging: ReplicaCluster) -> None:
    diverging.elect(1, [1, 2])
    diverging[1].produce("a", "b", acks=1)
    diverging.settle()
    diverging.kill(1)
    diverging.elect(3, [3, 2], isr=[3])  # broker 3 has nothing
    diverging[3].produce("c", acks=1)
    diverging.settle()
    assert diverging[2].values() == diverging[3].values() == ["c"]


def test_follower_behind_the_leaders_log_start_starts_over(diverging: ReplicaCluster) -> None:
    diverging.elect(1, [1, 2], isr=[1])
    diverging.unreachable.add(1)
    diverging.pass_time(LAG_MS)
    diverging[1].produce("a", "b", "c", acks=1)
    diverging[1].manager.writes.delete_records({TP: 3}, lambda _: None, timeout_ms=0)
    diverging[1].produce("d", acks=1)
    diverging.unreachable.clear()
    diverging.pass_time(1_000)
    assert diverging[2].log().log_start_offset == 3
    assert diverging[2].values() == ["d"]


def test_new_leader_tells_no_end_offset_before_it_knows_its_high_watermark(
    cluster: ReplicaCluster,
) -> None:
    cluster.elect(1)
    cluster.settle()
    cluster[1].produce("a")
    cluster.settle()
    cluster.elect(2)  # its high watermark is still 0
    find = cluster[2].partition().find_offset
    for timestamp in (-1, 1_000):
        with pytest.raises(ApiError) as raised:
            find(timestamp, isolation=FetchIsolation.HIGH_WATERMARK)
        assert raised.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
    cluster.settle()
    assert present(find(-1, isolation=FetchIsolation.HIGH_WATERMARK)).offset == 1


def test_record_past_the_high_watermark_is_not_found_by_its_time(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.settle()
    cluster[1].produce("a")
    cluster.settle()
    cluster.unreachable.add(1)
    cluster[1].produce("b", acks=1)
    find = cluster[1].partition().find_offset
    assert present(find(1_000, isolation=FetchIsolation.HIGH_WATERMARK)).offset == 0
    cluster[1].partition().delete_records(1)
    assert find(1_000, isolation=FetchIsolation.HIGH_WATERMARK) is None
    assert present(find(1_000, isolation=FetchIsolation.LOG_END)).offset == 1


def test_acknowledged_records_survive_the_leader(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.settle()
    produced = [cluster[1].produce(f"v{n}") for n in range(5)]
    cluster.settle()
    assert all(answer.error is ErrorCode.NONE for answer in produced)
    cluster.kill(1)
    cluster.elect(3, [1, 2, 3], isr=[2, 3])
    cluster.settle()
    assert cluster[3].fetch(0).values[:1] == ["v0"]
    assert cluster[3].values() == cluster[2].values() == [f"v{n}" for n in range(5)]


def test_restarted_broker_catches_up_and_rejoins(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.settle()
    cluster.kill(3)
    cluster.elect(1, [1, 2, 3], isr=[1, 2])
    produced = cluster[1].produce("while away")
    cluster.settle()
    assert produced.error is ErrorCode.NONE
    cluster.start(3)
    cluster.elect(1, [1, 2, 3], isr=[1, 2])
    cluster.settle()
    assert cluster[3].values() == ["while away"]
    assert sorted(cluster[1].partition().isr) == [1, 2, 3]


def test_restarted_leader_is_found_again(cluster: ReplicaCluster) -> None:
    cluster.elect(1, [1, 2])
    cluster[1].produce("a", acks=1)
    cluster.settle()
    cluster.kill(1)
    cluster.settle()
    cluster.start(1)
    cluster.elect(1, [1, 2])
    produced = cluster[1].produce("b")
    cluster.settle()
    assert produced.error is ErrorCode.NONE


def test_waiting_produce_is_refused_when_the_leader_changes(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.settle()
    produced = cluster[1].produce("a")
    cluster.elect(2)
    assert produced.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_stale_leader_is_fenced_by_its_follower(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.settle()
    cluster.elect(2, to=[2])  # brokers 1 and 3 have not heard yet
    cluster[1].produce("a", acks=1)
    cluster.settle()
    assert ends(cluster) == {1: 1, 2: 0, 3: 1}


def test_fenced_follower_fetches_no_more_until_it_hears_of_the_new_epoch(
    cluster: ReplicaCluster,
) -> None:
    cluster.elect(1)
    cluster.settle()
    cluster.elect(1, to=[1])
    cluster.settle()
    assert cluster[2].manager.fetchers.find_state(TP) is FollowState.FAILED
    cluster.repeat_election(to=[2, 3])
    cluster.settle()
    assert cluster[2].manager.fetchers.find_state(TP) is FollowState.FETCHING


def test_unreachable_leader_of_a_new_epoch_is_tried_again_after_the_backoff(
    diverging: ReplicaCluster,
) -> None:
    """Before the first fetch, when a follower may have to ask where the last epoch ended."""
    diverging.elect(1)
    diverging[1].produce("a")
    diverging.settle()
    diverging.unreachable.add(1)
    diverging.elect(1)
    diverging[1].produce("b")
    diverging.settle()
    assert diverging[2].values() == ["a"]
    diverging.unreachable.clear()
    diverging.pass_time(diverging.config.replica_fetch_backoff_ms)
    assert diverging[2].values() == ["a", "b"]


def test_unreachable_leader_is_tried_again_after_the_backoff(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.settle()
    cluster.unreachable.add(1)
    produced = cluster[1].produce("a")
    cluster.settle()
    cluster.unreachable.clear()
    cluster.settle()
    assert not produced.is_done
    cluster.pass_time(cluster.config.replica_fetch_backoff_ms)
    assert produced.error is ErrorCode.NONE


def produce_to_two(
    cluster: ReplicaCluster,
) -> list[Mapping[TopicPartition, PartitionResponse]]:
    """Appends to TP and OTHER in one request, while only OTHER's follower can fetch."""
    cluster.elect(1, [1, 2], of=TP)
    cluster.elect(1, [1, 3], of=OTHER)
    cluster.settle()
    cluster.unreachable.add(2)
    answers: list[Mapping[TopicPartition, PartitionResponse]] = []
    cluster[1].manager.writes.append_records(
        timeout_ms=1_000,
        required_acks=-1,
        entries={TP: cluster.records("a"), OTHER: cluster.records("b")},
        on_done=answers.append,
    )
    cluster.settle()
    assert not answers
    return answers


def test_only_the_partition_that_is_not_replicated_times_out(cluster: ReplicaCluster) -> None:
    answers = produce_to_two(cluster)
    cluster.unreachable.add(3)
    cluster.pass_time(1_000)
    errors = {topic_partition: answer.error for topic_partition, answer in answers[0].items()}
    assert errors == {TP: ErrorCode.REQUEST_TIMED_OUT, OTHER: ErrorCode.NONE}


def test_waiting_produce_is_answered_when_its_partition_is_deleted(cluster: ReplicaCluster) -> None:
    answers = produce_to_two(cluster)
    cluster.metadata.partitions.discard(TP)
    cluster.stop_replica(1, delete=True, leader_epoch=-2)
    errors = {topic_partition: answer.error for topic_partition, answer in answers[0].items()}
    assert errors == {TP: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, OTHER: ErrorCode.NONE}


# -- delete records


def test_records_are_deleted_on_all_replicas(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster[1].produce("a", "b", "c")
    cluster.settle()
    answers = []
    cluster[1].manager.writes.delete_records({TP: 2}, answers.append, timeout_ms=1_000)
    assert not answers
    cluster.settle()
    assert answers[0][TP] == (2, ErrorCode.NONE)
    assert [node.log().log_start_offset for node in cluster.nodes.values()] == [2, 2, 2]


def test_deletion_times_out_while_a_live_replica_is_silent(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster[1].produce("a")
    cluster.settle()
    cluster.unreachable.add(1)
    answers = []
    cluster[1].manager.writes.delete_records({TP: 1}, answers.append, timeout_ms=1_000)
    cluster.pass_time(1_000)
    assert answers[0][TP].error is ErrorCode.REQUEST_TIMED_OUT


def test_deletion_is_answered_when_its_partition_is_deleted(cluster: ReplicaCluster) -> None:
    for topic_partition in (TP, OTHER):
        cluster.elect(1, of=topic_partition)
        cluster[1].produce("a", to=topic_partition)
    cluster.settle()
    cluster.unreachable.add(1)
    answers = []
    cluster[1].manager.writes.delete_records({TP: 1, OTHER: 1}, answers.append, timeout_ms=9_000)
    cluster.metadata.partitions.discard(TP)
    cluster.stop_replica(1, delete=True, leader_epoch=-2)
    cluster.unreachable.clear()
    cluster.pass_time(cluster.config.replica_fetch_backoff_ms)
    errors = {topic_partition: answer.error for topic_partition, answer in answers[0].items()}
    assert errors == {TP: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, OTHER: ErrorCode.NONE}


def test_waiting_deletion_is_refused_when_the_leader_changes(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster[1].produce("a")
    cluster.settle()
    cluster.unreachable.add(1)
    answers = []
    cluster[1].manager.writes.delete_records({TP: 1}, answers.append, timeout_ms=1_000)
    cluster.elect(2)
    assert answers[0][TP].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_deletion_does_not_wait_for_a_dead_replica(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster[1].produce("a")
    cluster.settle()
    cluster.kill(3)
    answers = []
    cluster[1].manager.writes.delete_records({TP: 1}, answers.append, timeout_ms=1_000)
    cluster.settle()
    assert answers[0][TP].error is ErrorCode.NONE


# -- shutting down


def wait_at(cluster: ReplicaCluster) -> tuple[Fetched, Produced, list[ErrorCode]]:
    """A fetch, a produce and a deletion that wait at broker 1."""
    cluster.elect(1)
    cluster[1].produce("a")
    cluster.settle()
    cluster.unreachable.update({2, 3})
    errors: list[ErrorCode] = []
    cluster[1].manager.writes.delete_records(
        {TP: 1}, lambda results: errors.append(results[TP].error), timeout_ms=60_000
    )
    fetched = cluster[1].fetch(1, max_wait_ms=60_000)
    produced = cluster[1].produce("b", timeout_ms=60_000)
    assert [fetched.answers, produced.answers, errors] == [[], [], []]
    return fetched, produced, errors


def test_broker_that_stops_answers_the_requests_that_wait(cluster: ReplicaCluster) -> None:
    fetched, produced, errors = wait_at(cluster)
    cluster[1].manager.shutdown()
    assert fetched.values == []
    assert produced.error is ErrorCode.REQUEST_TIMED_OUT
    assert errors == [ErrorCode.REQUEST_TIMED_OUT]


def test_broker_that_crashes_answers_nothing(cluster: ReplicaCluster) -> None:
    fetched, produced, errors = wait_at(cluster)
    node = cluster[1]
    cluster.kill(1)
    cluster.clock.advance(60_000)
    node.tasks.run_due()
    assert [fetched.answers, produced.answers, errors] == [[], [], []]


def test_broker_that_has_stopped_follows_and_decides_nothing(cluster: ReplicaCluster) -> None:
    cluster.elect(1)
    cluster.elect(2, of=OTHER)
    cluster.settle()
    cluster[2].manager.shutdown()
    for topic_partition, leader in ((TP, 1), (OTHER, 2)):
        cluster[leader].produce("a", to=topic_partition, acks=1)
    cluster.unreachable.add(3)
    cluster.pass_time(LAG_MS * 2)
    assert cluster[2].values() == []
    assert cluster[2].partition(OTHER).isr == (1, 2, 3), "although its followers lag"
