"""Message sets of magic 0 and 1, the format of clients before Kafka 0.11.

A message is its own batch, unless it is compressed: then its value is a message set, and the
outer message is a wrapper. Inner offsets are absolute in magic 0; in magic 1 they count from 0,
and the wrapper has the offset of the last inner message (KIP-31).
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.ids import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.compression import Compression, compress, decompress, decompress_pieces
from embedkafka.wire.records.record import (
    COMPRESSION_MASK,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    Record,
    RecordHead,
    TimestampType,
    to_long,
)

_CRC_END: Final = 16
_HEADER: Final = struct.Struct(">qiIbb")
_TIMESTAMP_POSITION: Final = 18
_KEY_POSITION: Final = (18, 26)

# Offset, size, crc, magic, attributes, timestamp in magic 1, and two lengths, by magic.
MIN_MESSAGE_SIZE: Final = (26, 34)


class LegacyBatch:
    """One outer message of magic 0 or 1, with the attributes of a `RecordBatch`."""

    __slots__ = ("attributes", "buffer", "crc", "last_offset", "magic", "size_in_bytes")

    last_offset: int
    crc: int
    magic: int
    attributes: int

    # Attributes that message sets lack, with the values that mean "none" in v2.
    partition_leader_epoch: Final = NO_LEADER_EPOCH
    producer_id: Final = NO_PRODUCER_ID
    producer_epoch: Final = NO_PRODUCER_EPOCH
    base_sequence: Final = -1
    last_sequence: Final = -1
    has_producer_id: Final = False
    is_transactional: Final = False
    is_control: Final = False
    delete_horizon: Final = None
    record_count: Final = None

    def __init__(self, buffer: memoryview) -> None:
        self.last_offset, length, self.crc, self.magic, self.attributes = _HEADER.unpack_from(
            buffer
        )
        self.size_in_bytes: int = length + LOG_OVERHEAD
        self.buffer = buffer[: self.size_in_bytes]

    def __repr__(self) -> str:
        return (
            f"LegacyBatch(last_offset={self.last_offset}, magic={self.magic}, "
            f"compression={self.compression.name}, size={self.size_in_bytes})"
        )

    @property
    def base_offset(self) -> int:
        """The offset of the first record; decompresses a wrapper to find it."""
        if self.compression is Compression.NONE:
            return self.last_offset
        return next(self.records()).offset

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def compression(self) -> Compression:
        codec = self.attributes & COMPRESSION_MASK
        if codec > Compression.LZ4:
            raise ApiError(
                ErrorCode.INVALID_RECORD, f"unknown compression type id {codec} in magic 0 or 1"
            )
        return Compression(codec)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return TimestampType(bool(self.attributes & TIMESTAMP_TYPE_FLAG))

    @property
    def max_timestamp(self) -> int:
        if self.magic == 0:
            return NO_TIMESTAMP
        timestamp: int = struct.unpack_from(">q", self.buffer, _TIMESTAMP_POSITION)[0]
        return timestamp

    @property
    def base_timestamp(self) -> int:
        return self.max_timestamp

    def is_valid(self) -> bool:
        """Whether the message is complete and its checksum correct."""
        return (
            self.magic in (0, 1)
            and self.size_in_bytes >= MIN_MESSAGE_SIZE[self.magic]
            and len(self.buffer) == self.size_in_bytes
            and zlib.crc32(self.buffer[_CRC_END:]) == self.crc
        )

    def ensure_valid(self) -> None:
        """Raises CORRUPT_MESSAGE unless `is_valid()`."""
        if not self.is_valid():
            raise ApiError(
                ErrorCode.CORRUPT_MESSAGE,
                f"message at offset {self.last_offset} is corrupt (magic {self.magic}, "
                f"size {self.size_in_bytes}, stored crc {self.crc})",
            )

    def records(self) -> Iterator[Record]:
        """The record, or the records inside the wrapper, with absolute offsets."""
        if self.compression is Compression.NONE:
            return iter((self._record(),))
        return iter(self._inner_records())

    def heads(self) -> Iterator[RecordHead]:
        """The records without their values."""
        for record in self.records():
            yield RecordHead(record.offset, record.timestamp, record.key, record.value is not None)

    def check_inflation(self, *, limit: int) -> None:
        """Raises unless a wrapper's content is readable and at most `limit` bytes long."""
        if self.compression is not Compression.NONE:
            wrapped = self._record().value or b""
            for _ in decompress_pieces(self.compression, wrapped, magic=self.magic, limit=limit):
                pass

    def _record(self) -> Record:
        key, position = self._read_bytes(_KEY_POSITION[self.magic])
        value, position = self._read_bytes(position)
        if position != self.size_in_bytes:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, "a message is longer than its key and value")
        return Record(self.last_offset, self.max_timestamp, key, value)

    def _inner_records(self) -> Sequence[Record]:
        wrapped = self._record().value
        if wrapped is None:
            raise ApiError(ErrorCode.INVALID_RECORD, "a compressed message set is null")
        inner = list(self._inner_messages(decompress(self.compression, wrapped, magic=self.magic)))
        if not inner:
            raise ApiError(ErrorCode.INVALID_RECORD, "a compressed message set is empty")
        if self.magic == 0:
            return inner
        base_offset = self._inner_base_offset(inner[-1].offset)
        append_time = (
            self.max_timestamp if self.timestamp_type is TimestampType.LOG_APPEND_TIME else None
        )
        return [
            record._replace(
                offset=base_offset + record.offset,
                timestamp=record.timestamp if append_time is None else append_time,
            )
            for record in inner
        ]

    def _inner_base_offset(self, last_inner_offset: int) -> int:
        if self.last_offset == 0:
            return 0  # some versions of librdkafka leave the wrapper's offset unset
        if self.last_offset < last_inner_offset:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"a compressed message at offset {self.last_offset} holds offset "
                f"{last_inner_offset} relative to its first one",
            )
        return self.last_offset - last_inner_offset

    def _inner_messages(self, message_set: BytesLike) -> Iterator[Record]:
        """The inner messages, without a partial one at the end."""
        view = memoryview(message_set)
        position = 0
        while len(view) - position >= MIN_MESSAGE_SIZE[0]:
            message = LegacyBatch(view[position:])
            if message.size_in_bytes > len(view) - position:
                return
            message.ensure_valid()
            if message.magic != self.magic or message.compression is not Compression.NONE:
                raise ApiError(
                    ErrorCode.INVALID_RECORD,
                    f"a compressed message set of magic {self.magic} holds a message of magic "
                    f"{message.magic} with compression {message.compression.name.lower()}",
                )
            yield message._record()
            position += message.size_in_bytes

    def _read_bytes(self, position: int) -> tuple[bytes | None, int]:
        start, position = position, position + 4
        if position > len(self.buffer):
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, "a message ends before its key or value")
        size: int = struct.unpack_from(">i", self.buffer, start)[0]
        if size < 0:
            return None, position
        if position + size > self.size_in_bytes:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, "a message's key or value ends early")
        return bytes(self.buffer[position : position + size]), position + size


