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
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final, NamedTuple, TypeVar

from embedkafka.log import checkpoints
from embedkafka.log.config import LogConfig
from embedkafka.log.epoch_cache import EpochCache, EpochEndOffset
from embedkafka.log.loader import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    SWAP_SUFFIX,
    Loader,
    rebuild_producers,
)
from embedkafka.log.offset_index import OffsetPosition
from embedkafka.log.ports import Tasks
from embedkafka.log.producer_state import (
    ActiveProducer,
    AppendOrigin,
    BatchMetadata,
    CompletedTxn,
    LastRecord,
    ProducerAppend,
    ProducerState,
)
from embedkafka.log.retention import SegmentView, find_expired
from embedkafka.log.segment import BatchPosition, Segment
from embedkafka.log.segments import Segments
from embedkafka.log.txn_index import AbortedTransaction
from embedkafka.log.validation import (
    RecordError,
    RecordsRejected,
    assign_offsets,
    read_valid_batches,
)
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.records.batch import Batch, RecordBatch
from embedkafka.records.record import BytesLike
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.files import FileRegion, Files
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
]

_LOG = logging.getLogger(__name__)

Records = FileRegion | memoryview
T = TypeVar("T")

NO_RECORDS: Final = memoryview(b"")
UNKNOWN: Final = -1
MAX_OFFSET: Final = 2**63 - 1
_OPEN_FILES_KEPT: Final = 4
DEFAULT_PRODUCER_EXPIRATION_MS: Final = 24 * 60 * 60 * 1000


class FetchIsolation(Enum):
    """Up to where a reader may see: followers, consumers, consumers of committed records."""

    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    TXN_COMMITTED = "txn_committed"


class AppendInfo(NamedTuple):
    """Where an append went; for a duplicate, where the original went."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    num_bytes: int
    last_leader_epoch: int = UNKNOWN
    duplicate: bool = False


class LogOffsetMetadata(NamedTuple):
    """An offset and where it lies: two of them in one segment tell the bytes between them."""

    offset: int
    segment_base_offset: int
    position: int


class FetchDataInfo(NamedTuple):
    """What a read found."""

    records: Records
    fetch_offset: LogOffsetMetadata
    aborted_transactions: Sequence[AbortedTransaction] | None = None

    @property
    def size(self) -> int:
        records = self.records
        return records.size if isinstance(records, FileRegion) else records.nbytes

    @property
    def first_offset(self) -> int:
        return self.fetch_offset.offset


class TimestampAndOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


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
    """A log as the cleaner finds it; the active segment is not part of it.

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


