"""What a log knows of idempotent and transactional producers (KIP-98).

For each producer id: its epoch, its last five batches, and the transaction that it has open. From
that a log tells a duplicate from a new batch and from a gap, and knows the first offset that
readers of committed records must not see yet. The state up to an offset is written to a snapshot
when a segment is rolled, and rebuilt from there.

Owner: `Log._lock`.
Invariants: a `ProducerAppend` changes nothing but itself; `ProducerState.update` makes it visible
once its batches are in the log. `ongoing` is in the order of first offsets.
Not here: the snapshot's format (`producer_snapshot`); reading batches back (`loader`).
"""

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from embedkafka.log.producer_snapshot import (
    SUFFIX,
    CorruptSnapshot,
    SnapshotEntry,
    read_snapshot,
    write_snapshot,
)
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, RecordBatch
from embedkafka.records.control import (
    ControlType,
    EndTransactionMarker,
    first_record,
    read_end_transaction_marker,
)
from embedkafka.runtime.files import Files

_LOG = logging.getLogger(__name__)

BATCHES_KEPT: Final = 5
NO_COORDINATOR_EPOCH: Final = -1
_MAX_SEQUENCE: Final = 0x7FFFFFFF


class AppendOrigin(Enum):
    """Who wrote the batches: what is checked depends on how far they are trusted."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class BatchMetadata(NamedTuple):
    """What is remembered of a batch, to know it again."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + _MAX_SEQUENCE + 1

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class OngoingTxn(NamedTuple):
    """A transaction without its marker."""

    producer_id: int
    first_offset: int


