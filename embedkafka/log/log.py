"""One replica's log, as everybody else sees it: appended to, read, truncated, by many threads.

Owner: `Log._lock` (rank 30), its guard's, guards everything; the offsets may be read without it.
Not here: what a log consists of and how it changes (`contents`); leaders, followers and
acknowledgements (`replica`); compaction (`cleaner`); which logs there are (`manager`).
"""

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from embedkafka.log.append_info import (
    UNKNOWN,
    AppendInfo,
    UnexpectedAppendOffset,
    nothing_appended,
)
from embedkafka.log.cleanable import CleanableLog
from embedkafka.log.config import LogConfig
from embedkafka.log.contents import LogContents
from embedkafka.log.copies import CopiedLog, copy_log
from embedkafka.log.environment import LogEnvironment
from embedkafka.log.epoch_cache import EpochEndOffset
from embedkafka.log.guard import LogGuard
from embedkafka.log.producer_state import ActiveProducer, AppendOrigin, ProducerStateConfig
from embedkafka.log.reads import (
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
from embedkafka.log.timestamp_search import TimestampSearch
from embedkafka.log.txn_index import AbortedTransaction
from embedkafka.log.validation import (
    RecordError,
    RecordsRejected,
    assign_offsets,
    check_fits_segment,
    read_valid_batches,
)
from embedkafka.log.verification import Verification
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.records.batch import Batch
from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.locks import LOG_RANK

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
        lock_rank: int = LOG_RANK,
    ) -> None:
        """A copy that is filled while the log's lock is held has a `lock_rank` above it."""
        self.topic_partition = topic_partition
        self._clock = environment.clock
        self._files = environment.files
        self._guard = LogGuard(topic_partition, on_storage_error, lock_rank=lock_rank)
        self._lock = self._guard.lock
        self._contents = LogContents(
            topic_partition,
            directory,
            config,
            environment,
            topic_id=topic_id,
            producer_config=producer_config,
            on_storage_error=self._guard.storage_error,
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
        """Names the topic, for a log that was made without its id."""
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
        """The end of what readers of committed records may see."""
        return self._contents.last_stable_offset

    @property
    def recovery_point(self) -> int:
        """Up to where everything has been written; the rest is checked after a crash."""
        return self._contents.recovery_point

    @property
    def last_flushed_ms(self) -> int:
        return self._contents.last_flushed_ms

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last batch, or of the leader if it has begun one; -1 for none."""
        return self._contents.epochs.latest_epoch

    @property
    def first_segment_offset(self) -> int:
        """Where the files begin; the log start may be further on."""
        with self._lock:
            return self._contents.local.segments.first.base_offset

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        with self._lock:
            return self._contents.local.segments.size

    # -- opening and closing

    def create(self) -> None:
        """Makes an empty log in a new directory.

        There are no files in it before the first batch: one costs up to a millisecond, and of a
        topic's many partitions most may stay empty. Kafka makes the missing ones when it opens
        such a directory.
        """
        with self._lock:
            self._contents.local.begin()

    def load(
        self, *, log_start_offset: int = 0, recovery_point: int = 0, is_clean: bool = False
    ) -> None:
        """Opens the directory as it is, and repairs it unless it was closed properly."""
        with self._lock:
            self._contents.load(
                log_start_offset=log_start_offset, recovery_point=recovery_point, is_clean=is_clean
            )

    def flush(self, *, sync: bool = False) -> None:
        """Brings every file up to date, and with `sync` onto the disk itself."""
        self._guard.run(lambda: self._contents.flush(sync=sync))

    def close(self) -> None:
        """Leaves the directory in order: complete indexes and a snapshot of the producers."""
        with self._lock:
            if self._guard.is_closed:
                return
            self._guard.is_closed = True
            try:
                self._contents.finish()
            finally:
                self._contents.local.segments.release()

    def kill(self) -> None:
        """Lets go of all files as they are, like a process that dies."""
        with self._lock:
            self._guard.is_closed = True
            self._contents.local.segments.release()

    def copy_to(self, directory: Path) -> CopiedLog | None:
        """Leaves a copy in another directory, in order as `close` would; None when it is closed."""
        with self._lock:
            if self._guard.is_closed:
                return None
            self._contents.save()
            copy_log(self._files, self.directory, directory)
            return CopiedLog(
                log_start_offset=self.log_start_offset,
                high_watermark=self.high_watermark,
                log_end_offset=self.log_end_offset,
            )

    def rename_directory(self, directory: Path) -> None:
        """Moves the log to another name in the same log directory."""
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
        """Goes on with the files of `future`, a copy of this log, in `directory`.

        `catch_up` completes the copy, now that nobody else can write. The former files are left
        in `doomed`.
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
        """Checks, numbers and writes what a client or a coordinator sent.

        Raises `ApiError` with Kafka's code, and then nothing has been appended. `records` is
        patched in place when it can be written to.
        """
        contents = self._contents
        batches = read_valid_batches(records, contents.config, origin)
        try:
            with self._lock:
                self._guard.require_open()
                if not batches:
                    return nothing_appended(contents.log_start_offset, contents.log_end_offset)
                now_ms = self._clock.now_ms()
                validated = assign_offsets(
                    batches,
                    contents.config,
                    origin,
                    partition=self.topic_partition,
                    first_offset=contents.log_end_offset,
                    leader_epoch=leader_epoch,
                    now_ms=now_ms,
                )
                check_fits_segment(len(validated.buffer), contents.config, self.topic_partition)
                return contents.append(
                    validated.buffer,
                    validated.batches,
                    origin,
                    now_ms=now_ms,
                    append_time=validated.append_time,
                )
        except OSError as error:
            raise self._guard.storage_error(error) from error

    def append_as_follower(self, records: BytesLike) -> AppendInfo:
        """Writes what the leader sent, with the leader's offsets and epochs."""
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
                    append_time=UNKNOWN,
                )
        except OSError as error:
            raise self._guard.storage_error(error) from error

    def begin_verification(
        self, producer_id: int, *, producer_epoch: int, base_sequence: int, bumps_epochs: bool
    ) -> Verification | None:
        """What a transaction's coordinator is to confirm before its first batch (KIP-890).

        None when it is open here already, so that there is nothing to ask. Raises
        INVALID_PRODUCER_EPOCH for a producer with an epoch that is over. `bumps_epochs` tells of
        one that takes a new epoch with every transaction.
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
        """Takes the coordinator's word, unless a batch or a marker was written meanwhile."""
        with self._lock:
            self._contents.producers.confirm_verification(verification, producer_epoch)

    def active_producers(self) -> Sequence[ActiveProducer]:
        with self._lock:
            return self._contents.producers.active_producers()

    def expire_producers_after(self, silence_ms: int) -> None:
        """How long a producer may be silent before `remove_expired_producers` forgets it."""
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
        """The batches from the one that holds `start_offset` on, as a range of one file.

        With `min_one_message` the first batch comes whole even if it is larger than `max_bytes`.
        Raises OFFSET_OUT_OF_RANGE before the log start and past the log end.
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
        """The end of the log as a reader with this isolation sees it."""
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
        """Up to where a reader may see, and where that lies: for counting the bytes to it."""
        return self._guard.run(
            lambda: locate(
                self._contents.local.segments, self.end_offset_for(isolation), self.log_end_offset
            )
        )

    def search_timestamp(self, timestamp: int) -> TimestampSearch:
        """The search for the first record at or past the log start, from `timestamp` on."""

        def next_batch(start_offset: int) -> Batch | None:
            return self._guard.run(
                lambda: find_batch_by_timestamp(
                    self._contents.local.segments, timestamp, start_offset
                )
            )

        return TimestampSearch(next_batch, timestamp, self.log_start_offset)

    def search_max_timestamp(self) -> TimestampSearch | None:
        """The search for the first record with the largest timestamp (KIP-734), if any has one."""
        timestamp = self._guard.run(lambda: largest_timestamp(self._contents.local.segments))
        return None if timestamp < 0 else self.search_timestamp(timestamp)

    def find_segment_offsets(self, timestamp: int) -> list[int]:
        """Where segments not younger than `timestamp` begin, and the log end; newest first."""
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
        """The largest epoch up to `epoch` and where it ends; (-1, -1) when there is none."""
        with self._lock:
            return self._contents.epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written, or -1."""
        with self._lock:
            epoch = self._contents.epochs.find_epoch_at(offset)
            return UNKNOWN if epoch is None else epoch

    # -- marks, truncation and retention

    def update_high_watermark(self, offset: int) -> int:
        """Sets the high watermark, within the log; the value it has now."""
        with self._lock:
            return self._contents.update_high_watermark(offset)

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
            return self._contents.increment_log_start(offset)

    def assign_epoch_start(self, epoch: int, offset: int) -> None:
        """Notes that a leader of `epoch` begins at `offset`, before it appends anything."""
        self._guard.run(lambda: self._contents.assign_epoch_start(epoch, offset))

    def truncate_to(self, offset: int) -> bool:
        """Drops every record from `offset` on; whether there were any."""
        if offset < 0:
            raise ValueError(f"cannot truncate {self.topic_partition} to offset {offset}")
        return self._guard.run(lambda: self._contents.truncate_to(offset))

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drops everything; the log then begins and ends at `offset`."""
        self._guard.run(lambda: self._contents.truncate_fully_and_start_at(offset))

    def delete_old_segments(self) -> int:
        """Deletes what retention lets go; how many segments that were."""
        return self._guard.run(self._contents.delete_old_segments)
