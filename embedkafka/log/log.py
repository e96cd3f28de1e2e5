"""One replica's log: segments, the offsets that bound it, producers and epochs.

Owner: `Log._lock` (rank 30) guards everything; the public offsets are plain attributes, written
under the lock and read by anyone.
Invariants: log start <= high watermark <= log end; the last stable offset is never above the high
watermark; a batch counts (moves the log end) only when it is in the file whole.
Not here: leaders, followers and acknowledgements (`replica`); compaction (`cleaner`); which logs
there are (`manager`).
"""

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from embedkafka.log import checkpoints
from embedkafka.log.append_info import UNKNOWN, AppendInfo, UnexpectedAppendOffset
from embedkafka.log.cleaning_view import CleaningView, segments_to_clean
from embedkafka.log.config import LogConfig
from embedkafka.log.copies import CopiedLog, copy_log
from embedkafka.log.epoch_cache import EpochCache, EpochEndOffset
from embedkafka.log.loader import Loader, rebuild_producers
from embedkafka.log.local_log import CLEANED_SUFFIX, LocalLog
from embedkafka.log.ports import Tasks
from embedkafka.log.producer_entry import BatchMetadata
from embedkafka.log.producer_state import ActiveProducer, AppendOrigin, ProducerState
from embedkafka.log.reads import (
    FetchDataInfo,
    FetchIsolation,
    LogOffsetMetadata,
    Records,
    TimestampAndOffset,
    find_by_timestamp,
    find_latest,
    find_segment_offsets,
    locate,
    read_segments,
)
from embedkafka.log.retention import find_expired
from embedkafka.log.segment import Segment
from embedkafka.log.txn_index import AbortedTransaction
from embedkafka.log.validation import (
    RecordError,
    RecordsRejected,
    assign_offsets,
    read_valid_batches,
)
from embedkafka.log.verification import Verification
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.records.batch import Batch
from embedkafka.records.record import BytesLike
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.files import Files, is_disk_failure
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.locks import LOG_RANK, ranked_lock

__all__ = [
    "AbortedTransaction",
    "AppendInfo",
    "AppendOrigin",
    "EpochEndOffset",
    "FetchDataInfo",
    "FetchIsolation",
    "Log",
    "LogConfig",
    "LogOffsetMetadata",
    "RecordError",
    "Records",
    "RecordsRejected",
    "TimestampAndOffset",
    "UnexpectedAppendOffset",
    "Verification",
]

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

MAX_OFFSET: Final = 2**63 - 1
DEFAULT_PRODUCER_EXPIRATION_MS: Final = 24 * 60 * 60 * 1000