class CompletedTxn(NamedTuple):
    """A transaction whose marker is at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class LastRecord(NamedTuple):
    """The last batch of an active producer; without data, its epoch says which marker it is."""

    last_data_offset: int | None
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A producer as DescribeProducers shows it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class ProducerEntry:
    """The state of one producer id in one log."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp = -1
        self.current_txn_first_offset: int | None = None
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_KEPT)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find_duplicate(self, batch: RecordBatch) -> BatchMetadata | None:
        """The same batch among the last five."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        last_sequence = batch.last_sequence
        for known in self.batches:
            if known.last_sequence == last_sequence and known.first_sequence == batch.base_sequence:
                return known
        return None

    def move_to_epoch(self, producer_epoch: int) -> None:
        """A new epoch starts with new sequences."""
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch


class ProducerAppend:
    """One producer's batches in one append, checked against what is known of that producer."""

    __slots__ = ("_known", "_origin", "_partition", "started", "updated")

    def __init__(
        self, partition: object, producer_id: int, known: ProducerEntry | None, origin: AppendOrigin
    ) -> None:
        self._partition = partition
        self._known = known or ProducerEntry(producer_id)
        self._origin = origin
        self.started: list[OngoingTxn] = []
        self.updated = ProducerEntry(producer_id)
        self.updated.producer_epoch = self._known.producer_epoch
        self.updated.coordinator_epoch = self._known.coordinator_epoch
        self.updated.last_timestamp = self._known.last_timestamp
        self.updated.current_txn_first_offset = self._known.current_txn_first_offset

    def append(self, batch: RecordBatch) -> CompletedTxn | None:
        """Checks and takes in one batch; the transaction that it ends, if it is a marker."""
        if not batch.is_control:
            self._append_data(batch)
            return None
        record = first_record(batch)
        marker = None if record is None else read_end_transaction_marker(record)
        if record is None or marker is None:
            return None
        return self._append_marker(
            marker, batch.producer_epoch, offset=record.offset, timestamp=record.timestamp
        )

    def _append_data(self, batch: RecordBatch) -> None:
        epoch, offset = batch.producer_epoch, batch.base_offset
        self._check_epoch(epoch, offset)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(epoch, batch.base_sequence, offset)
        updated = self.updated
        updated.move_to_epoch(epoch)
        updated.batches.append(
            BatchMetadata(
                batch.last_sequence,
                batch.last_offset,
                batch.last_offset_delta,
                batch.max_timestamp,
            )
        )
        updated.last_timestamp = batch.max_timestamp
        if updated.current_txn_first_offset is not None:
            if not batch.is_transactional:
                raise ApiError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"expected transactional write from producer {updated.producer_id} "
                    f"at offset {offset} in {self._partition}",
                )
        elif batch.is_transactional:
            updated.current_txn_first_offset = offset
            self.started.append(OngoingTxn(updated.producer_id, offset))

    def _append_marker(
        self, marker: EndTransactionMarker, producer_epoch: int, *, offset: int, timestamp: int
    ) -> CompletedTxn | None:
        self._check_epoch(producer_epoch, offset)
        self._check_coordinator_epoch(marker, offset)
        updated = self.updated
        first_offset = updated.current_txn_first_offset
        updated.move_to_epoch(producer_epoch)
        updated.coordinator_epoch = marker.coordinator_epoch
        updated.last_timestamp = timestamp
        updated.current_txn_first_offset = None
        # A marker may come without data: then there is nothing for the transaction index.
        if first_offset is None:
            return None
        is_aborted = marker.control_type is ControlType.ABORT
        return CompletedTxn(updated.producer_id, first_offset, offset, is_aborted)

    def _check_epoch(self, producer_epoch: int, offset: int) -> None:
        if producer_epoch >= self.updated.producer_epoch:
            return
        message = (
            f"epoch of producer {self.updated.producer_id} at offset {offset} in "
            f"{self._partition} is {producer_epoch}, which is smaller than the last seen "
            f"epoch {self.updated.producer_epoch}"
        )
        if self._origin is AppendOrigin.REPLICATION:
            _LOG.warning("%s", message)  # the leader accepted it, so the follower must
        else:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, message)

    def _check_coordinator_epoch(self, marker: EndTransactionMarker, offset: int) -> None:
        if marker.coordinator_epoch >= self.updated.coordinator_epoch:
            return
        message = (
            f"invalid coordinator epoch for producer {self.updated.producer_id} at offset "
            f"{offset} in {self._partition}: {marker.coordinator_epoch} (zombie), "
            f"{self.updated.coordinator_epoch} (current)"
        )
        if self._origin is AppendOrigin.REPLICATION:
            _LOG.info("%s", message)
        else:
            raise ApiError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, message)

    def _check_sequence(self, producer_epoch: int, first_sequence: int, offset: int) -> None:
        updated, known = self.updated, self._known
        if producer_epoch != updated.producer_epoch:
            # With no epoch on record, any sequence will do: retention may have removed the
            # producer's earlier batches (KIP-360).
            if first_sequence != 0 and updated.producer_epoch != NO_PRODUCER_EPOCH:
                raise self._out_of_order(f"new epoch {producer_epoch}", first_sequence, offset)
            return
        if known.producer_epoch == NO_PRODUCER_EPOCH:
            return
        if updated.batches:
            last_sequence = updated.last_sequence
        elif producer_epoch == known.producer_epoch:
            last_sequence = known.last_sequence
        else:
            last_sequence = NO_SEQUENCE
        if _follows(last_sequence, first_sequence):
            return
        raise self._out_of_order(f"current end sequence {last_sequence}", first_sequence, offset)

    def _out_of_order(self, reason: str, first_sequence: int, offset: int) -> ApiError:
        return ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"out of order sequence number for producer {self.updated.producer_id} at offset "
            f"{offset} in {self._partition}: {first_sequence} (incoming), {reason}",
        )


