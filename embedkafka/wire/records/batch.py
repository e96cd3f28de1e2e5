"""Record batches of magic 2, read in place.

A `RecordBatch` is a view: it unpacks the header of 61 bytes and keeps the rest as a `memoryview`.
Only `records()` parses the records inside. `read_batches` walks a buffer of batches of any magic;
batches of magic 0 and 1 are `LegacyBatch`es, with the same attributes.
Not here: which batches a log accepts (`log.validation`), and writing them (`records.builder`).
"""

import struct
from collections.abc import Iterator
from typing import Final

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.ids import NO_PRODUCER_ID
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.checksum import crc32c
from embedkafka.wire.records.compression import CannotDecompress, Compression, decompress_pieces
from embedkafka.wire.records.legacy import MIN_MESSAGE_SIZE, LegacyBatch
from embedkafka.wire.records.record import (
    COMPRESSION_MASK,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_FLAG,
    Header,
    Record,
    RecordHead,
    TimestampType,
    to_long,
)
from embedkafka.wire.records.varint import EndsEarly, decode_varint
from embedkafka.wire.records.walk import Checked, check_records, read_heads

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35

TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

NO_SEQUENCE: Final = -1

_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_COMPRESSIONS: Final = tuple(Compression)


class RecordBatch:
    """One batch of magic 2 at the start of a buffer of at least its header's 61 bytes."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_in_bytes",
    )

    base_offset: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, buffer: memoryview) -> None:
        (
            self.base_offset,
            length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(buffer)
        self.size_in_bytes: int = length + LOG_OVERHEAD
        self.buffer = buffer if len(buffer) == self.size_in_bytes else buffer[: self.size_in_bytes]

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets={self.base_offset}..{self.last_offset}, magic={self.magic}, "
            f"count={self.record_count}, size={self.size_in_bytes}, "
            f"producer={self.producer_id}/{self.producer_epoch}/{self.base_sequence}, "
            f"transactional={self.is_transactional}, control={self.is_control})"
        )

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def compression(self) -> Compression:
        codec = self.attributes & COMPRESSION_MASK
        if codec >= len(_COMPRESSIONS):
            raise CannotDecompress(f"unknown compression type id {codec}")
        return _COMPRESSIONS[codec]

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & TIMESTAMP_TYPE_FLAG:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon(self) -> int | None:
        """When compaction may drop tombstones and markers; replaces the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_to_sequence(self.base_sequence, self.last_offset_delta)

    def is_valid(self) -> bool:
        """Whether the batch is complete and its checksum correct."""
        return (
            self.size_in_bytes >= HEADER_SIZE
            and len(self.buffer) == self.size_in_bytes
            and crc32c(self.buffer[ATTRIBUTES_POSITION:]) == self.crc
        )

    def ensure_valid(self) -> None:
        """Raises CORRUPT_MESSAGE unless `is_valid()`."""
        if not self.is_valid():
            raise ApiError(
                ErrorCode.CORRUPT_MESSAGE,
                f"record batch at offset {self.base_offset} is corrupt (size {self.size_in_bytes},"
                f" {len(self.buffer)} bytes available, stored crc {self.crc})",
            )

    def check_records(self, *, limit: int, in_place: bool = True) -> Checked:
        """Raises unless the records match the header, and inflate to at most `limit`.

        Kafka has other rules for batches that it rebuilds: those are not `in_place`.
        """
        return check_records(
            decompress_pieces(self.compression, self.buffer[HEADER_SIZE:], limit=limit),
            self.record_count,
            is_compressed=self.compression is not Compression.NONE,
            in_place=in_place,
        )

    def heads(self) -> Iterator[RecordHead]:
        """The records without values and headers, held in memory a little at a time."""
        is_append_time = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        for timestamp_delta, offset_delta, key, has_value in read_heads(
            self._pieces(), self.record_count
        ):
            yield RecordHead(
                self.base_offset + offset_delta,
                self.max_timestamp
                if is_append_time
                else to_long(self.base_timestamp + timestamp_delta),
                key,
                has_value,
            )

    def records(self) -> Iterator[Record]:
        """The records, decompressed and parsed; raises INVALID_RECORD if malformed."""
        records = self._parse(self._pieces())
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return _with_timestamp(records, self.max_timestamp)
        return records

    def _pieces(self) -> Iterator[bytes]:
        if self.record_count < 0:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"found invalid record count {self.record_count} in magic v{self.magic} batch",
            )
        if not self.record_count and len(self.buffer) == HEADER_SIZE:
            return iter(())  # compaction has emptied it; every codec writes something for nothing
        return decompress_pieces(self.compression, self.buffer[HEADER_SIZE:])

    def _parse(self, pieces: Iterator[bytes]) -> Iterator[Record]:
        payload = next(pieces, b"")
        position = 0
        base_offset, base_timestamp = self.base_offset, self.base_timestamp
        left = self.record_count
        while left:
            try:
                delta, timestamp_delta, key, value, headers, position = _read_record(
                    payload, position
                )
            except EndsEarly:
                more = _read_at_least(pieces, len(payload) - position)
                if not more:
                    raise
                payload, position = payload[position:] + more, 0
                continue
            left -= 1
            timestamp = to_long(base_timestamp + timestamp_delta)
            yield Record(base_offset + delta, timestamp, key, value, headers)
        if position != len(payload) or next(pieces, None):
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                "incorrect declared batch size, records still remaining in batch",
            )


