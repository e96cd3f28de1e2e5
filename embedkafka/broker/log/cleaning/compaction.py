"""Decides which records of a batch compaction keeps.

The newest record of each key stays. A record without a value (a tombstone) also stays until its
batch's delete horizon: `delete.retention.ms` after the first compaction that kept it (KIP-534).
Records of aborted transactions go. The marker of a transaction stays as long as any of its records,
and then until its delete horizon. A producer's last batch stays, empty if necessary, because its
sequence number reveals duplicates.

Owner: none; `CleanedTransactions` belongs to one pass over a log.
Not here: files (`cleaner`).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress

from embedkafka.broker.log.files.txn_index import AbortedTransaction
from embedkafka.broker.log.producers.state import LastRecord
from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.values import dataclass
from embedkafka.wire.records.batch import Batch, RecordBatch
from embedkafka.wire.records.builder import build_batch_at, rebuild_batch
from embedkafka.wire.records.control import ControlType, find_control_type, first_record
from embedkafka.wire.records.legacy import LegacyBatch, build_message_set
from embedkafka.wire.records.record import RecordHead


class OffsetMap:
    """The newest offset of each key in the dirty part of a log, up to `latest_offset`."""

    __slots__ = ("_capacity", "_offsets", "latest_offset")

    def __init__(self, capacity: int, *, latest_offset: int = -1) -> None:
        self._capacity = capacity
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = latest_offset

    def __len__(self) -> int:
        return len(self._offsets)

    def get(self, key: bytes) -> int:
        """The newest offset of `key`, or -1."""
        return self._offsets.get(key, -1)

    def put(self, batch: Batch, start_offset: int, *, is_first: bool = False) -> bool:
        """Adds the keys of `batch` from `start_offset` on; returns False if there is no room.

        There is always room for the first batch.
        """
        for record in batch.heads():
            if record.key is not None and record.offset >= start_offset:
                if len(self._offsets) >= self._capacity and not is_first:
                    return False
                self._offsets[record.key] = record.offset
        return True


class CleanedTransactions:
    """The transactions that are open at the current point of a pass over the log."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen_aborted: set[int] = set()
        self._committed: set[int] = set()
        # Aborted transactions with records left, for the index of the new segment.
        self.retained: list[AbortedTransaction] = []

    def is_aborted(self, batch: Batch) -> bool:
        """Whether `batch` belongs to an aborted transaction."""
        self._advance_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen_aborted.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def is_last_of_its_transaction(self, marker: RecordBatch) -> bool:
        """Whether only `marker` is left of its transaction."""
        self._advance_to(marker.last_offset)
        record = first_record(marker)
        if record is None:
            return True
        control_type = find_control_type(record)
        producer_id = marker.producer_id
        if control_type is ControlType.COMMIT:
            has_records = producer_id in self._committed
            self._committed.discard(producer_id)
            return not has_records
        if control_type is ControlType.ABORT:
            txn = self._aborted.pop(producer_id, None)
            if txn is None or producer_id not in self._seen_aborted:
                return True
            self._seen_aborted.discard(producer_id)
            self.retained.append(txn)
        return False

    def _advance_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            txn = self._to_come.pop()
            self._aborted.setdefault(txn.producer_id, txn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The rules for one pass: the offset map, the time, and which batches are still needed."""

    offsets: OffsetMap
    now_ms: int
    delete_retention_ms: int
    last_records: Mapping[int, LastRecord]
    end_offset: int

    def clean(self, batch: Batch, transactions: CleanedTransactions) -> BytesLike | None:
        """The replacement of `batch`: itself, a smaller batch, an empty one, or None."""
        if isinstance(batch, LegacyBatch):
            return self._clean_legacy(batch)
        if batch.is_control:
            return self._clean_marker(batch, transactions)
        if transactions.is_aborted(batch):
            return self._emptied(batch)
        keeps: list[bool] = []
        has_tombstones = False
        for head in batch.heads():
            keeps.append(self._keeps(head, batch))
            has_tombstones = has_tombstones or (keeps[-1] and not head.has_value)
        if not any(keeps):
            return self._emptied(batch)
        return self._rebuilt(batch, keeps, sets_horizon=has_tombstones)

    def _clean_marker(
        self, batch: RecordBatch, transactions: CleanedTransactions
    ) -> BytesLike | None:
        is_last = transactions.is_last_of_its_transaction(batch)
        horizon = batch.delete_horizon
        if not batch.record_count or (is_last and horizon is not None and horizon <= self.now_ms):
            return self._emptied(batch)
        return self._rebuilt(batch, [True] * batch.record_count, sets_horizon=is_last)

    def _keeps(self, record: RecordHead, batch: Batch) -> bool:
        if record.offset > self.offsets.latest_offset:
            return True
        if record.key is None or record.offset < self.offsets.get(record.key):
            return False
        horizon = batch.delete_horizon
        return record.has_value or horizon is None or self.now_ms < horizon

    def _rebuilt(
        self, batch: RecordBatch, keeps: Sequence[bool], *, sets_horizon: bool
    ) -> BytesLike:
        horizon = batch.delete_horizon
        if sets_horizon and horizon is None:
            horizon = self.now_ms + self.delete_retention_ms
        if horizon == batch.delete_horizon and all(keeps):
            return batch.buffer
        kept = list(compress(batch.records(), keeps))
        return rebuild_batch(batch, kept, delete_horizon=horizon)

    def _emptied(self, batch: RecordBatch) -> BytesLike | None:
        """None, or an empty batch if a producer or the log end needs the header."""
        if not self._is_last_of_producer(batch) and batch.next_offset != self.end_offset:
            return None
        return build_batch_at(
            [],
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            leader_epoch=batch.partition_leader_epoch,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            transactional=batch.is_transactional,
            control=batch.is_control,
            timestamp_type=batch.timestamp_type,
            max_timestamp=batch.max_timestamp,
        )

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        last = self.last_records.get(batch.producer_id) if batch.has_producer_id else None
        if last is None:
            return False
        if last.last_data_offset is not None:
            return batch.last_offset == last.last_data_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch

    def _clean_legacy(self, batch: LegacyBatch) -> BytesLike | None:
        """Message sets have no delete horizon, so their tombstones stay."""
        keeps = [self._keeps(head, batch) for head in batch.heads()]
        if all(keeps):
            return batch.buffer
        if not any(keeps):
            return None
        return build_message_set(
            list(compress(batch.records(), keeps)),
            magic=batch.magic,
            compression=batch.compression,
            timestamp_type=batch.timestamp_type,
        )