class ProducerState:
    """All producers of one log, and its snapshot files."""

    def __init__(
        self, partition: object, files: Files, directory: Path, *, expiration_ms: int
    ) -> None:
        self._partition = partition
        self._files = files
        self._directory = directory
        self._expiration_ms = expiration_ms
        self._entries: dict[int, ProducerEntry] = {}
        self._ongoing: dict[int, OngoingTxn] = {}
        self._unreplicated: dict[int, CompletedTxn] = {}
        self._snapshots: list[int] = []
        self._last_snapshot_offset = 0
        self.map_end_offset = 0

    # -- what is known

    @property
    def is_empty(self) -> bool:
        return not self._entries

    def find(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or whose marker is not replicated."""
        ongoing = next(iter(self._ongoing), None)
        if not self._unreplicated:
            return ongoing
        unreplicated = min(self._unreplicated)
        return unreplicated if ongoing is None else min(ongoing, unreplicated)

    @property
    def first_undecided_offset(self) -> int | None:
        return next(iter(self._ongoing), None)

    def active_producers(self) -> Sequence[ActiveProducer]:
        return [
            ActiveProducer(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=(
                    -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset
                ),
            )
            for entry in self._entries.values()
        ]

    def last_records(self) -> dict[int, LastRecord]:
        """By producer id what compaction must leave for sequences to be checked."""
        return {
            entry.producer_id: LastRecord(
                entry.batches[-1].last_offset if entry.batches else None, entry.producer_epoch
            )
            for entry in self._entries.values()
        }

    def last_stable_offset_after(self, completed: CompletedTxn) -> int:
        """The last stable offset once `completed` is done, for its entry in the index."""
        for txn in self._ongoing.values():
            if txn.producer_id != completed.producer_id:
                return txn.first_offset
        return completed.last_offset + 1

    # -- appends

    def prepare(self, producer_id: int, origin: AppendOrigin) -> ProducerAppend:
        return ProducerAppend(self._partition, producer_id, self.find(producer_id), origin)

    def update(self, appended: ProducerAppend) -> None:
        """Takes over what an append has learned."""
        updated = appended.updated
        known = self._entries.get(updated.producer_id)
        if known is None:
            self._entries[updated.producer_id] = updated
        else:
            known.move_to_epoch(updated.producer_epoch)
            known.batches.extend(updated.batches)
            known.coordinator_epoch = updated.coordinator_epoch
            known.current_txn_first_offset = updated.current_txn_first_offset
            known.last_timestamp = updated.last_timestamp
        for txn in appended.started:
            self._ongoing[txn.first_offset] = txn

    def complete(self, completed: CompletedTxn) -> None:
        """Moves a transaction from open to ended, though its marker may not be replicated yet."""
        if self._ongoing.pop(completed.first_offset, None) is None:
            raise ValueError(f"{completed} of {self._partition} was not open")
        self._unreplicated[completed.first_offset] = completed

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forgets ended transactions whose markers are below the high watermark."""
        if self._unreplicated:
            self._unreplicated = {
                first_offset: txn
                for first_offset, txn in self._unreplicated.items()
                if txn.last_offset >= high_watermark
            }

    def on_log_start(self, log_start_offset: int) -> None:
        """Follows a log start that has moved past what this state covers."""
        self.on_high_watermark(log_start_offset)
        if self.map_end_offset < log_start_offset:
            self.map_end_offset = log_start_offset
        self._last_snapshot_offset = self._snapshots[-1] if self._snapshots else log_start_offset

    def remove_expired(self, now_ms: int) -> None:
        """Forgets producers that have been silent too long and have no transaction open."""
        for entry in [entry for entry in self._entries.values() if self._expired(entry, now_ms)]:
            del self._entries[entry.producer_id]

    def _expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return (
            entry.current_txn_first_offset is None
            and now_ms - entry.last_timestamp >= self._expiration_ms
        )

    # -- snapshots

    @property
    def latest_snapshot_offset(self) -> int | None:
        return self._snapshots[-1] if self._snapshots else None

    def take_snapshot(self) -> None:
        """Writes the state as of `map_end_offset`, unless that is on disk already."""
        if self.map_end_offset <= self._last_snapshot_offset:
            return
        offset = self.map_end_offset
        entries = (_to_snapshot(entry) for entry in self._entries.values())
        write_snapshot(self._files, self._path(offset), entries)
        if offset not in self._snapshots:
            self._snapshots = sorted([*self._snapshots, offset])
        self._last_snapshot_offset = offset

    def find_snapshots(self, names: Iterable[str], segment_offsets: Iterable[int]) -> None:
        """Finds the snapshot files of a log; strays are removed.

        A snapshot belongs to a segment's base offset; besides those only the newest is kept,
        which a clean shutdown takes at the log end.
        """
        offsets = sorted(
            int(name.removesuffix(SUFFIX))
            for name in names
            if name.endswith(SUFFIX) and name.removesuffix(SUFFIX).isdigit()
        )
        expected = set(segment_offsets)
        newest = max(expected, default=-1)
        kept = [offset for offset in offsets if offset in expected]
        if offsets and offsets[-1] > newest:
            kept.append(offsets[-1])
        self._snapshots = offsets
        for offset in set(offsets).difference(kept):
            self._remove_snapshot(offset)

    def truncate_and_reload(
        self, log_start_offset: int, log_end_offset: int, *, now_ms: int
    ) -> None:
        """Goes back to the newest snapshot within the given offsets."""
        for offset in list(self._snapshots):
            if offset > log_end_offset or offset <= log_start_offset:
                self._remove_snapshot(offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start(log_start_offset)
            return
        self._clear()
        self._load_newest(log_start_offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self._clear()
        for snapshot in list(self._snapshots):
            self._remove_snapshot(snapshot)
        self._last_snapshot_offset = 0
        self.map_end_offset = offset

    def remove_snapshots(self, offsets: Iterable[int]) -> None:
        """Removes the snapshots that belong to deleted segments."""
        for offset in offsets:
            if offset in self._snapshots:
                self._remove_snapshot(offset)

    def move(self, directory: Path) -> None:
        """Goes on in another directory, to which the files were moved."""
        self._directory = directory

    def _load_newest(self, log_start_offset: int, now_ms: int) -> None:
        while self._snapshots:
            offset = self._snapshots[-1]
            try:
                loaded = [
                    _from_snapshot(entry)
                    for entry in read_snapshot(self._files, self._path(offset))
                ]
            except CorruptSnapshot as corrupt:
                _LOG.warning("Producer snapshot of %s is unusable: %s", self._partition, corrupt)
                self._remove_snapshot(offset)
                continue
            self._entries = {
                entry.producer_id: entry for entry in loaded if not self._expired(entry, now_ms)
            }
            self._ongoing = {
                txn.first_offset: txn
                for txn in sorted(_open_transactions(loaded), key=lambda txn: txn.first_offset)
            }
            self._last_snapshot_offset = self.map_end_offset = offset
            return
        self._last_snapshot_offset = self.map_end_offset = log_start_offset

    def _clear(self) -> None:
        self._entries.clear()
        self._ongoing.clear()
        self._unreplicated.clear()

    def _remove_snapshot(self, offset: int) -> None:
        self._files.remove(self._path(offset))
        self._snapshots.remove(offset)

    def _path(self, offset: int) -> Path:
        return self._directory / f"{offset:020d}{SUFFIX}"


def _follows(last_sequence: int, next_sequence: int) -> bool:
    return next_sequence == last_sequence + 1 or (
        next_sequence == 0 and last_sequence == _MAX_SEQUENCE
    )


def _open_transactions(entries: Iterable[ProducerEntry]) -> list[OngoingTxn]:
    return [
        OngoingTxn(entry.producer_id, entry.current_txn_first_offset)
        for entry in entries
        if entry.current_txn_first_offset is not None
    ]


def _to_snapshot(entry: ProducerEntry) -> SnapshotEntry:
    last = entry.batches[-1] if entry.batches else BatchMetadata(NO_SEQUENCE, -1, 0, -1)
    return SnapshotEntry(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=last.last_sequence,
        last_offset=last.last_offset,
        offset_delta=last.offset_delta,
        timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_first_offset=(
            -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset
        ),
    )


def _from_snapshot(stored: SnapshotEntry) -> ProducerEntry:
    entry = ProducerEntry(stored.producer_id)
    entry.producer_epoch = stored.producer_epoch
    entry.coordinator_epoch = stored.coordinator_epoch
    entry.last_timestamp = stored.timestamp
    if stored.current_txn_first_offset >= 0:
        entry.current_txn_first_offset = stored.current_txn_first_offset
    if stored.last_offset >= 0:
        entry.batches.append(
            BatchMetadata(
                stored.last_sequence, stored.last_offset, stored.offset_delta, stored.timestamp
            )
        )
    return entry