Batch = RecordBatch | LegacyBatch


def read_batches(buffer: BytesLike) -> Iterator[Batch]:
    """The batches in `buffer`, without a partial one at its end, as in a fetch response.

    Impossible sizes and unknown magics raise CORRUPT_MESSAGE.
    """
    view = memoryview(buffer)
    end = len(view)
    position = 0
    while position < end:
        size = next_batch_size(view, position, end)
        if size is None or position + size > end:
            return
        batch = view[position : position + size]
        yield RecordBatch(batch) if batch[MAGIC_POSITION] == 2 else LegacyBatch(batch)
        position += size


def next_batch_size(view: memoryview, position: int, end: int) -> int | None:
    """The total size of the batch at `position`, or None if there are too few bytes to tell."""
    if end - position <= MAGIC_POSITION:
        return None
    length: int = _OFFSET_AND_LENGTH.unpack_from(view, position)[1]
    magic = view[position + MAGIC_POSITION]
    if magic > 2:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"invalid magic {magic} found in record batch")
    size = length + LOG_OVERHEAD
    if size < (HEADER_SIZE if magic == 2 else MIN_MESSAGE_SIZE[magic]):
        raise ApiError(
            ErrorCode.CORRUPT_MESSAGE,
            f"record size {length} is less than the minimum record overhead of magic v{magic}",
        )
    return size


def add_to_sequence(sequence: int, increment: int) -> int:
    """`sequence` plus `increment`; sequences wrap from the greatest 32-bit integer to 0."""
    if sequence > 0x7FFFFFFF - increment:
        return increment - (0x7FFFFFFF - sequence) - 1
    return sequence + increment


def _with_timestamp(records: Iterator[Record], timestamp: int) -> Iterator[Record]:
    return (record._replace(timestamp=timestamp) for record in records)


def _read_at_least(pieces: Iterator[bytes], size: int) -> bytes:
    """Joins pieces until they hold `size` bytes: one copy of a large record, not one per piece."""
    more: list[bytes] = []
    while size >= 0 and (piece := next(pieces, None)) is not None:
        more.append(piece)
        size -= len(piece)
    return b"".join(more)


def _read_record(
    payload: bytes, position: int
) -> tuple[int, int, bytes | None, bytes | None, tuple[Header, ...], int]:
    """Offset delta, timestamp delta, key, value and headers, and the position after them."""
    size, start = decode_varint(payload, position)
    timestamp_delta, position = decode_varint(payload, start + 1)  # after the attributes
    offset_delta, position = decode_varint(payload, position)
    key, position = _read_bytes(payload, position)
    value, position = _read_bytes(payload, position)
    header_count, position = decode_varint(payload, position)
    headers: tuple[Header, ...] = ()
    if header_count:
        headers, position = _read_headers(payload, position, header_count)
    if position - start != size:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"invalid record size: expected {size} bytes in record payload, "
            f"but instead read {position - start}",
        )
    return offset_delta, timestamp_delta, key, value, headers, position


def _read_bytes(payload: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = decode_varint(payload, position)
    if size < 0:
        return None, position
    end = position + size
    if end > len(payload):
        raise EndsEarly("a record's key or value ends early")
    return payload[position:end], end


def _read_headers(payload: bytes, position: int, count: int) -> tuple[tuple[Header, ...], int]:
    if count < 0:
        raise ApiError(ErrorCode.INVALID_RECORD, f"found invalid number of record headers {count}")
    headers: list[Header] = []
    for _ in range(count):
        key, position = _read_bytes(payload, position)
        if key is None:
            raise ApiError(ErrorCode.INVALID_RECORD, "found a record header without a key")
        value, position = _read_bytes(payload, position)
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), position
