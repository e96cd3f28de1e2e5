"""A log's state of its idempotent and transactional producers (KIP-98).

It tells duplicates, new batches and gaps apart, and gives the first offset that consumers of
committed records must not see yet. Rolling a segment writes a snapshot of the state, from which
loading rebuilds it.

Owner: `Log._lock`.
Invariants: `check` changes nothing; `commit` applies its result once the batches are in the log.
`_ongoing` is in the order of first offsets.
Not here: the rules for one producer (`entry`), the snapshot's format
(`snapshot`), reading batches back (`loader`).
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from embedkafka.broker.log.files.txn_index import AbortedTransaction
from embedkafka.broker.log.producers.entry import (
    AppendOrigin,
    BatchMetadata,
    CompletedTxn,
    OngoingTxn,
    ProducerAppend,
    ProducerEntry,
)
from embedkafka.broker.log.producers.snapshot import (
    SUFFIX,
    CorruptSnapshot,
    SnapshotEntry,
    read_snapshot,
    write_snapshot,
)
from embedkafka.broker.log.producers.verification import Verification, Verifications
from embedkafka.runtime.files import Files
from embedkafka.runtime.values import NamedTuple, dataclass
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import NO_SEQUENCE, Batch, RecordBatch

_LOG = logging.getLogger(__name__)


class LastRecord(NamedTuple):
    """The last batch of an active producer; without data, its epoch identifies the marker."""

    last_data_offset: int | None
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A producer in the form of DescribeProducers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class CheckedProducers(NamedTuple):
    """The changes of an append; or, for a batch sent again, the original."""

    appends: Sequence[ProducerAppend] = ()
    completed: Sequence[CompletedTxn] = ()
    duplicate: BatchMetadata | None = None


NO_PRODUCERS = CheckedProducers()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStateConfig:
    """The broker's settings for the producers of every log."""

    producer_id_expiration_ms: int = 24 * 60 * 60 * 1000
    verifies_transactions: bool = False