def build_message_set(
    records: Sequence[Record],
    *,
    magic: int,
    compression: Compression = Compression.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """Writes `records`, whose offsets are absolute, as messages of magic 0 or 1; drops headers."""
    flag = TIMESTAMP_TYPE_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    if compression is Compression.NONE or not records:
        return b"".join(_message(record, magic, flag) for record in records)
    if compression is Compression.ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs record batches of magic 2"
        )
    base_offset = records[0].offset if magic == 1 else 0
    inner = b"".join(
        _message(record._replace(offset=record.offset - base_offset), magic, flag)
        for record in records
    )
    wrapper = Record(
        records[-1].offset,
        max(record.timestamp for record in records),
        None,
        bytes(compress(compression, inner, magic=magic)),
    )
    return _message(wrapper, magic, flag | compression)


def _message(record: Record, magic: int, attributes: int) -> bytes:
    body = bytearray((magic, attributes if magic else attributes & COMPRESSION_MASK))
    if magic:
        body += record.timestamp.to_bytes(8, "big", signed=True)
    for data in (record.key, record.value):
        body += (-1 if data is None else len(data)).to_bytes(4, "big", signed=True)
        body += data or b""
    crc = zlib.crc32(body).to_bytes(4, "big")
    size = len(body) + len(crc)
    return struct.pack(">qi", to_long(record.offset), size) + crc + bytes(body)