class UnexpectedAppendOffset(ApiError):
    """A follower was given batches that do not continue its log."""

    def __init__(self, message: str, *, first_offset: int, last_offset: int) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        self.first_offset = first_offset
        self.last_offset = last_offset


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
        on_storage_error: Callable[[OSError], None] | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.config = config
        self.topic_id = topic_id
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.recovery_point = 0
        self.last_flushed_ms = clock.now_ms()
        self._clock = clock
        self._files = files
        self._scheduler = scheduler
        self._random = random
        self._on_storage_error = on_storage_error
        self._lock = ranked_lock(f"log {topic_partition}", LOG_RANK)
        self._epochs = EpochCache(files, directory)
        self._producers = ProducerState(
            topic_partition, files, directory, expiration_ms=producer_expiration_ms
        )
        self._segments = Segments()
        self._first_unstable_offset: int | None = None
        self._open_inactive: deque[Segment] = deque()
        self._is_closed = False
        self._truncations = 0
        self._lowest_truncation = MAX_OFFSET

    def __repr__(self) -> str:
        return (
            f"Log({self.topic_partition}, start={self.log_start_offset}, "
            f"high_watermark={self.high_watermark}, end={self.log_end_offset})"
        )

    # -- opening and closing

    def create(self) -> None:
        """Makes an empty log in a new directory."""
        with self._lock:
            self._files.make_directory(self.directory)
            if self.topic_id is not None:
                checkpoints.write_topic_id(self._files, self.directory, self.topic_id)
            self._segments.add(self._new_segment(0))

    def load(
        self, *, log_start_offset: int = 0, recovery_point: int = 0, is_clean: bool = False
    ) -> None:
        """Opens the directory as it is, and repairs it unless it was closed properly."""
        with self._lock:
            self.topic_id = checkpoints.read_topic_id(self._files, self.directory) or self.topic_id
            loader = Loader(
                self._files,
                self.directory,
                self._epochs,
                self._producers,
                self._open_segment,
                now_ms=self._clock.now_ms(),
            )
            loaded = loader.load(
                log_start_offset=log_start_offset,
                recovery_point=recovery_point,
                is_clean=is_clean,
            )
            self._segments = Segments(loaded.segments)
            for segment in loaded.segments[:-1]:
                segment.release()
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
                self._segments.active.retire()
                self._flush(sync=False)
                self._producers.take_snapshot()
            finally:
                self._release_files()

    def kill(self) -> None:
        """Lets go of all files as they are, like a process that dies."""
        with self._lock:
            self._is_closed = True
            self._release_files()

    def rename_directory(self, directory: Path) -> None:
        """Moves the log to another name in the same log directory."""

        def rename() -> None:
            self._files.rename(self.directory, directory)
            self.directory = directory
            self._epochs.move(directory)
            self._producers.move(directory)
            for segment in self._segments:
                segment.move(directory)

        self._guarded(rename)

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """Writes the topic id down, for a log that was made without one."""

        def assign() -> None:
            checkpoints.write_topic_id(self._files, self.directory, topic_id)
            self.topic_id = topic_id

        if self.topic_id is None:
            self._guarded(assign)

    def update_config(self, config: LogConfig) -> None:
        with self._lock:
            self.config = config

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
        producers: dict[int, ProducerAppend] = {}
        completed: list[CompletedTxn] = []
        duplicate = self._check_producers(batches, origin, producers, completed)
        if duplicate is not None:
            return self._duplicate(duplicate, batches[0])
        first_offset, last_offset = batches[0].base_offset, batches[-1].last_offset
        max_timestamp = max([batch.max_timestamp for batch in batches])
        self._note_epochs(batches)
        segment = self._maybe_roll(len(data), first_offset, last_offset, max_timestamp, now_ms)
        try:
            segment.append(data, batches)
            for txn in completed:
                self._index_aborted(segment, txn)
        except OSError:
            self._undo_append(segment, first_offset, now_ms)
            raise
        self.log_end_offset = last_offset + 1
        for append in producers.values():
            self._producers.update(append)
        for txn in completed:
            self._producers.complete(txn)
        self._producers.map_end_offset = self.log_end_offset
        if producers:
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

    def _check_producers(
        self,
        batches: Sequence[Batch],
        origin: AppendOrigin,
        producers: dict[int, ProducerAppend],
        completed: list[CompletedTxn],
    ) -> BatchMetadata | None:
        """Fills `producers` and `completed`; the original, if a client sent a batch again."""
        for batch in batches:
            if batch.producer_id < 0 or not isinstance(batch, RecordBatch):
                continue
            if origin is AppendOrigin.CLIENT:
                known = self._producers.find(batch.producer_id)
                duplicate = None if known is None else known.find_duplicate(batch)
                if duplicate is not None:
                    return duplicate
            append = producers.get(batch.producer_id)
            if append is None:
                append = self._producers.prepare(batch.producer_id, origin)
                producers[batch.producer_id] = append
            ended = append.append(batch)
            if ended is not None:
                completed.append(ended)
        return None

    def _index_aborted(self, segment: Segment, txn: CompletedTxn) -> None:
        if txn.is_aborted:
            segment.txn_index.append(
                AbortedTransaction(
                    txn.producer_id,
                    txn.first_offset,
                    txn.last_offset,
                    self._producers.last_stable_offset_after(txn),
                )
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
        active = self._segments.active
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
        active = self._segments.active
        next_offset = max(next_offset, self.log_end_offset)
        if active.size == 0 and active.base_offset == next_offset:
            return active
        active.retire()
        self._producers.map_end_offset = next_offset
        self._producers.take_snapshot()
        segment = self._new_segment(next_offset)
        if active.size == 0:
            self._remove_segments([active])
        else:
            self._keep_open(active)
        self._segments.add(segment)
        self.recovery_point = max(self.recovery_point, next_offset)
        return segment

    def _new_segment(self, base_offset: int) -> Segment:
        segment = self._open_segment(base_offset, "")
        segment.create()
        return segment

    def _open_segment(self, base_offset: int, suffix: str) -> Segment:
        config = self.config
        jitter_ms = 0
        if config.segment_jitter_ms:
            jitter_ms = self._random.randrange(min(config.segment_jitter_ms, config.segment_ms))
        return Segment(
            self._files,
            self.directory,
            base_offset,
            config,
            now_ms=self._clock.now_ms(),
            jitter_ms=jitter_ms,
            suffix=suffix,
        )

    def _keep_open(self, segment: Segment) -> None:
        """Keeps the file of a segment that is only read open, and those of a few others."""
        if segment in self._open_inactive:
            return
        self._open_inactive.append(segment)
        if len(self._open_inactive) > _OPEN_FILES_KEPT:
            oldest = self._open_inactive.popleft()
            if oldest is not self._segments.active:
                oldest.release()

    def _release_files(self) -> None:
        for segment in self._segments:
            segment.release()

    def _remove_segments(self, segments: Sequence[Segment]) -> None:
        """Takes segments out of the log."""
        self._segments.remove(segments)
        self._producers.remove_snapshots([segment.base_offset for segment in segments])
        self._delete_files(segments)

    def _delete_files(self, segments: Sequence[Segment]) -> None:
        """Renames the files at once and removes them after `file.delete.delay.ms`."""
        for segment in segments:
            segment.change_suffix("", DELETED_SUFFIX)

        def remove_files() -> None:
            try:
                for segment in segments:
                    segment.remove()
            except OSError as error:
                self._storage_error(error)

        delay_ms = self.config.file_delete_delay_ms
        self._scheduler.once(f"delete-file {self.topic_partition}", delay_ms, remove_files)

    def _flush(self, *, sync: bool) -> None:
        for segment in self._segments.since(self.recovery_point):
            if sync:
                segment.sync()
            else:
                segment.save_indexes()
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
                segment = self._segments.find_floor(start_offset)
                if (
                    segment is None
                    or start_offset > self.log_end_offset
                    or start_offset < self.log_start_offset
                ):
                    raise self._out_of_range(start_offset)
                limit = self._offset_limit(isolation)
                if start_offset >= limit:
                    metadata = self._metadata_of(start_offset)
                    return FetchDataInfo(NO_RECORDS, metadata, _no_aborted(isolation))
                return self._read(
                    segment, start_offset, limit, max_bytes, isolation, min_one_message
                )
        except OSError as error:
            raise self._storage_error(error) from error

    def _read(
        self,
        segment: Segment,
        start_offset: int,
        limit: int,
        max_bytes: int,
        isolation: FetchIsolation,
        min_one_message: bool,
    ) -> FetchDataInfo:
        found = segment.find_batch(start_offset)
        while found is None:  # all that was left of this segment has been compacted away
            following = self._segments.find_next(segment)
            if following is None:
                metadata = self._metadata_of(self.log_end_offset)
                return FetchDataInfo(NO_RECORDS, metadata, _no_aborted(isolation))
            segment = following
            found = segment.find_batch(start_offset)
        if segment is not self._segments.active:
            self._keep_open(segment)
        metadata = LogOffsetMetadata(start_offset, segment.base_offset, found.position)
        region = segment.read(
            found,
            max_bytes=max_bytes,
            max_position=self._position_limit(segment, limit),
            min_one_message=min_one_message,
        )
        if region is None:
            return FetchDataInfo(NO_RECORDS, metadata, _no_aborted(isolation))
        if isolation is not FetchIsolation.TXN_COMMITTED:
            return FetchDataInfo(region, metadata)
        aborted = self._collect_aborted(segment, start_offset, found, region.size)
        return FetchDataInfo(region, metadata, aborted)

    def _offset_limit(self, isolation: FetchIsolation) -> int:
        if isolation is FetchIsolation.LOG_END:
            return self.log_end_offset
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.high_watermark
        return self.last_stable_offset

    def _position_limit(self, segment: Segment, limit: int) -> int:
        """The position in `segment` at which offset `limit` would begin."""
        if limit >= self.log_end_offset:
            return segment.size
        found = segment.find_batch(limit)
        return segment.size if found is None else found.position

    def _metadata_of(self, offset: int) -> LogOffsetMetadata:
        segment = self._segments.find_floor(offset)
        assert segment is not None, f"{offset} is before the first segment of {self}"
        if offset >= self.log_end_offset:
            return LogOffsetMetadata(offset, segment.base_offset, segment.size)
        found = segment.find_batch(offset)
        position = segment.size if found is None else found.position
        return LogOffsetMetadata(offset, segment.base_offset, position)

    def offset_metadata(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """Up to where a reader may see, and where that lies: for counting the bytes to it."""
        with self._lock:
            return self._metadata_of(self._offset_limit(isolation))

    def _collect_aborted(
        self, segment: Segment, start_offset: int, start: BatchPosition, size: int
    ) -> Sequence[AbortedTransaction]:
        bound = segment.find_upper_bound_offset(OffsetPosition(start_offset, start.position), size)
        upper_bound = bound
        if upper_bound is None:
            following = self._segments.find_next(segment)
            upper_bound = self.log_end_offset if following is None else following.base_offset
        found: list[AbortedTransaction] = []
        current: Segment | None = segment
        while current is not None:
            transactions, is_complete = current.txn_index.collect(start_offset, upper_bound)
            found.extend(transactions)
            if is_complete:
                break
            current = self._segments.find_next(current)
        return found

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
        return self._guarded(lambda: self._find_offset_by_timestamp(timestamp))

    def _find_offset_by_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        for segment in self._segments:
            if segment.max_timestamp.timestamp >= timestamp:
                found = _search_by_timestamp(segment, timestamp, self.log_start_offset)
                if found is not None:
                    return found
        return None

    def find_max_timestamp(self) -> TimestampAndOffset | None:
        """The record with the largest timestamp (KIP-734), the first if there are several."""
        return self._guarded(self._find_max_timestamp)

    def _find_max_timestamp(self) -> TimestampAndOffset | None:
        newest = max(self._segments, key=lambda segment: segment.max_timestamp.timestamp)
        timestamp = newest.max_timestamp.timestamp
        if timestamp < 0:
            return None
        return _search_by_timestamp(newest, timestamp, self.log_start_offset)

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
            return self._segments.first.base_offset

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        with self._lock:
            return self._segments.size

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
        """Notes that a leader of `epoch` begins at `offset`, before it appends anything."""
        self._guarded(lambda: self._epochs.assign(epoch, offset))

    def truncate_to(self, offset: int) -> bool:
        """Drops every record from `offset` on; whether there were any."""
        if offset < 0:
            raise ValueError(f"cannot truncate {self.topic_partition} to offset {offset}")

        def truncate() -> bool:
            if offset >= self.log_end_offset:
                self._epochs.truncate_from_end(self.log_end_offset)
                return False
            _LOG.info("Truncating %s to offset %d", self.topic_partition, offset)
            if self._segments.first.base_offset > offset:
                self._truncate_fully_and_start_at(offset)
            else:
                self._truncate(offset)
            return True

        return self._guarded(truncate)

    def _truncate(self, offset: int) -> None:
        self._note_truncation(offset)
        later = [segment for segment in self._segments if segment.base_offset > offset]
        if later:
            self._remove_segments(later)
        self._segments.active.truncate_to(offset, self._clock.now_ms())
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self._epochs.truncate_from_end(offset)
        rebuild_producers(
            self._producers,
            tuple(self._segments),
            self.log_start_offset,
            offset,
            now_ms=self._clock.now_ms(),
        )
        self.high_watermark = min(self.high_watermark, offset)
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
        self._remove_segments(tuple(self._segments))
        self._segments.add(self._new_segment(offset))
        self._epochs.clear()
        self._producers.truncate_fully_and_start_at(offset)
        self.log_start_offset = self.log_end_offset = offset
        self.recovery_point = self.high_watermark = offset
        self._note_first_unstable()

    def delete_old_segments(self) -> int:
        """Deletes what retention lets go; how many segments that were."""
        return self._guarded(self._delete_old_segments)

    def _delete_old_segments(self) -> int:
        segments = tuple(self._segments)
        expired = find_expired(
            [self._view(segment) for segment in segments],
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
        self._remove_segments(gone)
        self._increment_log_start(self._segments.first.base_offset)
        return len(gone)

    def _view(self, segment: Segment) -> SegmentView:
        following = self._segments.find_next(segment)
        return SegmentView(
            base_offset=segment.base_offset,
            end_offset=self.log_end_offset if following is None else following.base_offset,
            size=segment.size,
            largest_timestamp=segment.largest_timestamp,
            is_active=following is None,
        )

    # -- compaction

    def cleaning_view(self) -> CleaningView:
        """What the cleaner has to know, as of now."""
        return self._guarded(self._cleaning_view)

    def _cleaning_view(self) -> CleaningView:
        segments = tuple(self._segments)
        return CleaningView(
            segments=[
                SegmentToClean(
                    segment=segment,
                    base_offset=segment.base_offset,
                    end_offset=following.base_offset,
                    size=segment.size,
                    first_timestamp=segment.first_timestamp,
                    largest_timestamp=segment.largest_timestamp,
                )
                for segment, following in pairwise(segments)
            ],
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
            lambda: [txn for segment in self._segments for txn in segment.txn_index]
        )

    def find_batches(self, segment: Segment) -> Iterator[Batch] | None:
        """The batches of `segment`, to be read without the lock, if it is still in the log."""

        def find() -> Iterator[Batch] | None:
            if segment not in set(self._segments):
                return None
            self._keep_open(segment)
            return segment.batches()

        return self._guarded(find)

    def new_cleaned_segment(self, base_offset: int) -> Segment:
        """An empty segment beside the log, for `replace_segments`."""

        def make() -> Segment:
            segment = self._open_segment(base_offset, CLEANED_SUFFIX)
            segment.create()
            return segment

        return self._guarded(make)

    def replace_segments(self, new: Segment, old: Sequence[Segment], *, truncations: int) -> bool:
        """Puts a compacted segment in the place of those it was made from.

        False, and nothing is done, when the log was truncated or some of them are gone meanwhile.
        """

        def replace() -> bool:
            if truncations != self._truncations or not set(self._segments).issuperset(old):
                return False
            # From here on a crash leaves the finished new segment, or what it is made from.
            new.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
            self._segments.remove(old)
            self._segments.add(new)
            bases = {segment.base_offset for segment in old}
            self._producers.remove_snapshots(bases.difference({new.base_offset}))
            self._delete_files(old)
            new.change_suffix(SWAP_SUFFIX, "")
            self._keep_open(new)
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
        if self._on_storage_error is not None:
            self._on_storage_error(error)
        return ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"disk failure in the log of {self.topic_partition}: {error}",
        )


def _search_by_timestamp(
    segment: Segment, timestamp: int, log_start_offset: int
) -> TimestampAndOffset | None:
    hint = segment.time_index.lookup(timestamp - 1).offset
    start = segment.offset_index.lookup(max(hint, log_start_offset)).position
    for batch in segment.batches(start):
        if batch.max_timestamp < timestamp:
            continue
        for record in batch.records():
            if record.timestamp >= timestamp and record.offset >= log_start_offset:
                return TimestampAndOffset(
                    record.timestamp, record.offset, batch.partition_leader_epoch
                )
    return None


def _no_aborted(isolation: FetchIsolation) -> Sequence[AbortedTransaction] | None:
    return () if isolation is FetchIsolation.TXN_COMMITTED else None
