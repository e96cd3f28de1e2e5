"""Writes record batches of magic 2."""

from collections.abc import Iterable, Sequence
from typing import Final

from embedkafka.runtime.ids import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from embedkafka.wire.records.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    RecordBatch,
)
from embedkafka.wire.records.checksum import crc32c
from embedkafka.wire.records.compression import Compression, compress
from embedkafka.wire.records.record import (
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    Header,
    Record,
    TimestampType,
    to_long,
)
from embedkafka.wire.records.varint import encode_varint

NewRecord = tuple[int, bytes | None, bytes | None, Sequence[Header]]

_NULL: Final = encode_varint(-1)


def build_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """A batch of `(timestamp, key, value, headers)` at consecutive offsets.

    With LOG_APPEND_TIME, every record reads back with the greatest timestamp.
    """
    numbered = [
        Record(offset, timestamp, key, value, headers)
        for offset, (timestamp, key, value, headers) in enumerate(records, base_offset)
    ]
    return build_batch_at(
        numbered,
        base_offset=base_offset,
        last_offset=base_offset + len(numbered) - 1,
        leader_epoch=leader_epoch,
        compression=compression,
        compression_level=compression_level,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        timestamp_type=timestamp_type,
    )


def build_batch_at(
    records: Sequence[Record],
    *,
    base_offset: int,
    last_offset: int,
    leader_epoch: int,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    max_timestamp: int | None = None,
    delete_horizon: int | None = None,
) -> bytes:
    """A batch whose records keep their own offsets, with gaps where compaction removed some.

    Pass `max_timestamp` if it must outlive its record. An empty batch keeps the offsets and the
    producer's sequence of its former records.
    """
    if delete_horizon is not None:
        base_timestamp = delete_horizon
    else:
        base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    payload = bytearray()
    for record in records:
        append_record(payload, record, base_offset=base_offset, base_timestamp=base_timestamp)
    body = compress(compression, payload, level=compression_level) if records else b""
    attributes = (
        compression
        | (TIMESTAMP_TYPE_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_FLAG if transactional else 0)
        | (CONTROL_FLAG if control else 0)
        | (DELETE_HORIZON_FLAG if delete_horizon is not None else 0)
    )
    batch = bytearray(HEADER_SIZE)
    batch += body
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        2,
        0,
        attributes,
        last_offset - base_offset,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    write_crc(batch)
    return bytes(batch)


def rebuild_batch(
    batch: RecordBatch,
    records: Sequence[Record],
    *,
    compression: Compression | None = None,
    compression_level: int | None = None,
    delete_horizon: int | None = None,
) -> bytes:
    """`batch` with other contents or another codec; offsets, producer and flags stay."""
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return build_batch_at(
        records,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.partition_leader_epoch,
        compression=batch.compression if compression is None else compression,
        compression_level=compression_level,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control,
        timestamp_type=batch.timestamp_type,
        max_timestamp=batch.max_timestamp if is_append_time or not records else None,
        delete_horizon=delete_horizon,
    )


def write_crc(batch: bytearray | memoryview) -> None:
    """Stamps a complete batch with the checksum of its present content."""
    crc = crc32c(memoryview(batch)[ATTRIBUTES_POSITION:])
    batch[CRC_POSITION:ATTRIBUTES_POSITION] = crc.to_bytes(4, "big")


def append_record(
    payload: bytearray, record: Record, *, base_offset: int, base_timestamp: int
) -> None:
    """Adds one record to the payload of a batch that starts at the given offset and time."""
    _, timestamp, key, value, headers = record
    body = bytearray(1)  # the record's attributes, so far unused
    body += encode_varint(to_long(timestamp - base_timestamp))
    body += encode_varint(record.offset - base_offset)
    _append_bytes(body, key)
    _append_bytes(body, value)
    body += encode_varint(len(headers))
    for name, content in headers:
        _append_bytes(body, name.encode())
        _append_bytes(body, content)
    payload += encode_varint(len(body))
    payload += body


def _append_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out += _NULL
    else:
        out += encode_varint(len(data))
        out += data
