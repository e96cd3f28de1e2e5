"""A log as the cleaner finds it."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from embedkafka.log.producer_state import LastRecord
from embedkafka.log.segment import Segment
from embedkafka.runtime.values import dataclass


class SegmentToClean(NamedTuple):
    """A segment and what decides whether it may be compacted."""

    segment: Segment
    base_offset: int
    end_offset: int
    size: int
    first_timestamp: int
    largest_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningView:
    """All segments but the active one, and the marks that hold for them.

    `truncations` counts them; a segment made from this view is of use only if there was none since.
    `lowest_truncation` is how far down they went, for what was clean there is not any more.
    """

    segments: Sequence[SegmentToClean]
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    last_records: Mapping[int, LastRecord]
    truncations: int
    lowest_truncation: int


def segments_to_clean(segments: Iterable[Segment]) -> Sequence[SegmentToClean]:
    """All of `segments` but the last, which is the active one."""
    return [
        SegmentToClean(
            segment=segment,
            base_offset=segment.base_offset,
            end_offset=following.base_offset,
            size=segment.size,
            first_timestamp=segment.first_timestamp,
            largest_timestamp=segment.largest_timestamp,
        )
        for segment, following in pairwise(segments)
    ]
