"""The rules of the in-sync replica set, as functions of the followers' progress.

Owner: `FollowerProgress` belongs to the `Partition` that leads; its lock guards every field.
Invariants: the high watermark ignores a replica only after the store has removed it: until then the
*maximal* set (committed or proposed, KIP-497) counts.
Not here: writing a decision to the store (`isr_updates`).
"""

from collections.abc import Callable, Collection, Iterable

from embedkafka.runtime.ids import NO_BROKER_EPOCH, NO_OFFSET, BrokerId


class FollowerProgress:
    """One follower's position, derived from its fetch offsets."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.broker_epoch = NO_BROKER_EPOCH
        self.log_end_offset = NO_OFFSET
        self.log_start_offset = NO_OFFSET
        self.last_fetch_leader_end_offset = NO_OFFSET
        self.last_fetch_ms = 0.0
        self.last_caught_up_ms = 0.0

    def reset(self, *, now_ms: float, new_leader: bool, in_sync: bool) -> None:
        """Starts a leader epoch: a member of the set gets the full lag time to fetch.

        Drops the position of non-members, which may come back with less.
        """
        if new_leader or not in_sync:
            self.log_end_offset = self.log_start_offset = NO_OFFSET
            self.last_fetch_ms = 0.0
        self.last_caught_up_ms = now_ms if in_sync else 0.0

    def fetched(
        self, *, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: float
    ) -> None:
        """Records a fetch.

        A follower that fetches from the leader's end at its previous fetch had caught up at that
        time, even if the leader has moved on.
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms


def is_caught_up(
    follower: FollowerProgress, *, leader_end_offset: int, now_ms: float, lag_time_max_ms: float
) -> bool:
    """At the leader's log end now, or within the lag time."""
    return (
        follower.log_end_offset == leader_end_offset
        or now_ms - follower.last_caught_up_ms <= lag_time_max_ms
    )


def out_of_sync(
    followers: Iterable[FollowerProgress],
    isr: Collection[BrokerId],
    *,
    leader_end_offset: int,
    now_ms: float,
    lag_time_max_ms: float,
) -> frozenset[BrokerId]:
    """Members of `isr` that have lagged for too long."""
    return frozenset(
        follower.broker_id
        for follower in followers
        if follower.broker_id in isr
        and not is_caught_up(
            follower,
            leader_end_offset=leader_end_offset,
            now_ms=now_ms,
            lag_time_max_ms=lag_time_max_ms,
        )
    )


def may_join(
    follower: FollowerProgress, *, high_watermark: int, leader_epoch_start_offset: int
) -> bool:
    """Whether the follower has all committed records and all records of earlier epochs."""
    return (
        follower.log_end_offset >= high_watermark
        and follower.log_end_offset >= leader_epoch_start_offset
    )


def high_watermark(
    followers: Iterable[FollowerProgress],
    maximal_isr: Collection[BrokerId],
    *,
    leader_end_offset: int,
    now_ms: float,
    lag_time_max_ms: float,
    is_eligible: Callable[[BrokerId], bool],
) -> int:
    """The smallest end offset of the replicas that count.

    A caught-up follower counts before it is a member: otherwise it might chase a moving high
    watermark forever and never join.
    """
    lowest = leader_end_offset
    for follower in followers:
        if follower.log_end_offset < lowest and (
            follower.broker_id in maximal_isr
            or (
                is_caught_up(
                    follower,
                    leader_end_offset=leader_end_offset,
                    now_ms=now_ms,
                    lag_time_max_ms=lag_time_max_ms,
                )
                and is_eligible(follower.broker_id)
            )
        ):
            lowest = follower.log_end_offset
    return lowest


def effective_min_isr(min_insync_replicas: int, replica_count: int) -> int:
    """Capped at the replication factor, because a higher minimum would refuse every write."""
    return min(min_insync_replicas, replica_count)
