"""The cleaner's access to a log: what to compact, the batches, and swapping in new segments.

Owner: the log's lock, taken in every call; the log may change between calls.
Invariants: segments are replaced only if they are still in the log, the log was not truncated since
the cleaner looked at them, and compaction is not paused.
Not here: what to compact, and when (`cleaner`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from embedkafka.broker.log.files.record_ages import PartitionAges
from embedkafka.broker.log.files.segment import Segment
from embedkafka.broker.log.files.txn_index import AbortedTransaction
from embedkafka.broker.log.guard import LogGuard
from embedkafka.broker.log.local_log import CLEANED_SUFFIX
from embedkafka.broker.log.log_state import MAX_OFFSET, LogState
from embedkafka.broker.log.producers.state import LastRecord
from embedkafka.runtime.values import NamedTuple, dataclass
from embedkafka.wire.records.batch import Batch


class SegmentToClean(NamedTuple):
    """A segment, with the facts that decide whether it may be compacted."""

    segment: Segment
    base_offset: int
    end_offset: int
    size: int
    first_ms: int
    """The time of its first record on the brokers' clock, or -1."""
    latest_ms: int
    """The time of its latest record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningView:
    """All segments but the active one, and the log's offsets.

    `truncations` counts them: a segment compacted from this view is valid only if the count has not
    changed. `lowest_truncation` is the lowest offset they cut to: beyond it, nothing is clean.
    A log that `is_paused` must not be compacted.
    """

    segments: Sequence[SegmentToClean]
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    last_records: Mapping[int, LastRecord]
    truncations: int
    lowest_truncation: int
    is_paused: bool


class CleanableLog:
    """The cleaner's operations on one log: `log.cleanable`."""

    def __init__(self, guard: LogGuard, contents: LogState) -> None:
        self._guard = guard
        self._contents = contents

    def view(self) -> CleaningView:
        """The current state of the log."""
        return self._guard.run(self._view)

    def _view(self) -> CleaningView:
        contents = self._contents
        return CleaningView(
            segments=_segments_to_clean(contents.local.segments, contents.ages),
            log_start_offset=contents.log_start_offset,
            log_end_offset=contents.log_end_offset,
            last_stable_offset=contents.last_stable_offset,
            last_records=contents.producers.last_records(),
            truncations=contents.truncations,
            lowest_truncation=contents.lowest_truncation,
            is_paused=contents.cleaning_pauses > 0,
        )

    def pause(self) -> None:
        """Prevents compaction until `resume`; a pass in progress ends without further effect."""
        with self._guard.lock:
            self._contents.cleaning_pauses += 1

    def resume(self) -> None:
        """Undoes one `pause`."""
        with self._guard.lock:
            self._contents.cleaning_pauses -= 1

    def aborted_transactions(self) -> Sequence[AbortedTransaction]:
        """All transactions in the transaction indexes."""
        return self._guard.run(
            lambda: [txn for segment in self._contents.local.segments for txn in segment.txn_index]
        )

    def find_batches(self, segment: Segment) -> Iterator[Batch] | None:
        """The batches of `segment`, for reading without the lock, if it is still in the log."""

        def find() -> Iterator[Batch] | None:
            is_there = self._contents.local.segments.has_all((segment,))
            return segment.batches() if is_there else None

        return self._guard.run(find)

    def new_segment(self, base_offset: int) -> Segment:
        """An empty segment beside the log, for `replace`."""

        def make() -> Segment:
            segment = self._contents.local.open_segment(base_offset, CLEANED_SUFFIX)
            segment.create()
            return segment

        return self._guard.run(make)

    def replace(self, new: Segment, old: Sequence[Segment], *, truncations: int) -> bool:
        """Replaces the original segments with the compacted one.

        Does nothing and returns False if compaction is paused, or the log was truncated, or some of
        them are gone.
        """
        contents = self._contents

        def replace() -> bool:
            if contents.cleaning_pauses or truncations != contents.truncations:
                return False
            if not contents.local.segments.has_all(old):
                return False
            contents.local.replace(new, old)
            gone = {segment.base_offset for segment in old}.difference({new.base_offset})
            contents.producers.remove_snapshots(gone)
            return True

        return self._guard.run(replace)

    def forget_truncations(self, truncations: int) -> None:
        """Notes that compaction has covered the truncations up to the given count."""
        with self._guard.lock:
            if truncations == self._contents.truncations:
                self._contents.lowest_truncation = MAX_OFFSET


def _segments_to_clean(
    segments: Iterable[Segment], ages: PartitionAges
) -> Sequence[SegmentToClean]:
    """All of `segments` but the last, which is the active one."""
    return [
        SegmentToClean(
            segment=segment,
            base_offset=segment.base_offset,
            end_offset=following.base_offset,
            size=segment.size,
            first_ms=segment.first_ms(ages),
            latest_ms=segment.latest_ms(following.base_offset, ages),
        )
        for segment, following in pairwise(segments)
    ]
