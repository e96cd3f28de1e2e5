"""Compaction of logs: picks the dirtiest one, rewrites its segments, swaps them in.

The dirty part of a log begins where the last compaction ended (`cleaner-offset-checkpoint`). It
ends before the active segment, the last stable offset, and records younger than
`min.compaction.lag.ms`. A log is compacted when its dirty part is a large enough share of it, or
older than `max.compaction.lag.ms`.

Compaction proceeds in steps, so that throttling does not block its thread: it is a generator that
yields the bytes it has read or written.

Owner: the thread that takes the steps of `clean` owns that pass; several passes may run at once.
`_lock` (leaf) guards checkpoints, and the sets of logs being cleaned and uncleanable. `_writing`
lets one thread at a time write a checkpoint file: a topic may be deleted during a compaction.
Invariants: segments are read without the log's lock and replaced under it, and only if they have
not changed; a failed log stays unchanged and is not tried again.
Not here: which records stay (`compaction`), and threads (`threads`).
"""

import logging
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from embedkafka.broker.log.cleanable import CleaningView, SegmentToClean
from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.files import checkpoints
from embedkafka.broker.log.files.checkpoints import CorruptCheckpoint
from embedkafka.broker.log.files.segment import Segment
from embedkafka.broker.log.files.txn_index import AbortedTransaction
from embedkafka.broker.log.log import Log
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.files import Files
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import Batch, RecordBatch, read_batches

if TYPE_CHECKING:
    from embedkafka.broker.log.cleaning.compaction import CleanedTransactions, Compaction, OffsetMap

_LOG = logging.getLogger(__name__)

CLEANER_CHECKPOINT_RANK: Final = 27

# The size of an entry in Kafka's map, so that a buffer size means the same number of keys here.
_BYTES_PER_KEY: Final = 24
_WRITE_SIZE: Final = 1024 * 1024
_MAX_OFFSETS: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """The broker's settings for compaction, under Kafka's names."""

    log_cleaner_enable: bool = True
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = 128 * 1024 * 1024
    log_cleaner_io_buffer_load_factor: float = 0.9
    log_cleaner_io_max_bytes_per_second: float = sys.float_info.max
    log_cleaner_threads: int = 1

    @property
    def max_keys(self) -> int:
        """The number of keys one thread may remember."""
        return max(int(self._slots * self.log_cleaner_io_buffer_load_factor), 1)

    @property
    def _slots(self) -> int:
        threads = max(self.log_cleaner_threads, 1)
        return self.log_cleaner_dedupe_buffer_size // threads // _BYTES_PER_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    """A log, the start of its dirty part, and the start of the part not yet cleanable."""

    log: Log
    view: CleaningView
    first_dirty_offset: int
    first_uncleanable_offset: int

    @property
    def dirty_segments(self) -> Sequence[SegmentToClean]:
        return [
            segment
            for segment in self.view.segments
            if segment.end_offset > self.first_dirty_offset
            and segment.base_offset < self.first_uncleanable_offset
        ]

    @property
    def cleanable_bytes(self) -> int:
        return sum(segment.size for segment in self.dirty_segments)

    @property
    def cleanable_ratio(self) -> float:
        clean_bytes = sum(
            segment.size
            for segment in self.view.segments
            if segment.base_offset < self.first_dirty_offset
        )
        total = clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0


