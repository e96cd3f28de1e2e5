"""Opens a log directory: undoes unfinished work and repairs damage.

It removes leftovers of deletions and of interrupted compactions, and puts finished compactions in
place. After an unclean shutdown it checks every batch past the recovery point: the log ends before
the first invalid one. It rebuilds missing, short or wrong indexes from the batches, as well as
producer state and epochs.

Owner: the loading thread; no other thread sees the log yet.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from embedkafka.broker.log.epoch_cache import EpochCache
from embedkafka.broker.log.files.index_file import CorruptIndex
from embedkafka.broker.log.files.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
)
from embedkafka.broker.log.local_log import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from embedkafka.broker.log.producers.entry import AppendOrigin
from embedkafka.broker.log.producers.state import ProducerState
from embedkafka.runtime.files import Files
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ApiError
from embedkafka.wire.records.batch import Batch, RecordBatch

_LOG = logging.getLogger(__name__)

_INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLog:
    """A loaded or new log; it has no segment file unless `is_stored`."""

    segments: Sequence[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    is_stored: bool


class Loader:
    """Loads one log directory."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        epochs: EpochCache,
        producers: ProducerState,
        open_segment: Callable[[int, str], Segment],
        *,
        now_ms: int,
    ) -> None:
        self._files = files
        self._directory = directory
        self._epochs = epochs
        self._producers = producers
        self._open_segment = open_segment
        self._now_ms = now_ms

    def load(self, *, log_start_offset: int, recovery_point: int, is_clean: bool) -> LoadedLog:
        """Loads the log with the given checkpoints; `is_clean` after a clean shutdown."""
        self._finish_swaps()
        if not self._epochs.load():
            recovery_point, is_clean = 0, False  # the batches tell the epochs
        segments = self._load_segments()
        self._producers.find_snapshots(
            self._files.names(self._directory), [segment.base_offset for segment in segments]
        )
        segments = self._repair(
            segments,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            is_clean=is_clean,
        )
        end_offset = _next_offset(segments[-1]) if segments else log_start_offset
        if end_offset < log_start_offset:
            _LOG.error(
                "%s ends at %d, before its log start offset %d; removing its segments",
                self._directory,
                end_offset,
                log_start_offset,
            )
            for segment in segments:
                segment.remove()
            segments, end_offset = [], log_start_offset
        is_stored = bool(segments) or log_start_offset > 0
        if not segments:
            segments = [self._open_segment(log_start_offset, "")]
            segments[0].create() if is_stored else segments[0].begin()
        start_offset = max(log_start_offset, segments[0].base_offset)
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(start_offset)
        self._epochs.save()
        rebuild_producers(self._producers, segments, start_offset, end_offset, now_ms=self._now_ms)
        return LoadedLog(
            segments=segments,
            log_start_offset=start_offset,
            log_end_offset=end_offset,
            recovery_point=min(recovery_point, end_offset),
            is_stored=is_stored,
        )

    # -- leftovers

    def _finish_swaps(self) -> None:
        """Removes deleted and unfinished files; puts finished replacements in place."""
        names = self._files.names(self._directory)
        unfinished = [_base_offset(name) for name in names if name.endswith(CLEANED_SUFFIX)]
        limit = min(unfinished, default=None)
        swaps: list[str] = []
        for name in names:
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX)):
                self._remove(name)
            elif name.endswith(SWAP_SUFFIX):
                # A replacement is not valid before its siblings are finished.
                if limit is not None and _base_offset(name) >= limit:
                    self._remove(name)
                else:
                    swaps.append(name)
        self._replace_swapped(swaps)

    def _replace_swapped(self, swaps: Sequence[str]) -> None:
        ranges: list[tuple[int, int]] = []
        for name in swaps:
            if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                segment = self._open_segment(_base_offset(name), SWAP_SUFFIX)
                segment.load()
                ranges.append((segment.base_offset, _next_offset(segment)))
                segment.release()
        if ranges:
            low, high = min(start for start, _ in ranges), max(end for _, end in ranges)
            for name in self._files.names(self._directory):
                if name.endswith(SUFFIXES) and low <= _base_offset(name) < high:
                    self._remove(name)
        for name in swaps:
            final = name.removesuffix(SWAP_SUFFIX)
            self._files.rename(self._directory / name, self._directory / final)

    def _remove(self, name: str) -> None:
        _LOG.info("Removing leftover %s in %s", name, self._directory)
        self._files.remove(self._directory / name)

    # -- segments

    def _load_segments(self) -> list[Segment]:
        names = set(self._files.names(self._directory))
        segments: list[Segment] = []
        for name in sorted(names):
            if name.endswith(LOG_SUFFIX):
                segment = self._open_segment(_base_offset(name), "")
                segment.load()
                segments.append(segment)
            elif name.endswith(_INDEX_SUFFIXES):
                owner = name[: name.rindex(".")] + LOG_SUFFIX
                if owner not in names:
                    _LOG.warning("Found an orphaned index file %s in %s", name, self._directory)
                    self._files.remove(self._directory / name)
        return segments

    def _repair(
        self,
        segments: list[Segment],
        *,
        log_start_offset: int,
        recovery_point: int,
        is_clean: bool,
    ) -> list[Segment]:
        """Checks batches that may not have reached the disk, and rebuilds wrong indexes.

        Past the recovery point, the log ends at the first bad batch.
        """
        for number, segment in enumerate(segments):
            following = segments[number + 1 :]
            was_flushed = bool(following) and following[0].base_offset <= recovery_point
            is_trusted = is_clean or was_flushed
            problem = _index_problem(self._files, segment) if is_trusted else "unclean shutdown"
            if problem is None:
                continue
            _LOG.info("Recovering %s: %s", segment.path, problem)
            truncated = self._recover_segment(segment, segments, log_start_offset)
            if truncated and not is_trusted:
                _LOG.warning(
                    "Cut %d bytes off %s; %d later segments go with them",
                    truncated,
                    segment.path,
                    len(following),
                )
                for later in following:
                    later.remove()
                return segments[: number + 1]
        return segments

    def _recover_segment(
        self, segment: Segment, segments: Sequence[Segment], log_start_offset: int
    ) -> int:
        """Rebuilds the indexes of a segment; returns the number of invalid bytes."""
        earlier = [other for other in segments if other.base_offset < segment.base_offset]
        rebuild_producers(
            self._producers,
            earlier,
            min(log_start_offset, segment.base_offset),
            segment.base_offset,
            now_ms=self._now_ms,
        )
        return recover_segment(segment, self._epochs, self._producers)


