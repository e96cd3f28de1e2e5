"""One idempotent or transactional producer in one log, and the rules for its next batch (KIP-98).

A producer numbers its batches without gaps within an epoch. A log remembers the last five: their
sequence numbers reveal a batch sent again, and any other gap is out of order. An epoch older than
the last belongs to a zombie.

Owner: `Log._lock`.
Invariants: a `ProducerAppend` changes only itself; `ProducerState` makes it visible once its
batches are in the log.
"""

import logging
from collections import deque
from enum import Enum
from typing import Final

from embedkafka.runtime.ids import MAX_PRODUCER_EPOCH, NO_PRODUCER_EPOCH
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import NO_SEQUENCE, RecordBatch
from embedkafka.wire.records.control import (
    ControlType,
    EndTransactionMarker,
    first_record,
    read_end_transaction_marker,
)

_LOG = logging.getLogger(__name__)

BATCHES_KEPT: Final = 5
NO_COORDINATOR_EPOCH: Final = -1
_MAX_SEQUENCE: Final = 0x7FFFFFFF


class AppendOrigin(Enum):
    """The sender of batches, which decides what to check."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    BUMPING_COORDINATOR = "coordinator of a producer with a new epoch for every transaction"
    REPLICATION = "replication"


class BatchMetadata(NamedTuple):
    """The part of a batch that we remember, to recognise duplicates."""

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
        """The same batch, if it is among the last five."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        last_sequence = batch.last_sequence
        for known in self.batches:
            if known.last_sequence == last_sequence and known.first_sequence == batch.base_sequence:
                return known
        return None

    def move_to_epoch(self, producer_epoch: int) -> None:
        """Starts a new epoch, with new sequence numbers."""
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch


class ProducerAppend:
    """One producer's batches in one append, checked against that producer's state.

    `marker_epoch` is the epoch of the last batch if that is a marker.
    """

    __slots__ = (
        "_known",
        "_origin",
        "_partition",
        "is_transactional",
        "marker_epoch",
        "started",
        "updated",
    )

    def __init__(
        self, partition: object, producer_id: int, known: ProducerEntry | None, origin: AppendOrigin
    ) -> None:
        self._partition = partition
        self._known = known or ProducerEntry(producer_id)
        self._origin = origin
        self.is_transactional = False
        self.marker_epoch: int | None = None
        self.started: list[OngoingTxn] = []
        self.updated = ProducerEntry(producer_id)
        self.updated.producer_epoch = self._known.producer_epoch
        self.updated.coordinator_epoch = self._known.coordinator_epoch
        self.updated.last_timestamp = self._known.last_timestamp
        self.updated.current_txn_first_offset = self._known.current_txn_first_offset

    def append(self, batch: RecordBatch) -> CompletedTxn | None:
        """Checks and adds one batch; returns the transaction that it ends, if it is a marker."""
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
        self.marker_epoch = None
        self.is_transactional = batch.is_transactional
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
        self._check_bump(producer_epoch, offset)
        self._check_coordinator_epoch(marker, offset)
        self.is_transactional = True
        self.marker_epoch = producer_epoch
        updated = self.updated
        first_offset = updated.current_txn_first_offset
        updated.move_to_epoch(producer_epoch)
        updated.coordinator_epoch = marker.coordinator_epoch
        updated.last_timestamp = timestamp
        updated.current_txn_first_offset = None
        # A marker without data needs no entry in the transaction index.
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
            _LOG.warning("%s", message)  # the leader has accepted it, so the follower must
        else:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, message)

    def _check_bump(self, producer_epoch: int, offset: int) -> None:
        """Refuses the late marker of the transaction before the open one (KIP-1228).

        If each transaction has a new epoch, its marker has the next one. Without an open
        transaction it may be a marker sent twice; and no epoch follows the greatest.
        """
        updated = self.updated
        if (
            self._origin is AppendOrigin.BUMPING_COORDINATOR
            and producer_epoch == updated.producer_epoch
            and updated.current_txn_first_offset is not None
            and producer_epoch != MAX_PRODUCER_EPOCH
        ):
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"the marker of producer {updated.producer_id} at offset {offset} in "
                f"{self._partition} has epoch {producer_epoch}, and so has the open transaction",
            )

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
            # Without a known epoch, accept any sequence: retention may have removed the
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


def _follows(last_sequence: int, next_sequence: int) -> bool:
    return next_sequence == last_sequence + 1 or (
        next_sequence == 0 and last_sequence == _MAX_SEQUENCE
    )
