"""Where a follower truncates its log, given the leader's end of an epoch (KIP-279, KIP-595).

Pure: offsets and epochs in, a decision out.
"""

from embedkafka.broker.replica.fetch import EpochEnd
from embedkafka.runtime.ids import NO_LEADER_EPOCH, NO_OFFSET
from embedkafka.runtime.values import NamedTuple


class Truncation(NamedTuple):
    """The offset to truncate to, and whether the logs agree below it or need another comparison."""

    offset: int
    is_complete: bool


def truncation_for(
    leader_end: EpochEnd, own_end: EpochEnd, *, fetch_offset: int, log_end_offset: int
) -> Truncation:
    """`own_end` is the follower's largest epoch up to `leader_end.epoch`, and its end."""
    if leader_end.end_offset == NO_OFFSET:
        # The leader has no epoch that old: fall back to the high watermark.
        return Truncation(fetch_offset, True)
    if leader_end.epoch == NO_LEADER_EPOCH or own_end.epoch == NO_LEADER_EPOCH:
        return Truncation(min(leader_end.end_offset, log_end_offset), True)
    if own_end.epoch != leader_end.epoch:
        # The follower lacks that epoch: records after its previous one are not the leader's.
        return Truncation(min(own_end.end_offset, log_end_offset), False)
    return Truncation(min(own_end.end_offset, leader_end.end_offset, log_end_offset), True)
