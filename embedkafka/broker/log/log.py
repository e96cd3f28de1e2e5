"""One replica's log, which many threads append to, read and truncate.

Owner: `Log._lock` (rank 30), the guard's lock, guards everything; offsets may be read without it.
Not here: the state of a log and its changes (`log_state`); leaders, followers and acknowledgements
(`replica`); compaction (`cleaner`); the set of logs (`manager`).
"""

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embedkafka.broker.log.append_info import (
    UNKNOWN,
    AppendInfo,
    UnexpectedAppendOffset,
    nothing_appended,
)
from embedkafka.broker.log.cleanable import CleanableLog
from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.conversions import Converted, Purpose
from embedkafka.broker.log.environment import LogEnvironment
from embedkafka.broker.log.epoch_cache import EpochEndOffset
from embedkafka.broker.log.files.txn_index import AbortedTransaction
from embedkafka.broker.log.guard import LogGuard
from embedkafka.broker.log.log_state import LogState
from embedkafka.broker.log.producers.entry import AppendOrigin
from embedkafka.broker.log.producers.state import ActiveProducer, ProducerStateConfig
from embedkafka.broker.log.producers.verification import Verification
from embedkafka.broker.log.reads import (
    FetchDataInfo,
    FetchIsolation,
    LogOffsetMetadata,
    Records,
    find_batch_by_timestamp,
    find_segment_offsets,
    largest_timestamp,
    locate,
    read_segments,
)
from embedkafka.broker.log.timestamp_search import TimestampSearch
from embedkafka.broker.log.validation import (
    RecordError,
    RecordsRejected,
    Validated,
    assign_offsets,
    check_fits_segment,
    read_valid_batches,
)
from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.files import sync_all
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.locks import LOG_RANK
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import Batch

if TYPE_CHECKING:
    from embedkafka.broker.log.files.copies import CopiedLog

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
    "UnexpectedAppendOffset",
    "Verification",
]

DEFAULT_PRODUCER_CONFIG: Final = ProducerStateConfig()