class Cleaner:
    """Compacts the logs that `find_logs` returns, one after the other."""

    def __init__(
        self,
        find_logs: Callable[[], Iterable[Log]],
        *,
        clock: Clock,
        files: Files,
        config: CleanerConfig,
        on_storage_error: Callable[[Path, OSError], None],
    ) -> None:
        self._find_logs = find_logs
        self._clock = clock
        self._files = files
        self.config = config
        """May be replaced at any time; the next pass uses it."""
        self._on_storage_error = on_storage_error
        self._lock = ranked_lock("cleaner", LEAF_RANK)
        self._writing = ranked_lock("cleaner checkpoint", CLEANER_CHECKPOINT_RANK)
        self._checkpoints: dict[Path, dict[TopicPartition, int]] = {}
        self._under_way: set[Log] = set()
        self._uncleanable: set[Log] = set()

    def load_checkpoint(self, directory: Path) -> None:
        """Reads the offsets up to which the logs of a directory were compacted."""
        try:
            offsets = checkpoints.read_offsets(
                self._files, directory / checkpoints.CLEANER_CHECKPOINT
            )
        except CorruptCheckpoint as corrupt:
            _LOG.warning("Compaction starts from the beginning: %s", corrupt)
            offsets = {}
        with self._lock:
            self._checkpoints[directory] = offsets

    def forget(self, log: Log) -> None:
        """Forgets a deleted log: the next one of that name starts all dirty."""
        directory = log.directory.parent
        with self._lock:
            offsets = self._checkpoints.get(directory, {})
            was_known = offsets.pop(log.topic_partition, None) is not None
            self._uncleanable.discard(log)
        if was_known:
            self._write_checkpoint(directory)

    def alter_checkpoint_dir(self, log: Log, source: Path) -> None:
        """Notes that a log has moved from `source`: it is as clean as it was there."""
        directory = log.directory.parent
        with self._lock:
            offset = self._checkpoints.get(source, {}).pop(log.topic_partition, None)
            offsets = self._checkpoints.setdefault(directory, {})
            offsets.pop(log.topic_partition, None)
            if offset is not None:
                offsets[log.topic_partition] = offset
        self._write_checkpoint(source)
        self._write_checkpoint(directory)

    def truncate_checkpoint(self, log: Log, offset: int) -> None:
        """Notes on disk that a log was truncated: after a restart, it is dirty from `offset` on."""
        directory = log.directory.parent
        with self._lock:
            offsets = self._checkpoints.get(directory, {})
            was_clean = offsets.get(log.topic_partition, 0) > offset
            if was_clean:
                offsets[log.topic_partition] = offset
        if was_clean:
            self._write_checkpoint(directory)

    @property
    def uncleanable(self) -> frozenset[TopicPartition]:
        """The partitions whose compaction failed; they are not tried again."""
        with self._lock:
            return frozenset(log.topic_partition for log in self._uncleanable)

    def find_filthiest(self) -> LogToClean | None:
        """The log to compact next, if any is dirty enough."""
        with self._lock:
            left_out = self._under_way | self._uncleanable
        candidates = [
            candidate
            for log in self._find_logs()
            if log.config.compacts and log not in left_out
            if (candidate := self._try_judge(log)) is not None
        ]
        return max(candidates, key=lambda candidate: candidate.cleanable_ratio, default=None)

    def clean(self) -> "Steps[None]":
        """Compacts the logs that are dirty enough, the dirtiest first; yields the bytes moved."""
        while (chosen := self.find_filthiest()) is not None:
            if not (yield from self._try_clean(chosen)):
                return

    def clean_filthiest(self) -> bool:
        """Compacts one log; returns whether to look for another."""
        chosen = self.find_filthiest()
        return chosen is not None and _run(self._try_clean(chosen))

    def clean_now(self, log: Log) -> None:
        """Compacts `log` however clean it is, as far as `min.compaction.lag.ms` allows.

        The clean part is rewritten too, without tombstones whose time is over.
        """
        chosen = self._examine(log)
        if chosen.view.segments and not chosen.view.is_paused:
            _run(self._try_clean(chosen))

    def _try_clean(self, chosen: LogToClean) -> "Steps[bool]":
        """Compacts a log; returns whether to look for another. Raises what our bugs raise."""
        log = chosen.log
        with self._lock:
            if log in self._under_way:
                return True  # another thread was quicker
            self._under_way.add(log)
        try:
            end_offset = yield from self._clean(chosen)
        except _LogChanged:
            _LOG.info("%s changed or was paused during compaction", log.topic_partition)
            return False
        except ApiError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                return (
                    log.is_closed
                )  # else it has reported its disk; perhaps the next pass succeeds
            self._note_uncleanable(log, error)
            return True
        except OSError as error:
            if not log.is_closed:
                self._on_storage_error(log.directory.parent, error)
            return False
        except Exception as error:
            self._note_uncleanable(log, error)
            raise
        finally:
            with self._lock:
                self._under_way.discard(log)
        self._note_cleaned(chosen, end_offset)
        return True

    def _note_uncleanable(self, log: Log, error: Exception) -> None:
        _LOG.error("%s cannot be compacted: %s", log.topic_partition, error)
        with self._lock:
            self._uncleanable.add(log)

    # -- what to clean

    def _try_judge(self, log: Log) -> LogToClean | None:
        try:
            return self._judge(log)
        except ApiError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                self._note_uncleanable(log, error)
            return None  # the log was closed, or has reported its failed disk
        except Exception as error:
            self._note_uncleanable(log, error)
            raise

    def _examine(self, log: Log) -> LogToClean:
        view = log.cleanable.view()
        first_dirty = self._first_dirty_offset(log, view)
        return LogToClean(
            log=log,
            view=view,
            first_dirty_offset=first_dirty,
            first_uncleanable_offset=_first_uncleanable(
                view, log.config, first_dirty, self._clock.now_ms()
            ),
        )

    def _judge(self, log: Log) -> LogToClean | None:
        candidate = self._examine(log)
        now_ms = self._clock.now_ms()
        if candidate.view.is_paused or not candidate.cleanable_bytes:
            return None
        is_dirty = candidate.cleanable_ratio > log.config.min_cleanable_dirty_ratio
        return candidate if is_dirty or _is_overdue(candidate, now_ms) else None

    def _first_dirty_offset(self, log: Log, view: CleaningView) -> int:
        with self._lock:
            offsets = self._checkpoints.get(log.directory.parent, {})
            cleaned = offsets.get(log.topic_partition, view.log_start_offset)
        cleaned = min(cleaned, view.lowest_truncation)
        if not view.log_start_offset <= cleaned <= view.log_end_offset:
            return view.log_start_offset
        return cleaned

    # -- cleaning

    def _clean(self, chosen: LogToClean) -> "Steps[int]":
        """Rewrites the log; returns the offset up to which it is now clean."""
        from embedkafka.broker.log.cleaning.compaction import (  # few do
            CleanedTransactions,
            Compaction,
        )

        log = chosen.log
        aborted = log.cleanable.aborted_transactions()
        offsets = yield from self._map_offsets(chosen, aborted)
        compaction = Compaction(
            offsets=offsets,
            now_ms=self._clock.now_ms(),
            delete_retention_ms=log.config.delete_retention_ms,
            last_records=chosen.view.last_records,
            end_offset=chosen.first_uncleanable_offset,
        )
        transactions = CleanedTransactions(aborted)
        covered = [
            segment
            for segment in chosen.view.segments
            if segment.base_offset <= offsets.latest_offset
        ]
        for group in group_by_size(covered, log.config):
            old = [part.segment for part in group]
            new = yield from _rewrite(log, old, compaction, transactions)
            if not log.cleanable.replace(new, old, truncations=chosen.view.truncations):
                new.remove()
                raise _LogChanged
        _LOG.info("Compacted %s up to offset %d", log.topic_partition, offsets.latest_offset)
        return offsets.latest_offset + 1

    def _map_offsets(
        self, chosen: LogToClean, aborted: Sequence[AbortedTransaction]
    ) -> "Steps[OffsetMap]":
        """The newest offset of each key, from the first dirty offset as far as the map has room.

        There is always room for one batch: without progress the cleaner would try forever.
        """
        from embedkafka.broker.log.cleaning.compaction import (  # as above
            CleanedTransactions,
            OffsetMap,
        )

        start_offset = chosen.first_dirty_offset
        offsets = OffsetMap(self.config.max_keys, latest_offset=start_offset - 1)
        transactions = CleanedTransactions(aborted)
        for part in chosen.dirty_segments:
            for batch in _batches(chosen.log, part.segment):
                if isinstance(batch, RecordBatch) and batch.is_control:
                    transactions.is_last_of_its_transaction(batch)
                elif not transactions.is_aborted(batch) and not offsets.put(
                    batch, start_offset, is_first=offsets.latest_offset < start_offset
                ):
                    return offsets
                if batch.last_offset >= start_offset:
                    offsets.latest_offset = batch.last_offset
                yield batch.size_in_bytes
            # Offsets missing at the end of a segment are clean as well.
            offsets.latest_offset = part.end_offset - 1
        return offsets

    # -- checkpoints

    def _note_cleaned(self, cleaned: LogToClean, end_offset: int) -> None:
        directory = cleaned.log.directory.parent
        with self._lock:
            if cleaned.log.is_closed:
                return  # just deleted: the next log of that name starts all dirty
            offsets = self._checkpoints.setdefault(directory, {})
            offsets[cleaned.log.topic_partition] = end_offset
        cleaned.log.cleanable.forget_truncations(cleaned.view.truncations)
        self._write_checkpoint(directory)

    def _write_checkpoint(self, directory: Path) -> None:
        try:
            with self._writing:
                with self._lock:
                    offsets = dict(self._checkpoints.get(directory, {}))
                checkpoints.write_offsets(
                    self._files, directory / checkpoints.CLEANER_CHECKPOINT, offsets
                )
        except OSError as error:
            self._on_storage_error(directory, error)


