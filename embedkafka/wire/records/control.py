"""Control records: the markers that end a transaction in a partition."""

import struct
from enum import IntEnum
from typing import Final

from embedkafka.runtime.ids import NO_LEADER_EPOCH
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import RecordBatch
from embedkafka.wire.records.builder import build_batch
from embedkafka.wire.records.record import Record

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0


class ControlType(IntEnum):
    """The types of control records; those above COMMIT belong to KRaft and never occur here."""

    ABORT = 0
    COMMIT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionMarker:
    """The outcome of a transaction, and the epoch of the coordinator that decided it."""

    control_type: ControlType
    coordinator_epoch: int


def build_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """The control batch that a transaction coordinator writes to each partition."""
    key = _KEY.pack(_VERSION, marker.control_type)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [(timestamp, key, value, ())],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def find_control_type(record: Record) -> ControlType | None:
    """The type of a control record, or None if it is unknown."""
    if record.key is None or len(record.key) < _KEY.size:
        raise ApiError(ErrorCode.INVALID_RECORD, "the key of a control record is too short")
    version, control_type = _KEY.unpack_from(record.key)
    if version < 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"invalid control record version {version}")
    return ControlType(control_type) if control_type in (0, 1) else None


def read_end_transaction_marker(record: Record) -> EndTransactionMarker | None:
    """The marker in `record`, or None for another kind of control record."""
    control_type = find_control_type(record)
    if control_type is None:
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise ApiError(ErrorCode.INVALID_RECORD, "the value of an end marker is too short")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"invalid end marker version {version}")
    return EndTransactionMarker(control_type=control_type, coordinator_epoch=coordinator_epoch)


def first_record(batch: RecordBatch) -> Record | None:
    """The only record of a control batch, or None if compaction has removed it."""
    return next(iter(batch.records()), None)