class Log:
    """A log directory, opened."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: Path,
        config: LogConfig,
        environment: LogEnvironment,
        *,
        topic_id: uuid.UUID | None = None,
        producer_config: ProducerStateConfig = DEFAULT_PRODUCER_CONFIG,
        on_storage_error: Callable[[OSError], None] | None = None,
        on_truncated: Callable[["Log", int], None] | None = None,
        lock_rank: int = LOG_RANK,
    ) -> None:
        """A copy needs a higher `lock_rank`, because it is filled under the log's lock."""
        self.topic_partition = topic_partition
        self._clock = environment.clock
        self._files = environment.files
        self._guard = LogGuard(topic_partition, on_storage_error, lock_rank=lock_rank)
        self._lock = self._guard.lock
        self._on_truncated = on_truncated
        self._scheduler = environment.scheduler
        self._conversions = environment.conversions
        self._is_sync_due = False
        self._contents = LogState(
            topic_partition,
            directory,
            config,
            environment,
            topic_id=topic_id,
            producer_config=producer_config,
            on_storage_error=self._guard.storage_error,
            on_rolled=self._sync_soon,
        )
        self.cleanable = CleanableLog(self._guard, self._contents)

    def __repr__(self) -> str:
        return (
            f"Log({self.topic_partition}, start={self.log_start_offset}, "
            f"high_watermark={self.high_watermark}, end={self.log_end_offset})"
        )

    # -- what it is

    @property
    def directory(self) -> Path:
        return self._contents.local.directory

    @property
    def config(self) -> LogConfig:
        return self._contents.config

    def update_config(self, config: LogConfig) -> None:
        with self._lock:
            self._contents.config = self._contents.local.config = config

    @property
    def topic_id(self) -> uuid.UUID | None:
        return self._contents.topic_id

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """Sets the topic id of a log that was created without one."""
        if self.topic_id is None:
            self._guard.run(lambda: self._contents.assign_topic_id(topic_id))

    @property
    def is_closed(self) -> bool:
        return self._guard.is_closed

    @property
    def log_start_offset(self) -> int:
        return self._contents.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._contents.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._contents.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which consumers of committed records may read."""
        return self._contents.last_stable_offset

    @property
    def recovery_point(self) -> int:
        """Below it, closed segments are on disk whole; after a crash the rest is checked."""
        return self._contents.recovery_point

    @property
    def last_flushed_ms(self) -> int:
        return self._contents.last_flushed_ms

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last batch, or of a leader that has started a newer one; -1 for none."""
        return self._contents.epochs.latest_epoch

    @property
    def first_segment_offset(self) -> int:
        """The base offset of the first segment; the log start may be higher."""
        with self._lock:
            return self._contents.local.segments.first.base_offset

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        with self._lock:
            return self._contents.local.segments.size

    @property
    def segment_count(self) -> int:
        """How many segments there are; a log without records has an empty one."""
        with self._lock:
            return len(self._contents.local.segments)

    # -- opening and closing

    def create(self) -> None:
        """Creates an empty log in a new directory.

        The first batch creates the files: one costs up to a millisecond, and most of a topic's
        partitions may stay empty. Kafka creates the missing files when it opens such a directory.
        """
        with self._lock:
            self._contents.local.begin()

    def load(
        self, *, log_start_offset: int = 0, recovery_point: int = 0, is_clean: bool = False
    ) -> None:
        """Opens an existing directory; repairs it after an unclean shutdown."""
        with self._lock:
            self._contents.load(
                log_start_offset=log_start_offset, recovery_point=recovery_point, is_clean=is_clean
            )

    def flush(self) -> None:
        """Waits until every batch is on disk."""
        self._guard.run(self._contents.flush)

    def _sync_soon(self) -> None:
        if not self._is_sync_due:
            self._is_sync_due = True
            self._scheduler.once(f"flush-log {self.topic_partition}", 0, self._sync_closed_segments)

    def _sync_closed_segments(self) -> None:
        """Waits, without the lock, until all segments but the active one are on disk."""
        self._is_sync_due = False
        try:
            unsynced = self._guard.run(self._contents.unsynced)
            sync_all(self._files, unsynced.paths)
            self._guard.run(lambda: self._contents.on_synced(unsynced))
        except OSError as error:
            self._guard.storage_error(error)
        except ApiError:
            pass  # closed

    def close(self) -> None:
        """Closes cleanly, with complete indexes and a producer snapshot."""
        with self._lock:
            if self._guard.is_closed:
                return
            self._guard.is_closed = True
            try:
                self._contents.finish()
            finally:
                self._contents.local.segments.release()

    def kill(self) -> None:
        """Releases all files without writing, as if the process had died."""
        with self._lock:
            self._kill()

    def _kill(self) -> None:
        self._guard.is_closed = True
        self._contents.local.segments.release()

    def retire(self, aside: Callable[[Path], Path]) -> None:
        """Renames the log's directory to what `aside` makes of it and kills the log, in one step.

        In between, the cleaner would find an open log and take the lack of the segment that it has
        written to the old directory for a disk failure.
        """

        def retire() -> None:
            try:
                self._contents.rename(aside(self.directory))
            finally:
                self._kill()

        self._guard.run(retire)

    def copy_to(self, directory: Path) -> "CopiedLog | None":
        """Makes a cleanly closed copy in another directory; None if this log is closed."""
        from embedkafka.broker.log.files.copies import CopiedLog, copy_log  # for snapshots

        with self._lock:
            if self._guard.is_closed:
                return None
            self._contents.save()
            copy_log(self._files, self.directory, directory)
            return CopiedLog(
                log_start_offset=self.log_start_offset,
                high_watermark=self.high_watermark,
                recovery_point=min(self.recovery_point, self._contents.local.active.base_offset),
            )

    def rename_directory(self, directory: Path) -> None:
        """Renames the log's directory within the same log directory."""
        self._guard.run(lambda: self._contents.rename(directory))

    def move_into(
        self,
        future: "Log",
        directory: Path,
        *,
        doomed: Path,
        catch_up: Callable[[], None],
        on_storage_error: Callable[[OSError], None],
    ) -> None:
        """Switches to the files of `future`, a copy of this log, in `directory`.

        `catch_up` completes the copy under the lock, when no one can write. The old files move to
        `doomed`.
        """

        def move() -> None:
            catch_up()
            future.rename_directory(directory)
            self._guard.on_storage_error = on_storage_error
            self._contents.move_into(future._contents, directory, doomed=doomed)

        self._guard.run(move)

    # -- appending

    def append_as_leader(
        self,
        records: BytesLike,
        *,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Validates, numbers and writes records from a client or a coordinator.

        If it raises `ApiError`, with Kafka's code, nothing was appended. Patches `records` in place
        if they are writable.
        """
        contents = self._contents
        batches = read_valid_batches(records, contents.config, origin)
        try:
            with self._lock:
                self._guard.require_open()
                if not batches:
                    return nothing_appended(contents.log_start_offset, contents.log_end_offset)
                now_ms, shift_ms = self._clock.now_ms(), self._clock.shift_ms()
                validated = assign_offsets(
                    batches,
                    contents.config,
                    origin,
                    partition=self.topic_partition,
                    first_offset=contents.log_end_offset,
                    leader_epoch=leader_epoch,
                    now_ms=now_ms,
                    shift_ms=shift_ms or 0,
                )
                check_fits_segment(len(validated.buffer), contents.config, self.topic_partition)
                if validated.is_rebuilt:
                    self._note_conversion(validated, now_ms)
                return contents.append(
                    validated.buffer,
                    validated.batches,
                    origin,
                    now_ms=now_ms,
                    shift_ms=shift_ms,
                    append_time=validated.append_time,
                )
        except OSError as error:
            raise self._guard.storage_error(error) from error

    def _note_conversion(self, validated: Validated, began_ms: int) -> None:
        converted = Converted(
            records=sum(batch.record_count for batch in validated.batches),
            size=len(validated.buffer),
            ms=max(0, self._clock.now_ms() - began_ms),
        )
        self._conversions.note(Purpose.PRODUCE, self.topic_partition.topic, converted)

    def append_as_follower(self, records: BytesLike) -> AppendInfo:
        """Writes the leader's records, with the leader's offsets and epochs."""
        contents = self._contents
        batches = read_valid_batches(records, contents.config, AppendOrigin.REPLICATION)
        try:
            with self._lock:
                self._guard.require_open()
                if not batches:
                    return nothing_appended(contents.log_start_offset, contents.log_end_offset)
                contents.require_continuation(batches)
                size = sum(batch.size_in_bytes for batch in batches)
                return contents.append(
                    memoryview(records)[:size],
                    batches,
                    AppendOrigin.REPLICATION,
                    now_ms=self._clock.now_ms(),
                    shift_ms=self._clock.shift_ms(),
                    append_time=UNKNOWN,
                )
        except OSError as error:
            raise self._guard.storage_error(error) from error

    def begin_verification(
        self, producer_id: int, *, producer_epoch: int, base_sequence: int, bumps_epochs: bool
    ) -> Verification | None:
        """The verification that a coordinator must confirm before a first batch (KIP-890).

        None if the transaction is already open here. Raises INVALID_PRODUCER_EPOCH for a producer
        with an old epoch. `bumps_epochs`: the producer takes a new epoch with every transaction.
        """
        with self._lock:
            return self._contents.producers.begin_verification(
                producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                bumps_epochs=bumps_epochs,
                now_ms=self._clock.now_ms(),
            )

    def confirm_verification(self, verification: Verification, producer_epoch: int) -> None:
        """Notes the coordinator's confirmation, unless a batch or marker was written since."""
        with self._lock:
            self._contents.producers.confirm_verification(verification, producer_epoch)

    def active_producers(self) -> Sequence[ActiveProducer]:
        with self._lock:
            return self._contents.producers.active_producers()

    def expire_producers_after(self, silence_ms: int) -> None:
        """Sets how long a producer may be idle before `remove_expired_producers` drops it."""
        with self._lock:
            self._contents.producers.expiration_ms = silence_ms

    def remove_expired_producers(self) -> None:
        with self._lock:
            self._contents.producers.remove_expired(self._clock.now_ms())

    def roll(self) -> None:
        """Starts a new segment at the log end, unless the active one is empty."""
        self._guard.run(lambda: self._contents.roll(self.log_end_offset))

    # -- reading

    def read(
        self,
        start_offset: int,
        *,
        max_bytes: int,
        isolation: FetchIsolation = FetchIsolation.LOG_END,
        min_one_message: bool = True,
    ) -> FetchDataInfo:
        """The batches from the one with `start_offset` on, as a range of one file.

        With `min_one_message`, returns the first batch even if it exceeds `max_bytes`. Raises
        OFFSET_OUT_OF_RANGE below the log start and past the log end.
        """
        contents = self._contents
        try:
            with self._lock:
                self._guard.require_open()
                end_offset = contents.log_end_offset
                if not contents.log_start_offset <= start_offset <= end_offset:
                    raise self._out_of_range(start_offset)
                return read_segments(
                    contents.local.segments,
                    start_offset,
                    limit=self.end_offset_for(isolation),
                    end_offset=end_offset,
                    max_bytes=max_bytes,
                    min_one_message=min_one_message,
                    isolation=isolation,
                )
        except OSError as error:
            raise self._guard.storage_error(error) from error

    def end_offset_for(self, isolation: FetchIsolation) -> int:
        """The end of the log for a reader with this isolation."""
        if isolation is FetchIsolation.LOG_END:
            return self._contents.log_end_offset
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self._contents.high_watermark
        return self._contents.last_stable_offset

    def _out_of_range(self, offset: int) -> ApiError:
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"received request for offset {offset} for partition {self.topic_partition}, but we "
            f"only have log segments in the range {self.log_start_offset} to "
            f"{self.log_end_offset}",
        )

    def offset_metadata(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """The end of the log for a reader, with its position, to count the bytes before it."""
        return self._guard.run(
            lambda: locate(
                self._contents.local.segments, self.end_offset_for(isolation), self.log_end_offset
            )
        )

    def search_timestamp(self, timestamp: int) -> TimestampSearch:
        """A search for the first record, at or past the log start, not older than `timestamp`."""
        return self._search(timestamp, self.log_start_offset)

    def _search(self, timestamp: int, first_offset: int) -> TimestampSearch:
        def next_batch(start_offset: int) -> Batch | None:
            return self._guard.run(
                lambda: find_batch_by_timestamp(
                    self._contents.local.segments, timestamp, start_offset
                )
            )

        return TimestampSearch(next_batch, timestamp, first_offset)

    def search_max_timestamp(self) -> TimestampSearch:
        """A search for the first record with the largest timestamp (KIP-734).

        As in Kafka, it may find a record before the log start whose segment is still there.
        """
        timestamp = self._guard.run(lambda: largest_timestamp(self._contents.local.segments))
        return self._search(timestamp, 0)

    def find_segment_offsets(self, timestamp: int) -> list[int]:
        """The base offsets of segments up to `timestamp`, and the log end; newest first."""
        return self._guard.run(
            lambda: find_segment_offsets(
                self._contents.local.segments,
                timestamp,
                log_start_offset=self.log_start_offset,
                end_offset=self.log_end_offset,
                now_ms=self._clock.now_ms(),
            )
        )

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """The largest epoch up to `epoch` and its end offset; (-1, -1) if there is none."""
        with self._lock:
            return self._contents.epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`, or -1."""
        with self._lock:
            epoch = self._contents.epochs.find_epoch_at(offset)
            return UNKNOWN if epoch is None else epoch

    # -- marks, truncation and retention

    def update_high_watermark(self, offset: int) -> int:
        """Sets the high watermark, clamped to the log, and returns it."""
        with self._lock:
            return self._contents.update_high_watermark(offset)

    def increment_log_start_offset(self, offset: int) -> bool:
        """Moves the log start forward to `offset`; returns whether it moved.

        Records below it become unreadable; the next retention check deletes their segments.
        """
        with self._lock:
            if offset > self.high_watermark:
                raise ApiError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"cannot increment the log start offset to {offset} of partition "
                    f"{self.topic_partition}: it is larger than the high watermark "
                    f"{self.high_watermark}",
                )
            return self._contents.increment_log_start(offset)

    def assign_epoch_start(self, epoch: int, offset: int) -> None:
        """Notes that the leader of `epoch` starts at `offset`, before it appends."""
        self._guard.run(lambda: self._contents.assign_epoch_start(epoch, offset))

    def truncate_to(self, offset: int) -> bool:
        """Drops every record from `offset` on; returns whether there were any."""
        if offset < 0:
            raise ValueError(f"cannot truncate {self.topic_partition} to offset {offset}")
        was_longer = self._guard.run(lambda: self._contents.truncate_to(offset))
        if was_longer and self._on_truncated is not None:
            self._on_truncated(self, offset)
        return was_longer

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drops all records; the log then starts and ends at `offset`."""
        self._guard.run(lambda: self._contents.truncate_fully_and_start_at(offset))
        if self._on_truncated is not None:
            self._on_truncated(self, offset)

    def delete_old_segments(self) -> int:
        """Deletes the segments that retention releases; returns their number."""
        return self._guard.run(self._contents.delete_old_segments)
