from embedkafka.broker.replica.partition.isr import (
    FollowerProgress,
    effective_min_isr,
    high_watermark,
    is_caught_up,
    may_join,
    out_of_sync,
)
from embedkafka.runtime.ids import BrokerId

B2, B3 = BrokerId(2), BrokerId(3)
LAG_MS = 1_000.0


def follower(broker_id: BrokerId, end_offset: int, caught_up_ms: float = 0.0) -> FollowerProgress:
    progress = FollowerProgress(broker_id)
    progress.log_end_offset = end_offset
    progress.last_caught_up_ms = caught_up_ms
    return progress


def mark(*followers: FollowerProgress, isr: set[BrokerId], end: int, now_ms: float = 0.0) -> int:
    return high_watermark(
        followers,
        isr,
        leader_end_offset=end,
        now_ms=now_ms,
        lag_time_max_ms=LAG_MS,
        is_eligible=lambda broker_id: True,
    )


def test_high_watermark_is_the_smallest_end_of_the_in_sync_replicas() -> None:
    assert mark(follower(B2, 7), follower(B3, 9), isr={B2, B3}, end=10) == 7


def test_high_watermark_does_not_wait_for_a_replica_that_fell_behind_long_ago() -> None:
    assert mark(follower(B2, 7), follower(B3, 9), isr={B3}, end=10, now_ms=5_000) == 9


def test_high_watermark_waits_for_a_caught_up_replica_that_is_about_to_join() -> None:
    assert mark(follower(B2, 7, caught_up_ms=4_500), isr=set(), end=10, now_ms=5_000) == 7


def test_high_watermark_does_not_wait_for_a_replica_that_may_not_join() -> None:
    reached = high_watermark(
        [follower(B2, 7, caught_up_ms=4_500)],
        set(),
        leader_end_offset=10,
        now_ms=5_000,
        lag_time_max_ms=LAG_MS,
        is_eligible=lambda broker_id: False,
    )
    assert reached == 10


def test_follower_at_the_leaders_end_is_caught_up_however_long_it_is_silent() -> None:
    progress = follower(B2, 10)
    assert is_caught_up(progress, leader_end_offset=10, now_ms=1e9, lag_time_max_ms=LAG_MS)


def test_follower_has_the_whole_lag_time() -> None:
    progress = follower(B2, 7, caught_up_ms=500)
    assert is_caught_up(progress, leader_end_offset=9, now_ms=1_500, lag_time_max_ms=LAG_MS)
    assert not is_caught_up(progress, leader_end_offset=9, now_ms=1_501, lag_time_max_ms=LAG_MS)


def test_follower_counts_as_caught_up_when_it_asks_for_the_end_of_its_previous_fetch() -> None:
    progress = FollowerProgress(B2)
    progress.fetched(fetch_offset=0, log_start_offset=0, leader_end_offset=5, now_ms=100)
    progress.fetched(fetch_offset=5, log_start_offset=0, leader_end_offset=9, now_ms=900)
    assert progress.last_caught_up_ms == 100
    progress.fetched(fetch_offset=9, log_start_offset=0, leader_end_offset=9, now_ms=950)
    assert progress.last_caught_up_ms == 950


def test_follower_that_falls_short_of_the_end_of_its_previous_fetch_is_not_caught_up() -> None:
    progress = FollowerProgress(B2)
    progress.fetched(fetch_offset=0, log_start_offset=0, leader_end_offset=5, now_ms=100)
    progress.fetched(fetch_offset=4, log_start_offset=0, leader_end_offset=9, now_ms=900)
    assert progress.last_caught_up_ms == 0


def test_only_lagging_members_leave_the_set() -> None:
    lagging, steady = follower(B2, 3), follower(B3, 9, caught_up_ms=4_900)
    outside = follower(BrokerId(4), 0)
    assert out_of_sync(
        [lagging, steady, outside],
        {B2, B3},
        leader_end_offset=10,
        now_ms=5_000,
        lag_time_max_ms=LAG_MS,
    ) == {B2}


def test_follower_joins_at_the_high_watermark_and_past_what_earlier_leaders_left() -> None:
    assert may_join(follower(B2, 5), high_watermark=5, leader_epoch_start_offset=4)
    assert not may_join(follower(B2, 4), high_watermark=5, leader_epoch_start_offset=4)
    assert not may_join(follower(B2, 5), high_watermark=5, leader_epoch_start_offset=6)


def test_new_leader_forgets_offsets_but_gives_members_time() -> None:
    progress = follower(B2, 9)
    progress.reset(now_ms=700, new_leader=True, in_sync=True)
    assert (progress.log_end_offset, progress.last_caught_up_ms) == (-1, 700)
    progress = follower(B2, 9)
    progress.reset(now_ms=800, new_leader=False, in_sync=True)
    assert (progress.log_end_offset, progress.last_caught_up_ms) == (9, 800)
    progress.reset(now_ms=900, new_leader=False, in_sync=False)
    assert (progress.log_end_offset, progress.last_caught_up_ms) == (-1, 0)


def test_fetch_of_an_earlier_epoch_makes_no_follower_caught_up() -> None:
    progress = FollowerProgress(B2)
    progress.fetched(fetch_offset=9, log_start_offset=0, leader_end_offset=9, now_ms=700)
    progress.reset(now_ms=800, new_leader=False, in_sync=False)
    progress.fetched(fetch_offset=10, log_start_offset=0, leader_end_offset=12, now_ms=900)
    assert progress.last_caught_up_ms == 0


def test_minimum_above_the_replication_factor_is_capped() -> None:
    assert effective_min_isr(2, 1) == 1
    assert effective_min_isr(2, 3) == 2