def recover_segment(segment: Segment, epochs: EpochCache, producers: ProducerState) -> int:
    """Reads and indexes every batch of `segment`; returns the bytes cut off its end."""
    segment.reset_indexes()
    position = 0
    next_offset = segment.base_offset
    try:
        for batch in segment.batches():
            batch.ensure_valid()
            if batch.last_offset < next_offset or not segment.fits(batch.last_offset):
                _LOG.warning("%s: offset %d is out of place", segment.path, batch.last_offset)
                break
            segment.index_batch(batch, position)
            _note_producers(batch, segment, producers)
            if batch.partition_leader_epoch > epochs.latest_epoch:
                epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            position += batch.size_in_bytes
            next_offset = batch.next_offset
    except ApiError as error:
        _LOG.warning("%s: no valid batch at position %d: %s", segment.path, position, error)
    truncated = segment.size - position
    if truncated:
        segment.cut(position)
    segment.retire()
    return truncated


def rebuild_producers(
    producers: ProducerState,
    segments: Sequence[Segment],
    log_start_offset: int,
    end_offset: int,
    *,
    now_ms: int,
) -> None:
    """Rebuilds producer state up to `end_offset`: the last snapshot before it, then the batches."""
    was_empty = producers.is_empty and producers.map_end_offset >= end_offset
    producers.truncate_and_reload(log_start_offset, end_offset, now_ms=now_ms)
    if producers.map_end_offset < end_offset and not was_empty:
        for number, segment in enumerate(segments):
            following = segments[number + 1 :]
            if following and following[0].base_offset <= producers.map_end_offset:
                continue
            if segment.base_offset >= end_offset:
                break
            start = max(segment.base_offset, producers.map_end_offset, log_start_offset)
            producers.map_end_offset = start
            _replay_segment(segment, producers, start, end_offset)
    producers.map_end_offset = end_offset
    producers.take_snapshot()


def _replay_segment(
    segment: Segment, producers: ProducerState, start_offset: int, end_offset: int
) -> None:
    first = segment.find_batch(start_offset)
    if first is None:
        return
    for batch in segment.batches(first.position):
        if not isinstance(batch, RecordBatch):
            continue  # it has no producer, and a wrapper's first offset may be unreadable
        if batch.base_offset >= end_offset:
            return
        producers.commit(producers.check((batch,), AppendOrigin.REPLICATION))


def _note_producers(batch: Batch, segment: Segment, producers: ProducerState) -> None:
    checked = producers.check((batch,), AppendOrigin.REPLICATION)
    for entry in producers.index_entries(checked):
        segment.txn_index.append(entry)
    producers.commit(checked)
    producers.map_end_offset = batch.next_offset


def _index_problem(files: Files, segment: Segment) -> str | None:
    """Why the indexes of `segment` cannot be trusted, or None."""
    for index in (segment.offset_index.file, segment.time_index.file):
        if not files.exists(index.path):
            return f"{index.path.name} is missing"
    try:
        segment.offset_index.check()
        segment.time_index.check()
        segment.txn_index.check()
    except CorruptIndex as corrupt:
        return str(corrupt)
    if segment.offset_index.last().position >= max(segment.size, 1):
        return f"{segment.offset_index.file.path.name} points past the end"
    return None


def _next_offset(segment: Segment) -> int:
    """The offset after the last batch of `segment`."""
    last = segment.offset_index.last()
    next_offset = segment.base_offset
    for batch in segment.batches(last.position):
        next_offset = batch.next_offset
    return next_offset


def _base_offset(name: str) -> int:
    return int(name[: name.index(".")])