class ProducerState:
    """All producers of one log, and its snapshot files."""

    def __init__(
        self,
        partition: object,
        files: Files,
        directory: Path,
        config: ProducerStateConfig,
        *,
        find_shift: Callable[[int], int] = lambda offset: 0,
    ) -> None:
        """`find_shift` says how far the timestamp at an offset is behind the brokers' clock."""
        self._partition = partition
        self._find_shift = find_shift
        self._files = files
        self._directory = directory
        self.expiration_ms = config.producer_id_expiration_ms
        self._verifies_transactions = config.verifies_transactions
        self._verifications = Verifications()
        self._entries: dict[int, ProducerEntry] = {}
        self._ongoing: dict[int, OngoingTxn] = {}  # by first offset, and in that order
        self._unreplicated: dict[int, CompletedTxn] = {}
        self._snapshots: list[int] = []
        self._last_snapshot_offset = 0
        self.map_end_offset = 0

    # -- what is known

    @property
    def is_empty(self) -> bool:
        return not self._entries

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open or whose marker is not yet replicated."""
        ongoing = next(iter(self._ongoing), None)
        if not self._unreplicated:
            return ongoing
        unreplicated = min(self._unreplicated)
        return unreplicated if ongoing is None else min(ongoing, unreplicated)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self._entries.get(producer_id)
        return (
            entry is not None
            and entry.current_txn_first_offset is not None
            and entry.producer_epoch == producer_epoch
        )

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
        """By producer id, the record that compaction must keep for sequence checks."""
        return {
            entry.producer_id: LastRecord(
                entry.batches[-1].last_offset if entry.batches else None, entry.producer_epoch
            )
            for entry in self._entries.values()
        }

    # -- appends

    def begin_verification(
        self,
        producer_id: int,
        *,
        producer_epoch: int,
        base_sequence: int,
        bumps_epochs: bool,
        now_ms: int,
    ) -> Verification | None:
        """The verification that the coordinator must confirm before a transaction may start here.

        None if the transaction is already open.
        """
        self._refuse_zombie(producer_id, producer_epoch)
        if self.has_open_transaction(producer_id, producer_epoch):
            return None
        return self._verifications.begin(
            producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            bumps_epochs=bumps_epochs,
            now_ms=now_ms,
        )

    def confirm_verification(self, verification: Verification, producer_epoch: int) -> None:
        self._verifications.confirm(verification, producer_epoch)

    def check(self, batches: Iterable[Batch], origin: AppendOrigin) -> CheckedProducers:
        """Applies the rules to batches with assigned offsets; raises `ApiError` for a breach.

        Compares clients' batches with the last five of their producer first.
        """
        appends: dict[int, ProducerAppend] = {}
        completed: list[CompletedTxn] = []
        for batch in batches:
            producer_id = batch.producer_id
            if producer_id < 0 or not isinstance(batch, RecordBatch):
                continue
            known = self._entries.get(producer_id)
            if origin is AppendOrigin.CLIENT and known is not None:
                duplicate = known.find_duplicate(batch)
                if duplicate is not None:
                    return CheckedProducers(duplicate=duplicate)
            if batch.is_transactional and origin is not AppendOrigin.REPLICATION:
                self._check_transaction(batch, origin, known)
            elif origin is AppendOrigin.CLIENT:
                self._refuse_zombie(producer_id, batch.producer_epoch)
                self._check_begin(batch, known)
            append = appends.get(producer_id)
            if append is None:
                append = ProducerAppend(self._partition, producer_id, known, origin)
                appends[producer_id] = append
            ended = append.append(batch)
            if ended is not None:
                completed.append(ended)
        return CheckedProducers(tuple(appends.values()), completed) if appends else NO_PRODUCERS

    def _check_transaction(
        self, batch: RecordBatch, origin: AppendOrigin, known: ProducerEntry | None
    ) -> None:
        """Lets a batch start a transaction only if its coordinator has confirmed it (KIP-890)."""
        if self.has_open_transaction(batch.producer_id, batch.producer_epoch):
            return
        self._refuse_zombie(batch.producer_id, batch.producer_epoch)
        if batch.is_control:
            return
        if self._verifies_transactions:
            self._verifications.require_confirmed(batch)
        if origin is AppendOrigin.CLIENT:
            self._check_begin(batch, known)

    def _check_begin(self, batch: RecordBatch, known: ProducerEntry | None) -> None:
        """While the producer's transaction waits for its coordinator, other batches wait too."""
        is_first = known is None or not known.batches
        self._verifications.check_sequence(batch, is_first=is_first)

    def _refuse_zombie(self, producer_id: int, producer_epoch: int) -> None:
        known = self._entries.get(producer_id)
        if known is not None and producer_epoch < known.producer_epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch of producer {producer_id} in {self._partition} is {producer_epoch}, which "
                f"is smaller than the last seen epoch {known.producer_epoch}",
            )

    def index_entries(self, checked: CheckedProducers) -> list[AbortedTransaction]:
        """The transaction index entries for transactions that this append aborts."""
        entries: list[AbortedTransaction] = []
        if not checked.completed:
            return entries
        # A follower appends many batches at once, so these may also start transactions.
        ongoing = {**self._ongoing, **_started(checked)}
        for txn in checked.completed:
            if txn.is_aborted:
                stable = _last_stable_offset_after(txn, ongoing)
                entries.append(
                    AbortedTransaction(txn.producer_id, txn.first_offset, txn.last_offset, stable)
                )
            ongoing.pop(txn.first_offset, None)
        return entries

    def commit(self, checked: CheckedProducers) -> None:
        """Applies the result of `check`."""
        for append in checked.appends:
            self._update(append)
        self._ongoing.update(_started(checked))
        for txn in checked.completed:
            self._complete(txn)

    def _update(self, appended: ProducerAppend) -> None:
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
        if appended.is_transactional:
            self._verifications.end(updated.producer_id, marker_epoch=appended.marker_epoch)

    def _complete(self, completed: CompletedTxn) -> None:
        """Moves a transaction from open to ended; its marker may not be replicated yet."""
        if self._ongoing.pop(completed.first_offset, None) is None:
            raise ValueError(f"{completed} of {self._partition} was not open")
        self._unreplicated[completed.first_offset] = completed

    def on_high_watermark(self, high_watermark: int) -> None:
        """Drops ended transactions whose markers are below the high watermark."""
        if self._unreplicated:
            self._unreplicated = {
                first_offset: txn
                for first_offset, txn in self._unreplicated.items()
                if txn.last_offset >= high_watermark
            }

    def on_log_start(self, log_start_offset: int) -> None:
        """Adjusts to a log start past the offset that this state covers."""
        self.on_high_watermark(log_start_offset)
        if self.map_end_offset < log_start_offset:
            self.map_end_offset = log_start_offset
        self._last_snapshot_offset = self._snapshots[-1] if self._snapshots else log_start_offset

    def remove_expired(self, now_ms: int) -> None:
        """Drops producers that have been idle too long and have no open transaction."""
        for entry in [entry for entry in self._entries.values() if self._expired(entry, now_ms)]:
            del self._entries[entry.producer_id]
        self._verifications.remove_older(now_ms - self.expiration_ms)

    def _expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        if entry.current_txn_first_offset is not None:
            return False
        last_offset = entry.batches[-1].last_offset if entry.batches else self.map_end_offset - 1
        last_ms = entry.last_timestamp + self._find_shift(last_offset)
        return now_ms - last_ms >= self.expiration_ms

    # -- snapshots

    def take_snapshot(self) -> None:
        """Writes the state as of `map_end_offset`, unless it is already on disk."""
        if self.map_end_offset <= self._last_snapshot_offset:
            return
        offset = self.map_end_offset
        entries = (_to_snapshot(entry) for entry in self._entries.values())
        write_snapshot(self._files, self.snapshot_path(offset), entries)
        if offset not in self._snapshots:
            self._snapshots = sorted([*self._snapshots, offset])
        self._last_snapshot_offset = offset

    def find_snapshots(self, names: Iterable[str], segment_offsets: Iterable[int]) -> None:
        """Finds the snapshot files of a log; removes strays.

        A snapshot belongs to a segment's base offset. Besides those, only the newest stays, which a
        clean shutdown writes at the log end.
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
        """Returns to the newest snapshot within the given offsets."""
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
        """Switches to another directory, to which the files were moved."""
        self._directory = directory

    def settle_in(
        self, directory: Path, names: Iterable[str], segment_offsets: Iterable[int]
    ) -> None:
        """Switches to the directory of a copy, which has other snapshots."""
        self.move(directory)
        self.find_snapshots(names, segment_offsets)
        self._last_snapshot_offset = 0
        self.take_snapshot()

    def _load_newest(self, log_start_offset: int, now_ms: int) -> None:
        while self._snapshots:
            offset = self._snapshots[-1]
            try:
                loaded = [
                    _from_snapshot(entry)
                    for entry in read_snapshot(self._files, self.snapshot_path(offset))
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
        self._files.remove(self.snapshot_path(offset))
        self._snapshots.remove(offset)

    def snapshot_path(self, offset: int) -> Path:
        return self._directory / f"{offset:020d}{SUFFIX}"


def _started(checked: CheckedProducers) -> dict[int, OngoingTxn]:
    """The transactions that start, in the order of their first offsets."""
    if len(checked.appends) == 1:
        return {txn.first_offset: txn for txn in checked.appends[0].started}
    started = [txn for append in checked.appends for txn in append.started]
    return {txn.first_offset: txn for txn in sorted(started, key=lambda txn: txn.first_offset)}


def _last_stable_offset_after(completed: CompletedTxn, ongoing: Iterable[int]) -> int:
    """The value at the marker: transactions of the same fetch may start after it."""
    after = completed.last_offset + 1
    others = (first_offset for first_offset in ongoing if first_offset != completed.first_offset)
    return min(next(others, after), after)


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
