"""Where a follower cuts its log after a leader has told it where an epoch ends (KIP-279, KIP-595).

Pure: offsets and epochs in, a decision out.
"""

from typing import NamedTuple

from embedkafka.replica.fetch import EpochEnd
from embedkafka.runtime.ids import NO_LEADER_EPOCH, NO_OFFSET


class Truncation(NamedTuple):
    """The offset to cut at, and whether the logs agree up to it or must be compared again."""

    offset: int
    is_complete: bool


def truncation_for(
    leader_end: EpochEnd, own_end: EpochEnd, *, fetch_offset: int, log_end_offset: int
) -> Truncation:
    """`own_end` is the follower's largest epoch up to `leader_end.epoch`, and where it ends."""
    if leader_end.end_offset == NO_OFFSET:
        # The leader knows nothing so old: fall back on where fetching began, the high watermark.
        return Truncation(fetch_offset, True)
    if leader_end.epoch == NO_LEADER_EPOCH or own_end.epoch == NO_LEADER_EPOCH:
        return Truncation(min(leader_end.end_offset, log_end_offset), True)
    if own_end.epoch != leader_end.epoch:
        # The follower never saw that epoch: what came after its previous one is not the leader's.
        return Truncation(min(own_end.end_offset, log_end_offset), False)
    return Truncation(min(own_end.end_offset, leader_end.end_offset, log_end_offset), True)