class Log:
    """A log directory, opened."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: Path,
        config: LogConfig,
        *,
        clock: Clock,
        files: Files,
        scheduler: Tasks,
        random: Random,
        topic_id: uuid.UUID | None = None,
        producer_expiration_ms: int = DEFAULT_PRODUCER_EXPIRATION_MS,
        verifies_transactions: bool = False,
        on_storage_error: Callable[[OSError], None] | None = None,
        lock_rank: int = LOG_RANK,
    ) -> None:
        """A copy that is filled while the log's lock is held has a `lock_rank` above it."""
        self.topic_partition = topic_partition
        self.config = config
        self.topic_id = topic_id
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.recovery_point = 0
        self.last_flushed_ms = clock.now_ms()
        self._clock = clock
        self._files = files
        self._on_storage_error = on_storage_error
        self._lock = ranked_lock(f"log {topic_partition}", lock_rank)
        self._epochs = EpochCache(files, directory)
        self._producers = ProducerState(
            topic_partition,
            files,
            directory,
            expiration_ms=producer_expiration_ms,
            verifies_transactions=verifies_transactions,
        )
        self._local = LocalLog(
            directory,
            config,
            clock=clock,
            files=files,
            scheduler=scheduler,
            random=random,
            on_storage_error=self._storage_error,
        )
        self._first_unstable_offset: int | None = None
        self._is_stored = False
        self._stored_topic_id: uuid.UUID | None = None
        self._is_closed = False
        self._truncations = 0
        self._lowest_truncation = MAX_OFFSET

    def __repr__(self) -> str:
        return (
            f"Log({self.topic_partition}, start={self.log_start_offset}, "
            f"high_watermark={self.high_watermark}, end={self.log_end_offset})"
        )

    @property
    def directory(self) -> Path:
        return self._local.directory

    # -- opening and closing

    def create(self) -> None:
        """Makes an empty log in a new directory.

        There are no files in it before the first batch or a proper end: one costs up to a
        millisecond, and of a topic's many partitions most may stay empty.
        """
        with self._lock:
            self._local.begin()

    def _store(self) -> None:
        """Makes the first files: whose log this is, and the first segment."""
        self._store_topic_id()
        self._local.active.create()
        self._is_stored = True

    def _store_topic_id(self) -> None:
        if self.topic_id is not None and self.topic_id != self._stored_topic_id:
            checkpoints.write_topic_id(self._files, self.directory, self.topic_id)
            self._stored_topic_id = self.topic_id

    def load(
        self, *, log_start_offset: int = 0, recovery_point: int = 0, is_clean: bool = False
    ) -> None:
        """Opens the directory as it is, and repairs it unless it was closed properly."""
        with self._lock:
            self._stored_topic_id = checkpoints.read_topic_id(self._files, self.directory)
            self.topic_id = self._stored_topic_id or self.topic_id
            loader = Loader(
                self._files,
                self.directory,
                self._epochs,
                self._producers,
                self._local.open_segment,
                now_ms=self._clock.now_ms(),
            )
            loaded = loader.load(
                log_start_offset=log_start_offset,
                recovery_point=recovery_point,
                is_clean=is_clean,
            )
            self._local.hold(loaded.segments)
            self._is_stored = loaded.is_stored
            self.log_start_offset = self.high_watermark = loaded.log_start_offset
            self.log_end_offset = loaded.log_end_offset
            self.recovery_point = loaded.recovery_point
            self._note_first_unstable()

    def flush(self, *, sync: bool = False) -> None:
        """Brings every file up to date, and with `sync` onto the disk itself."""
        self._guarded(lambda: self._flush(sync=sync))

    def close(self) -> None:
        """Leaves the directory in order: complete indexes and a snapshot of the producers."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                if self._is_stored:
                    self._local.active.retire()
                    self._flush(sync=False)
                    self._producers.take_snapshot()
                self._store_topic_id()
                self._epochs.save()
            finally:
                self._local.segments.release()

    def copy_to(self, directory: Path) -> CopiedLog | None:
        """Leaves a copy in another directory, in order as `close` would; None when it is closed."""
        with self._lock:
            if self._is_closed:
                return None
            if self._is_stored:
                self._flush(sync=False)
                self._producers.take_snapshot()
            copy_log(self._files, self.directory, directory)
            return CopiedLog(
                log_start_offset=self.log_start_offset,
                high_watermark=self.high_watermark,
                log_end_offset=self.log_end_offset,
            )

    def kill(self) -> None:
        """Lets go of all files as they are, like a process that dies."""
        with self._lock:
            self._is_closed = True
            self._local.segments.release()

    def rename_directory(self, directory: Path) -> None:
        """Moves the log to another name in the same log directory."""

        def rename() -> None:
            self._local.rename(directory)
            self._epochs.move(directory)
            self._producers.move(directory)

        self._guarded(rename)

    def move_into(
        self,
        future: "Log",
        directory: Path,
        *,
        doomed: Path,
        catch_up: Callable[[], None],
        on_storage_error: Callable[[OSError], None],
    ) -> None:
        """Goes on with the files of `future`, a copy of this log, in `directory`.

        `catch_up` completes the copy, now that nobody else can write. The former files are left
        in `doomed`. What is known of producers and epochs stays known.
        """

        def move() -> None:
            catch_up()
            future.rename_directory(directory)
            former, self._local = self._local, future._local
            self._local.config = self.config
            self._local.on_storage_error = self._storage_error
            self._on_storage_error = on_storage_error
            self._is_stored = future._is_stored
            self._stored_topic_id = future._stored_topic_id
            self.recovery_point = min(self.recovery_point, future.recovery_point)
            self._truncations += 1  # what is being compacted is of no use any more
            self._epochs.rewrite(directory)
            self._producers.settle_in(
                directory,
                self._files.names(directory),
                [segment.base_offset for segment in self._local.segments],
            )
            former.rename(doomed)
            former.segments.release()

        self._guarded(move)

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """Names the topic, for a log that was made without its id."""

        def assign() -> None:
            self.topic_id = topic_id
            if self._is_stored:
                self._store_topic_id()

        if self.topic_id is None:
            self._guarded(assign)

    def update_config(self, config: LogConfig) -> None:
        with self._lock:
            self.config = self._local.config = config

    # -- appending

    def append_as_leader(
        self,
        records: BytesLike,
        *,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Checks, numbers and writes what a client or a coordinator sent.

        Raises `ApiError` with Kafka's code, and then nothing has been appended. `records` is
        patched in place when it can be written to.
        """
        batches = read_valid_batches(records, self.config, origin)
        try:
            with self._lock:
                self._require_open()
                if not batches:
                    return self._nothing_appended()
                now_ms = self._clock.now_ms()
                validated = assign_offsets(
                    batches,
                    self.config,
                    origin,
                    partition=self.topic_partition,
                    first_offset=self.log_end_offset,
                    leader_epoch=leader_epoch,
                    now_ms=now_ms,
                )
                size = len(validated.buffer)
                if size > self.config.segment_bytes:
                    raise ApiError(
                        ErrorCode.RECORD_LIST_TOO_LARGE,
                        f"message batch size is {size} bytes in append to {self.topic_partition}, "
                        f"which exceeds the maximum configured segment size of "
                        f"{self.config.segment_bytes}",
                    )
                return self._append(
                    validated.buffer,
                    validated.batches,
                    origin,
                    now_ms=now_ms,
                    append_time=validated.append_time,
                )
        except OSError as error:
            raise self._storage_error(error) from error

    def begin_verification(
        self, producer_id: int, *, producer_epoch: int, base_sequence: int, bumps_epochs: bool
    ) -> Verification | None:
        """What a transaction's coordinator is to confirm before its first batch (KIP-890).

        None when it is open here already, so that there is nothing to ask. Raises
        INVALID_PRODUCER_EPOCH for a producer with an epoch that is over. `bumps_epochs` tells of
        one that takes a new epoch with every transaction.
        """
        with self._lock:
            return self._producers.begin_verification(
                producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                bumps_epochs=bumps_epochs,
                now_ms=self._clock.now_ms(),
            )

    def confirm_verification(self, verification: Verification, producer_epoch: int) -> None:
        """Takes the coordinator's word, unless a batch or a marker was written meanwhile."""
        with self._lock:
            self._producers.confirm_verification(verification, producer_epoch)

    def append_as_follower(self, records: BytesLike) -> AppendInfo:
        """Writes what the leader sent, with the leader's offsets and epochs."""
        batches = read_valid_batches(records, self.config, AppendOrigin.REPLICATION)
        try:
            with self._lock:
                self._require_open()
                if not batches:
                    return self._nothing_appended()
                self._check_continues(batches)
                size = sum(batch.size_in_bytes for batch in batches)
                return self._append(
                    memoryview(records)[:size],
                    batches,
                    AppendOrigin.REPLICATION,
                    now_ms=self._clock.now_ms(),
                    append_time=UNKNOWN,
                )
        except OSError as error:
            raise self._storage_error(error) from error

    def _check_continues(self, batches: Sequence[Batch]) -> None:
        first_offset, last_offset = batches[0].base_offset, batches[-1].last_offset
        expected = self.log_end_offset
        if first_offset < expected <= last_offset and self.log_start_offset == expected:
            # An empty log that starts in the middle of a batch, which comes whole.
            self._truncate_fully_and_start_at(first_offset)
            expected = first_offset
        for batch in batches:
            if batch.base_offset < expected:
                raise UnexpectedAppendOffset(
                    f"unexpected offset {batch.base_offset} in append to {self.topic_partition}: "
                    f"the next offset is {expected}",
                    first_offset=first_offset,
                    last_offset=last_offset,
                )
            expected = batch.next_offset

    def _append(
        self,
        data: BytesLike,
        batches: Sequence[Batch],
        origin: AppendOrigin,
        *,
        now_ms: int,
        append_time: int,
    ) -> AppendInfo:
        checked = self._producers.check(batches, origin)
        if checked.duplicate is not None:
            return self._duplicate(checked.duplicate, batches[0])
        first_offset, last_offset = batches[0].base_offset, batches[-1].last_offset
        max_timestamp = max([batch.max_timestamp for batch in batches])
        if not self._is_stored:
            self._store()
        segment = self._maybe_roll(len(data), first_offset, last_offset, max_timestamp, now_ms)
        self._note_epochs(batches)
        try:
            segment.append(data, batches)
            for entry in self._producers.index_entries(checked):
                segment.txn_index.append(entry)
        except OSError:
            self._undo_append(segment, first_offset, now_ms)
            raise
        self.log_end_offset = self._producers.map_end_offset = last_offset + 1
        if checked.appends:
            self._producers.commit(checked)
            self._note_first_unstable()
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self._flush(sync=True)
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
            if epoch >= 0 and epoch != self._epochs.latest_epoch:
                self._epochs.assign(epoch, batch.base_offset)

    def _undo_append(self, segment: Segment, first_offset: int, now_ms: int) -> None:
        """Makes the log what it was; a disk that refuses even that is told of once, below."""
        for undo in (
            segment.drop_tail,
            lambda: segment.truncate_to(first_offset, now_ms),
            lambda: self._epochs.truncate_from_end(self.log_end_offset),
        ):
            try:
                undo()
            except OSError as error:
                _LOG.warning("Could not undo an append to %s: %s", self.topic_partition, error)

    def _duplicate(self, original: BatchMetadata, batch: Batch) -> AppendInfo:
        return AppendInfo(
            original.first_offset,
            original.last_offset,
            original.timestamp,
            original.timestamp,
            self.log_start_offset,
            0,
            batch.partition_leader_epoch,
            True,
        )

    def _nothing_appended(self) -> AppendInfo:
        return AppendInfo(
            UNKNOWN, self.log_end_offset - 1, UNKNOWN, UNKNOWN, self.log_start_offset, 0
        )

    # -- segments

    def _maybe_roll(
        self, size: int, first_offset: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> Segment:
        active = self._local.active
        if active.should_roll(
            self.config,
            size=size,
            last_offset=last_offset,
            max_timestamp=max_timestamp,
            now_ms=now_ms,
        ):
            return self._roll(first_offset)
        return active

    def roll(self) -> None:
        """Starts a new segment at the log end, unless the active one is empty."""
        self._guarded(lambda: self._roll(self.log_end_offset))

    def _roll(self, next_offset: int) -> Segment:
        active = self._local.active
        next_offset = max(next_offset, self.log_end_offset)
        if active.size == 0 and active.base_offset == next_offset:
            return active
        self._producers.map_end_offset = next_offset
        self._producers.take_snapshot()
        self._epochs.save()
        segment = self._local.roll(next_offset)
        self.recovery_point = max(self.recovery_point, next_offset)
        return segment

    def _delete_segments(self, segments: Sequence[Segment]) -> None:
        self._local.delete(segments)
        self._producers.remove_snapshots([segment.base_offset for segment in segments])

    def _flush(self, *, sync: bool) -> None:
        if not self._is_stored:
            return
        self._local.save(self.recovery_point, sync=sync)
        self._epochs.save()
        self.recovery_point = self.log_end_offset
        self.last_flushed_ms = self._clock.now_ms()

    # -- reading

    def read(
        self,
        start_offset: int,
        *,
        max_bytes: int,
        isolation: FetchIsolation = FetchIsolation.LOG_END,
        min_one_message: bool = True,
    ) -> FetchDataInfo:
        """The batches from the one that holds `start_offset` on, as a range of one file.

        With `min_one_message` the first batch comes whole even if it is larger than `max_bytes`.
        Raises OFFSET_OUT_OF_RANGE before the log start and past the log end.
        """
        try:
            with self._lock:
                self._require_open()
                end_offset = self.log_end_offset
                if not self.log_start_offset <= start_offset <= end_offset:
                    raise self._out_of_range(start_offset)
                return read_segments(
                    self._local.segments,
                    start_offset,
                    limit=self._offset_limit(isolation),
                    end_offset=end_offset,
                    max_bytes=max_bytes,
                    min_one_message=min_one_message,
                    isolation=isolation,
                )
        except OSError as error:
            raise self._storage_error(error) from error

    def _offset_limit(self, isolation: FetchIsolation) -> int:
        if isolation is FetchIsolation.LOG_END:
            return self.log_end_offset
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.high_watermark
        return self.last_stable_offset

    def offset_metadata(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """Up to where a reader may see, and where that lies: for counting the bytes to it."""
        return self._guarded(
            lambda: locate(self._local.segments, self._offset_limit(isolation), self.log_end_offset)
        )

    def _out_of_range(self, offset: int) -> ApiError:
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"received request for offset {offset} for partition {self.topic_partition}, but we "
            f"only have log segments in the range {self.log_start_offset} to "
            f"{self.log_end_offset}",
        )

    # -- searching

    def find_offset_by_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record at or past the log start whose timestamp is at least `timestamp`."""
        return self._guarded(
            lambda: find_by_timestamp(self._local.segments, timestamp, self.log_start_offset)
        )

    def find_max_timestamp(self) -> TimestampAndOffset | None:
        """The record with the largest timestamp (KIP-734), the first if there are several."""
        return self._guarded(lambda: find_latest(self._local.segments, self.log_start_offset))

    def find_segment_offsets(self, timestamp: int) -> list[int]:
        """Where segments not younger than `timestamp` begin, and the log end; newest first."""
        return self._guarded(
            lambda: find_segment_offsets(
                self._local.segments,
                timestamp,
                log_start_offset=self.log_start_offset,
                end_offset=self.log_end_offset,
                now_ms=self._clock.now_ms(),
            )
        )

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """The largest epoch up to `epoch` and where it ends; (-1, -1) when there is none."""
        with self._lock:
            return self._epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written, or -1."""
        with self._lock:
            epoch = self._epochs.find_epoch_at(offset)
            return UNKNOWN if epoch is None else epoch

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last batch, or of the leader if it has begun one; -1 for none."""
        return self._epochs.latest_epoch

    @property
    def last_stable_offset(self) -> int:
        """The end of what readers of committed records may see."""
        unstable = self._first_unstable_offset
        if unstable is not None and unstable < self.high_watermark:
            return unstable
        return self.high_watermark

    @property
    def first_segment_offset(self) -> int:
        """Where the files begin; the log start may be further on."""
        with self._lock:
            return self._local.segments.first.base_offset

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        with self._lock:
            return self._local.segments.size

    def active_producers(self) -> Sequence[ActiveProducer]:
        with self._lock:
            return self._producers.active_producers()

    def remove_expired_producers(self) -> None:
        with self._lock:
            self._producers.remove_expired(self._clock.now_ms())

    # -- marks and truncation

    def update_high_watermark(self, offset: int) -> int:
        """Sets the high watermark, within the log; the value it has now."""
        with self._lock:
            offset = max(self.log_start_offset, min(offset, self.log_end_offset))
            self.high_watermark = offset
            self._producers.on_high_watermark(offset)
            self._note_first_unstable()
            return offset

    def increment_log_start_offset(self, offset: int) -> bool:
        """Moves the log start forward to `offset`; whether it moved.

        Records below it can no longer be read; their segments go with the next retention check.
        """
        with self._lock:
            if offset > self.high_watermark:
                raise ApiError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"cannot increment the log start offset to {offset} of partition "
                    f"{self.topic_partition}: it is larger than the high watermark "
                    f"{self.high_watermark}",
                )
            return self._increment_log_start(offset)

    def _increment_log_start(self, offset: int) -> bool:
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self._epochs.truncate_from_start(offset)
        self._producers.on_log_start(offset)
        self._note_first_unstable()
        return True

    def assign_epoch_start(self, epoch: int, offset: int) -> None:
        """Notes that a leader of `epoch` begins at `offset`, before it appends anything.

        That of a log without files need not outlive a crash: there is nothing to disagree on.
        """

        def assign() -> None:
            self._epochs.assign(epoch, offset)
            if self._is_stored:
                self._epochs.save()

        self._guarded(assign)

    def truncate_to(self, offset: int) -> bool:
        """Drops every record from `offset` on; whether there were any."""
        if offset < 0:
            raise ValueError(f"cannot truncate {self.topic_partition} to offset {offset}")

        def truncate() -> bool:
            if offset >= self.log_end_offset:
                self._epochs.truncate_from_end(self.log_end_offset)
                return False
            _LOG.info("Truncating %s to offset %d", self.topic_partition, offset)
            if self._local.segments.first.base_offset > offset:
                self._truncate_fully_and_start_at(offset)
            else:
                self._truncate(offset)
            return True

        return self._guarded(truncate)

    def _truncate(self, offset: int) -> None:
        self._note_truncation(offset)
        gone = self._local.truncate(offset)
        self._producers.remove_snapshots([segment.base_offset for segment in gone])
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self._epochs.truncate_from_end(offset)
        self._epochs.save()
        rebuild_producers(
            self._producers,
            tuple(self._local.segments),
            self.log_start_offset,
            offset,
            now_ms=self._clock.now_ms(),
        )
        self.high_watermark = min(self.high_watermark, offset)
        # Replayed transactions count as not replicated, though their markers may well be.
        self._producers.on_high_watermark(self.high_watermark)
        self._note_first_unstable()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drops everything; the log then begins and ends at `offset`."""
        self._guarded(lambda: self._truncate_fully_and_start_at(offset))

    def _note_truncation(self, offset: int) -> None:
        self._truncations += 1
        self._lowest_truncation = min(self._lowest_truncation, offset)

    def _truncate_fully_and_start_at(self, offset: int) -> None:
        self._note_truncation(offset)
        _LOG.info("Truncating %s fully, to start at offset %d", self.topic_partition, offset)
        if not self._is_stored:
            self._store()
        self._delete_segments(tuple(self._local.segments))
        self._local.start_at(offset)
        self._epochs.clear()
        self._epochs.save()
        self._producers.truncate_fully_and_start_at(offset)
        self.log_start_offset = self.log_end_offset = offset
        self.recovery_point = self.high_watermark = offset
        self._note_first_unstable()

    def delete_old_segments(self) -> int:
        """Deletes what retention lets go; how many segments that were."""
        return self._guarded(self._delete_old_segments)

    def _delete_old_segments(self) -> int:
        segments = tuple(self._local.segments)
        expired = find_expired(
            self._local.views(self.log_end_offset),
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
            self._roll(self.log_end_offset)
        self._delete_segments(gone)
        self._increment_log_start(self._local.segments.first.base_offset)
        return len(gone)

    # -- compaction

    def cleaning_view(self) -> CleaningView:
        """What the cleaner has to know, as of now."""
        return self._guarded(self._cleaning_view)

    def _cleaning_view(self) -> CleaningView:
        return CleaningView(
            segments=segments_to_clean(self._local.segments),
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            last_stable_offset=self.last_stable_offset,
            last_records=self._producers.last_records(),
            truncations=self._truncations,
            lowest_truncation=self._lowest_truncation,
        )

    def aborted_transactions(self) -> Sequence[AbortedTransaction]:
        """All that the transaction indexes know of."""
        return self._guarded(
            lambda: [txn for segment in self._local.segments for txn in segment.txn_index]
        )

    def find_batches(self, segment: Segment) -> Iterator[Batch] | None:
        """The batches of `segment`, to be read without the lock, if it is still in the log."""

        def find() -> Iterator[Batch] | None:
            return segment.batches() if self._local.segments.has_all((segment,)) else None

        return self._guarded(find)

    def new_cleaned_segment(self, base_offset: int) -> Segment:
        """An empty segment beside the log, for `replace_segments`."""

        def make() -> Segment:
            segment = self._local.open_segment(base_offset, CLEANED_SUFFIX)
            segment.create()
            return segment

        return self._guarded(make)

    def replace_segments(self, new: Segment, old: Sequence[Segment], *, truncations: int) -> bool:
        """Puts a compacted segment in the place of those it was made from.

        False, and nothing is done, when the log was truncated or some of them are gone meanwhile.
        """

        def replace() -> bool:
            if truncations != self._truncations or not self._local.segments.has_all(old):
                return False
            self._local.replace(new, old)
            gone = {segment.base_offset for segment in old}.difference({new.base_offset})
            self._producers.remove_snapshots(gone)
            return True

        return self._guarded(replace)

    def forget_truncations(self, truncations: int) -> None:
        """What was truncated up to the given count has been compacted again."""
        with self._lock:
            if truncations == self._truncations:
                self._lowest_truncation = MAX_OFFSET

    # -- guards

    def _note_first_unstable(self) -> None:
        offset = self._producers.first_unstable_offset
        self._first_unstable_offset = None if offset is None else max(offset, self.log_start_offset)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def _require_open(self) -> None:
        if self._is_closed:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self.topic_partition} is closed"
            )

    def _guarded(self, act: Callable[[], T]) -> T:
        """Runs `act` under the lock; a failing disk becomes KAFKA_STORAGE_ERROR."""
        try:
            with self._lock:
                self._require_open()
                return act()
        except OSError as error:
            raise self._storage_error(error) from error

    def _storage_error(self, error: OSError) -> ApiError:
        """Tells whoever watches the disk, and what to tell the client."""
        _LOG.error("Disk failure in the log of %s: %s", self.topic_partition, error)
        if self._on_storage_error is not None and is_disk_failure(error):
            self._on_storage_error(error)
        return ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"disk failure in the log of {self.topic_partition}: {error}",
        )
