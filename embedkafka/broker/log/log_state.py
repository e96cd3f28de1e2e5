"""The state of one log: segments, producers and epochs, and the offsets that bound them.

Owner: the log's lock; `log.log` and `cleanable.CleanableLog` hold it when they call.
Invariants: log start <= high watermark <= log end; the last stable offset is never above the high
watermark; a batch counts (moves the log end) only once the file holds all of it. All segments that
end at or below the recovery point are on disk, with their indexes: only a sync raises it.
Not here: the lock and the handling of OSErrors (`guard`), files (`local_log`), validation of
appends (`validation`), searches (`reads`).
"""

import logging
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from embedkafka.broker.log.append_info import AppendInfo, UnexpectedAppendOffset, duplicate_of
from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.environment import LogEnvironment
from embedkafka.broker.log.epoch_cache import EpochCache
from embedkafka.broker.log.files import checkpoints
from embedkafka.broker.log.files.record_ages import PartitionAges
from embedkafka.broker.log.files.segment import Segment
from embedkafka.broker.log.loader import Loader, rebuild_producers
from embedkafka.broker.log.local_log import LocalLog
from embedkafka.broker.log.producers.entry import AppendOrigin
from embedkafka.broker.log.producers.state import ProducerState, ProducerStateConfig
from embedkafka.broker.log.retention import find_expired
from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.files import sync_all
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.wire_types import MAX_LONG
from embedkafka.wire.records.batch import Batch

_LOG = logging.getLogger(__name__)

MAX_OFFSET: Final = MAX_LONG


class Unsynced(NamedTuple):
    """Files to sync. Afterwards all batches below `end_offset` are on disk."""

    paths: Sequence[Path]
    end_offset: int
    truncations: int