T = TypeVar("T")
Steps = Generator[int, None, T]


def _run(steps: Steps[T]) -> T:
    """Takes all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class _LogChanged(Exception):
    """Segments that were read are no longer in the log, or compaction is paused."""


def group_by_size(
    segments: Sequence[SegmentToClean], config: LogConfig
) -> list[list[SegmentToClean]]:
    """Runs of segments that together fit into one segment."""
    groups: list[list[SegmentToClean]] = []
    size = 0
    for segment in segments:
        if (
            groups
            and size + segment.size <= config.segment_bytes
            and segment.end_offset - groups[-1][0].base_offset <= _MAX_OFFSETS
        ):
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups


def _first_uncleanable(
    view: CleaningView, config: LogConfig, first_dirty_offset: int, now_ms: int
) -> int:
    """The base offset of the first segment that must not be cleaned."""
    youngest = now_ms - max(config.min_compaction_lag_ms, 0)
    for segment in view.segments:
        is_too_young = (
            config.min_compaction_lag_ms > 0
            and segment.end_offset > first_dirty_offset
            and segment.latest_ms > youngest
        )
        if is_too_young or segment.end_offset > view.last_stable_offset:
            return segment.base_offset
    return view.segments[-1].end_offset if view.segments else first_dirty_offset


def _is_overdue(candidate: LogToClean, now_ms: int) -> bool:
    """Whether dirty records are older than `max.compaction.lag.ms` allows."""
    latest_start = now_ms - max(candidate.log.config.max_compaction_lag_ms, 0)
    return any(0 < part.first_ms < latest_start for part in candidate.dirty_segments)


def _rewrite(
    log: Log,
    old: Sequence[Segment],
    compaction: "Compaction",
    transactions: "CleanedTransactions",
) -> "Steps[Segment]":
    """Writes a new segment with the retained records of the old ones."""
    new = log.cleanable.new_segment(old[0].base_offset)
    try:
        pending = bytearray()
        for segment in old:
            for batch in _batches(log, segment):
                kept = compaction.clean(batch, transactions) or b""
                pending += kept
                yield batch.size_in_bytes + len(kept)
                if len(pending) >= _WRITE_SIZE:
                    _append_all(new, pending)
                    pending = bytearray()
        _append_all(new, pending)
        for txn in transactions.retained:
            new.txn_index.append(txn)
        transactions.retained.clear()
        new.retire()
        new.sync()  # recovery trusts it if it trusted the originals
    except BaseException:  # also when the generator is closed
        new.remove()
        raise
    return new


def _batches(log: Log, segment: Segment) -> Iterator[Batch]:
    batches = log.cleanable.find_batches(segment)
    if batches is None:
        raise _LogChanged
    return batches


def _append_all(segment: Segment, data: bytearray) -> None:
    if data:
        segment.append(data, list(read_batches(data)))