class LogState:
    """The state of a log; callers hold the log's lock."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: Path,
        config: LogConfig,
        environment: LogEnvironment,
        *,
        topic_id: uuid.UUID | None,
        producer_config: ProducerStateConfig,
        on_storage_error: Callable[[OSError], object],
        on_rolled: Callable[[], object],
    ) -> None:
        self.topic_partition = topic_partition
        self.config = config
        self.topic_id = topic_id
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.recovery_point = 0
        self.last_flushed_ms = environment.clock.now_ms()
        self.first_unstable_offset: int | None = None
        self.truncations = 0
        self.lowest_truncation = MAX_OFFSET
        self.cleaning_pauses = 0
        self.epochs = EpochCache(environment.files, directory)
        self._all_ages = environment.ages
        self.producers = ProducerState(
            topic_partition,
            environment.files,
            directory,
            producer_config,
            find_shift=lambda offset: self.ages.shift_at(offset),
        )
        self.local = LocalLog(directory, config, environment, on_storage_error)
        self._clock = environment.clock
        self._files = environment.files
        self._on_storage_error = on_storage_error
        self._on_rolled = on_rolled
        self._is_stored = False
        self._stored_topic_id: uuid.UUID | None = None

    @property
    def last_stable_offset(self) -> int:
        unstable = self.first_unstable_offset
        if unstable is not None and unstable < self.high_watermark:
            return unstable
        return self.high_watermark

    @property
    def ages(self) -> PartitionAges:
        """How old the records are, if the clock was moved."""
        return self._all_ages.of(self.topic_id, self.topic_partition)

    # -- opening and closing

    def load(self, *, log_start_offset: int, recovery_point: int, is_clean: bool) -> None:
        """Opens an existing directory; repairs it after an unclean shutdown."""
        self._stored_topic_id = checkpoints.read_topic_id(self._files, self.local.directory)
        self.topic_id = self._stored_topic_id or self.topic_id
        loader = Loader(
            self._files,
            self.local.directory,
            self.epochs,
            self.producers,
            self.local.open_segment,
            now_ms=self._clock.now_ms(),
        )
        loaded = loader.load(
            log_start_offset=log_start_offset, recovery_point=recovery_point, is_clean=is_clean
        )
        self.local.hold(loaded.segments)
        self._is_stored = loaded.is_stored
        self.log_start_offset = self.high_watermark = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self._note_first_unstable()

    def _store(self) -> None:
        """Creates the first files: the topic id and the first segment."""
        self._store_topic_id()
        self.local.active.create()
        self._is_stored = True

    def _store_topic_id(self) -> None:
        if self.topic_id is not None and self.topic_id != self._stored_topic_id:
            checkpoints.write_topic_id(self._files, self.local.directory, self.topic_id)
            self._stored_topic_id = self.topic_id

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        self.topic_id = topic_id
        if self._is_stored:
            self._store_topic_id()

    def flush(self) -> None:
        """Waits until every batch is on disk."""
        if not self._is_stored:
            return
        sync_all(self._files, self.unsynced().paths)
        self.local.active.file.sync()
        self.recovery_point = self.log_end_offset
        self.last_flushed_ms = self._clock.now_ms()

    def unsynced(self) -> "Unsynced":
        """What may not be on disk of the closed segments.

        Recovery rebuilds all that belongs to the active segment but its batches.
        """
        active = self.local.active
        paths: list[Path] = []
        if self.recovery_point <= active.base_offset:
            closed = self.local.segments.since(self.recovery_point)[:-1]
            paths = [path for segment in closed for path in segment.paths]
            directory = self.local.directory
            paths += [
                self.producers.snapshot_path(active.base_offset),
                self.epochs.path,
                directory / checkpoints.PARTITION_METADATA,
                directory,
                directory.parent,
            ]
        return Unsynced(paths, active.base_offset, self.truncations)

    def on_synced(self, synced: "Unsynced") -> None:
        """Raises the recovery point, unless segments have changed since."""
        if synced.truncations == self.truncations:
            self.recovery_point = max(self.recovery_point, synced.end_offset)

    def save(self) -> None:
        """Writes all files, so that a copy of the directory opens without repairs."""
        if self._is_stored:
            self.local.active.save_indexes()
            self.epochs.save()
            self.local.active.trim()
            self.producers.take_snapshot()

    def finish(self) -> None:
        """Writes complete indexes and all other files, for a clean shutdown."""
        if self._is_stored:
            self.local.active.retire()
        self.save()
        self._store_topic_id()
        self.epochs.save()

    def rename(self, directory: Path) -> None:
        self.local.rename(directory)
        self.epochs.move(directory)
        self.producers.move(directory)

    def move_into(self, future: "LogState", directory: Path, *, doomed: Path) -> None:
        """Switches to the files of a complete copy in `directory`; moves the old ones to `doomed`.

        The state of producers and epochs stays.
        """
        former, self.local = self.local, future.local
        self.local.config = self.config
        self.local.on_storage_error = self._on_storage_error
        self._is_stored = future._is_stored
        self._stored_topic_id = future._stored_topic_id
        self.recovery_point = min(self.recovery_point, future.recovery_point)
        self.truncations += 1  # a compaction in progress is now useless
        self.epochs.rewrite(directory)
        self.producers.settle_in(
            directory,
            self._files.names(directory),
            [segment.base_offset for segment in self.local.segments],
        )
        former.rename(doomed)
        former.segments.release()

    # -- appending

    def require_continuation(self, batches: Sequence[Batch]) -> None:
        """Raises `UnexpectedAppendOffset` for batches that do not continue this log."""
        first_offset, last_offset = batches[0].base_offset, batches[-1].last_offset
        expected = self.log_end_offset
        if first_offset < expected <= last_offset and self.log_start_offset == expected:
            # The log is empty and starts in the middle of a batch, which arrives complete.
            self.truncate_fully_and_start_at(first_offset)
            expected = first_offset
        for batch in batches:
            base_offset = batch.base_offset
            if base_offset < expected:
                raise UnexpectedAppendOffset(
                    f"unexpected offset {base_offset} in append to {self.topic_partition}: "
                    f"the next offset is {expected}",
                    first_offset=first_offset,
                    last_offset=last_offset,
                )
            if not base_offset <= batch.last_offset < MAX_OFFSET:
                raise ApiError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"a batch of {self.topic_partition} goes from {base_offset} to "
                    f"{batch.last_offset}",
                )
            expected = batch.next_offset

    def append(
        self,
        data: BytesLike,
        batches: Sequence[Batch],
        origin: AppendOrigin,
        *,
        now_ms: int,
        shift_ms: int | None,
        append_time: int,
    ) -> AppendInfo:
        """Writes batches with assigned offsets, unless an idempotent producer repeats itself.

        `shift_ms` is how far `now_ms` is ahead of the clients' clocks, None if it never was.
        """
        first_offset, last_offset = batches[0].base_offset, batches[-1].last_offset
        max_timestamp = max([batch.max_timestamp for batch in batches])
        if not self._is_stored:
            self._store()
        segment = self.local.active
        aged_ms = 0  # by how much the clock has moved since the segment began
        if shift_ms is not None:
            ages = self.ages
            if origin is not AppendOrigin.REPLICATION:
                ages.note(first_offset, max_timestamp, now_ms=now_ms, shift_ms=shift_ms)
            aged_ms = ages.shift_at(last_offset) - ages.shift_at(segment.base_offset)
        if segment.should_roll(
            self.config,
            size=len(data),
            last_offset=last_offset,
            max_timestamp=max_timestamp + aged_ms,
            now_ms=now_ms,
        ):
            if first_offset > self.log_end_offset:
                # A batch behind a gap that is refused must not leave a segment beyond the gap.
                self.producers.check(batches, origin)
            segment = self.roll(first_offset)
        # Kafka rolls first: a refused or repeated batch may start a segment too.
        checked = self.producers.check(batches, origin)
        if checked.duplicate is not None:
            return duplicate_of(checked.duplicate, batches[0], self.log_start_offset)
        self._note_epochs(batches)
        try:
            segment.append(data, batches)
            for entry in self.producers.index_entries(checked):
                segment.txn_index.append(entry)
        except OSError:
            self._undo_append(segment, first_offset, now_ms)
            raise
        self.log_end_offset = self.producers.map_end_offset = last_offset + 1
        if checked.appends:
            self.producers.commit(checked)
            self._note_first_unstable()
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()
        return AppendInfo(
            first_offset,
            last_offset,
            max_timestamp,
            append_time,
            self.log_start_offset,
            len(data),
            batches[-1].partition_leader_epoch,
        )

    def _note_epochs(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            epoch = batch.partition_leader_epoch
            if epoch >= 0 and epoch != self.epochs.latest_epoch:
                self.epochs.assign(epoch, batch.base_offset)

    def _undo_append(self, segment: Segment, first_offset: int, now_ms: int) -> None:
        """Undoes a failed append; if the disk refuses even that, the caller reports it."""
        for undo in (
            segment.drop_tail,
            lambda: segment.truncate_to(first_offset, now_ms),
            lambda: self.epochs.truncate_from_end(self.log_end_offset),
        ):
            try:
                undo()
            except OSError as error:
                _LOG.warning("Could not undo an append to %s: %s", self.topic_partition, error)

    def roll(self, next_offset: int) -> Segment:
        """Starts a new segment, unless the active one is empty and starts at that offset."""
        active = self.local.active
        next_offset = max(next_offset, self.log_end_offset)
        if active.size == 0 and active.base_offset == next_offset:
            return active
        self.producers.map_end_offset = next_offset
        self.producers.take_snapshot()
        self.epochs.save()
        segment = self.local.roll(next_offset)
        # The batches may be on disk; the indexes, which are complete only now, are not.
        self.recovery_point = min(self.recovery_point, active.base_offset)
        self._on_rolled()
        return segment

    def assign_epoch_start(self, epoch: int, offset: int) -> None:
        """Notes the start of an epoch; a log without files keeps it in memory."""
        self.epochs.assign(epoch, offset)
        if self._is_stored:
            self.epochs.save()

    # -- marks

    def update_high_watermark(self, offset: int) -> int:
        offset = max(self.log_start_offset, min(offset, self.log_end_offset))
        self.high_watermark = offset
        self.producers.on_high_watermark(offset)
        self._note_first_unstable()
        return offset

    def increment_log_start(self, offset: int) -> bool:
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.producers.on_log_start(offset)
        self._note_first_unstable()
        return True

    def _note_first_unstable(self) -> None:
        offset = self.producers.first_unstable_offset
        self.first_unstable_offset = None if offset is None else max(offset, self.log_start_offset)

    # -- truncation and retention

    def truncate_to(self, offset: int) -> bool:
        """Drops every record from `offset` on; returns whether there were any."""
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        _LOG.info("Truncating %s to offset %d", self.topic_partition, offset)
        if self.local.segments.first.base_offset > offset:
            self.truncate_fully_and_start_at(offset)
        else:
            self._truncate(offset)
        return True

    def _truncate(self, offset: int) -> None:
        self._note_truncation(offset)
        gone = self.local.truncate(offset)
        self.producers.remove_snapshots([segment.base_offset for segment in gone])
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.epochs.truncate_from_end(offset)
        self.epochs.save()
        rebuild_producers(
            self.producers,
            tuple(self.local.segments),
            self.log_start_offset,
            offset,
            now_ms=self._clock.now_ms(),
        )
        self.high_watermark = min(self.high_watermark, offset)
        # Replayed transactions count as not replicated, although their markers may be.
        self.producers.on_high_watermark(self.high_watermark)
        self._note_first_unstable()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drops all records; the log then starts and ends at `offset`."""
        self._note_truncation(offset)
        _LOG.info("Truncating %s fully, to start at offset %d", self.topic_partition, offset)
        if not self._is_stored:
            self._store()
        self._delete_segments(tuple(self.local.segments))
        self.local.start_at(offset)
        self.epochs.clear()
        self.epochs.save()
        self.producers.truncate_fully_and_start_at(offset)
        self.log_start_offset = self.log_end_offset = self.high_watermark = offset
        self.recovery_point = min(self.recovery_point, offset)
        self._note_first_unstable()

    def delete_old_segments(self) -> int:
        """Deletes the segments that retention releases; returns their number."""
        segments = tuple(self.local.segments)
        expired = find_expired(
            self.local.views(self.log_end_offset, self.ages),
            self.config,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            now_ms=self._clock.now_ms(),
        )
        if not expired.count:
            return 0
        gone = segments[: expired.count]
        _LOG.info("Deleting %d segments of %s: %s", len(gone), self.topic_partition, expired.reason)
        if len(gone) == len(segments):
            self.roll(self.log_end_offset)
        self._delete_segments(gone)
        self.increment_log_start(self.local.segments.first.base_offset)
        return len(gone)

    def _delete_segments(self, segments: Sequence[Segment]) -> None:
        self.local.delete(segments)
        self.producers.remove_snapshots([segment.base_offset for segment in segments])

    def _note_truncation(self, offset: int) -> None:
        self.truncations += 1
        self.lowest_truncation = min(self.lowest_truncation, offset)
