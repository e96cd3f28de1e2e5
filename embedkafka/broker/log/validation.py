"""Checks batches that a leader appends, and assigns their offsets and epoch.

A batch of magic 2 that keeps its codec is patched in place. We walk over a client's records: is
their number that of the header, is each well formed, does each have a key on a compacted topic, are
all timestamps within bounds? Everything else (message sets of magic 0 and 1, another codec) is
rebuilt as one batch of magic 2.

Kafka inflates a client's batch to any size. Here a batch that inflates to more than 64 MiB, or 16
times `max.message.bytes` if that is more, is MESSAGE_TOO_LARGE, and the producer splits it.

Owner: none; these are functions of bytes, settings and the time.
Not here: sequences of idempotent producers (`log.producers.state`), and segment sizes (`log`).
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.producers.entry import AppendOrigin
from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.wire_types import MAX_LONG
from embedkafka.wire.records.batch import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    MAX_TIMESTAMP_POSITION,
    Batch,
    RecordBatch,
    read_batches,
)
from embedkafka.wire.records.builder import write_crc
from embedkafka.wire.records.compression import CannotDecompress, Compression
from embedkafka.wire.records.record import (
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    RecordHead,
    TimestampType,
)

_ERRORS_SHOWN: Final = 3
_MIN_INFLATED_LIMIT: Final = 64 * 1024 * 1024
_MAX_INFLATION: Final = 16
_OFFSET_AND_LENGTH_AND_EPOCH: Final = Struct(">qii")
_ATTRIBUTES: Final = Struct(">h")
_TIMESTAMP: Final = Struct(">q")

_CODECS: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class RecordError(NamedTuple):
    """The reason why one record failed its whole batch (KIP-467)."""

    batch_index: int
    message: str | None


class RecordsRejected(ApiError):
    """A batch was refused because of some of its records."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class Validated(NamedTuple):
    """Batches of magic 2 with assigned offsets and epoch, ready to be written."""

    buffer: BytesLike
    batches: Sequence[RecordBatch]
    append_time: int
    is_rebuilt: bool = False
    """Whether the records are rewritten, in another format or codec."""


def read_valid_batches(
    records: BytesLike, config: LogConfig, origin: AppendOrigin
) -> Sequence[Batch]:
    """The complete batches of an append, with correct checksums and legal sizes.

    Drops a partial batch at the end. Raises CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, or INVALID_RECORD
    if a client numbers its records or sends no complete batch.
    """
    batches = list(read_batches(records))
    from_client = origin is AppendOrigin.CLIENT
    if from_client and not batches and len(records):
        raise _invalid(f"there is no whole batch in the {len(records)} bytes of records")
    max_size = MAX_LONG if origin is AppendOrigin.REPLICATION else config.max_message_bytes
    for batch in batches:
        if from_client and batch.magic == 2 and batch.base_offset != 0:
            raise _invalid(
                f"the base offset of the record batch should be 0, but it is {batch.base_offset}"
            )
        if batch.size_in_bytes > max_size:
            raise _too_large(batch.size_in_bytes, max_size)
        batch.ensure_valid()
    return batches


def assign_offsets(
    batches: Sequence[Batch],
    config: LogConfig,
    origin: AppendOrigin,
    *,
    partition: TopicPartition,
    first_offset: int,
    leader_epoch: int,
    now_ms: int,
    shift_ms: int = 0,
) -> Validated:
    """Checks the batches of a leader's append by Kafka's rules and numbers their records.

    Patches the buffer of the batches in place if it is writable. Accepts timestamps that are right
    on the brokers' clock, `now_ms`, or on the clients' clocks, which are `shift_ms` behind it.
    """
    first = batches[0]
    if origin is AppendOrigin.CLIENT:
        _check_client_batches(batches)
    if len(batches) > 1 and any(batch.magic != first.magic for batch in batches):
        raise _invalid(f"some batches do not have the magic {first.magic} of the first one")
    if origin is AppendOrigin.CLIENT:
        _check_codecs(batches)
    source = _source_codec(batches)
    # Markers keep their codec: the topic's setting is for producers, not for coordinators.
    target = source if first.is_control else _CODECS.get(config.compression_type, source)
    in_place = first.magic == 2 and target is source
    allowed = _allowed_timestamps(config, now_ms, shift_ms)
    _check_records(batches, config, origin, partition, allowed, in_place=in_place)
    append_time = now_ms if config.uses_append_time else NO_TIMESTAMP
    if in_place:
        writable = _writable(batches)
        _number(writable, first_offset, leader_epoch, append_time)
        return Validated(_joined(writable), writable, append_time)
    from embedkafka.wire.records.conversion import up_convert  # old clients send old formats

    rebuilt = up_convert(
        batches,
        base_offset=first_offset,
        leader_epoch=leader_epoch,
        compression=target,
        compression_level=_level(target, config),
        append_time=append_time if config.uses_append_time else None,
    )
    if len(rebuilt) > config.max_message_bytes:
        raise _too_large(len(rebuilt), config.max_message_bytes)
    return Validated(rebuilt, [RecordBatch(memoryview(rebuilt))], append_time, is_rebuilt=True)


def check_fits_segment(size: int, config: LogConfig, partition: TopicPartition) -> None:
    """Refuses an append that even an empty segment could not hold."""
    if size > config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"message batch size is {size} bytes in append to {partition}, which exceeds the "
            f"maximum configured segment size of {config.segment_bytes}",
        )


def _check_client_batches(batches: Sequence[Batch]) -> None:
    for batch in batches:
        if isinstance(batch, RecordBatch):
            _check_count(batch)
        if batch.is_control:
            raise _invalid("clients are not allowed to write control records")
        if batch.producer_id >= 0 and batch.base_sequence < 0:
            raise _invalid(
                f"invalid sequence number {batch.base_sequence} in record batch "
                f"with producerId {batch.producer_id}"
            )
    if len(batches) > 1 and (
        batches[0].magic == 2 or _source_codec(batches) is not Compression.NONE
    ):
        raise _invalid("compressed outer record has more than one batch")


def _check_count(batch: RecordBatch) -> None:
    count, in_range = batch.record_count, batch.last_offset_delta + 1
    if count == in_range and count > 0:
        return
    offsets = f"[{batch.base_offset}, {batch.last_offset}]"
    if in_range <= 0:
        raise _invalid(f"batch has an invalid offset range: {offsets}")
    if count <= 0:
        raise _invalid(f"invalid reported count for record batch: {count}")
    raise _invalid(f"inconsistent batch offset range {offsets} and count of records {count}")


def _check_codecs(batches: Sequence[Batch]) -> None:
    for batch in batches:
        try:
            _ = batch.compression
        except CannotDecompress as error:
            raise _unreadable(error) from error


def _check_records(
    batches: Sequence[Batch],
    config: LogConfig,
    origin: AppendOrigin,
    partition: TopicPartition,
    allowed: tuple[int, int],
    *,
    in_place: bool,
) -> None:
    """Rules for each record; reads records only if one of the rules may be broken."""
    from_client = origin is AppendOrigin.CLIENT
    needs_keys = config.compacts and from_client
    latest = allowed[1]
    has_earliest = config.message_timestamp_before_max_ms != MAX_LONG
    for batch in batches:
        has_all_keys = not needs_keys
        if from_client:
            has_all_keys = _walk(batch, config, in_place=in_place) or not needs_keys
        if (
            not has_all_keys
            or has_earliest
            or batch.max_timestamp > latest
            or batch.magic < 2
            or batch.attributes & TIMESTAMP_TYPE_FLAG
        ):
            errors = _record_errors(batch, config, partition, allowed, needs_keys=needs_keys)
            _raise_record_errors(errors)


def _walk(batch: Batch, config: LogConfig, *, in_place: bool) -> bool:
    """Checks the records and the header's greatest timestamp; returns whether all have keys."""
    limit = max(_MIN_INFLATED_LIMIT, _MAX_INFLATION * config.max_message_bytes)
    try:
        if not isinstance(batch, RecordBatch):
            batch.check_inflation(limit=limit)
            return False  # message sets are rare; every record will be examined
        checked = batch.check_records(limit=limit, in_place=in_place)
    except CannotDecompress as error:
        raise _unreadable(error) from error
    if not batch.attributes & TIMESTAMP_TYPE_FLAG:
        batch.max_timestamp = batch.base_timestamp + checked.max_timestamp_delta
        if batch.base_timestamp < 0 or batch.max_timestamp > MAX_LONG:  # some may be out of range
            batch.max_timestamp = max(
                (head.timestamp for head in batch.heads()), default=NO_TIMESTAMP
            )
    return checked.keyless_index is None


def _record_errors(
    batch: Batch,
    config: LogConfig,
    partition: TopicPartition,
    allowed: tuple[int, int],
    *,
    needs_keys: bool,
) -> list[tuple[ErrorCode, RecordError]]:
    errors: list[tuple[ErrorCode, RecordError]] = []
    for index, record in enumerate(batch.heads()):
        if needs_keys and record.key is None:
            message = (
                f"Compacted topic cannot accept message without key in topic partition {partition}"
            )
            errors.append((ErrorCode.INVALID_RECORD, RecordError(index, message)))
        elif _has_invalid_timestamp(batch, record, config, allowed):
            earliest, latest = allowed[0], min(allowed[1], MAX_LONG)
            message = (
                f"Timestamp {record.timestamp} of message with offset {record.offset} is out of "
                f"range. The timestamp should be within [{earliest}, {latest}]"
            )
            errors.append((ErrorCode.INVALID_TIMESTAMP, RecordError(index, message)))
    return errors


def _has_invalid_timestamp(
    batch: Batch, record: RecordHead, config: LogConfig, allowed: tuple[int, int]
) -> bool:
    if config.uses_append_time or record.timestamp == NO_TIMESTAMP:
        return batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return not allowed[0] <= record.timestamp <= allowed[1]


def _allowed_timestamps(config: LogConfig, now_ms: int, shift_ms: int) -> tuple[int, int]:
    """The earliest and the latest timestamp that is near one of the two clocks."""
    return (
        min(now_ms, now_ms - shift_ms) - config.message_timestamp_before_max_ms,
        max(now_ms, now_ms - shift_ms) + config.message_timestamp_after_max_ms,
    )


def _raise_record_errors(errors: Sequence[tuple[ErrorCode, RecordError]]) -> None:
    if not errors:
        return
    code = errors[0][0]
    record_errors = [error for _, error in errors]
    if code is ErrorCode.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = ", ".join(
            f"RecordError(batchIndex={error.batch_index}, message='{error.message}')"
            for error in record_errors[:_ERRORS_SHOWN]
        )
        message = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
    raise RecordsRejected(code, message, record_errors)


def _source_codec(batches: Sequence[Batch]) -> Compression:
    """The codec of the last compressed batch, which Kafka applies to all of them."""
    for batch in reversed(batches):
        if batch.compression is not Compression.NONE:
            return batch.compression
    return Compression.NONE


def _level(codec: Compression, config: LogConfig) -> int | None:
    levels = {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)


def _writable(batches: Sequence[Batch]) -> list[RecordBatch]:
    """The batches, copied if their buffer is read-only."""
    v2 = [batch for batch in batches if isinstance(batch, RecordBatch)]
    if not v2[0].buffer.readonly:
        return v2
    copies = [RecordBatch(memoryview(bytearray(batch.buffer))) for batch in v2]
    for copy, batch in zip(copies, v2, strict=True):
        copy.max_timestamp = batch.max_timestamp
    return copies


def _joined(batches: Sequence[RecordBatch]) -> BytesLike:
    if len(batches) == 1:
        return batches[0].buffer
    return b"".join(batch.buffer for batch in batches)


def _number(
    batches: Iterable[RecordBatch], first_offset: int, leader_epoch: int, append_time: int
) -> None:
    """Writes offsets, epoch and append time into the headers."""
    offset = first_offset
    for batch in batches:
        buffer = batch.buffer
        _OFFSET_AND_LENGTH_AND_EPOCH.pack_into(
            buffer, 0, offset, batch.size_in_bytes - 12, leader_epoch
        )
        batch.base_offset = offset
        batch.partition_leader_epoch = leader_epoch
        if append_time != NO_TIMESTAMP:
            _stamp(batch, batch.attributes | TIMESTAMP_TYPE_FLAG, append_time)
        elif (
            batch.attributes & TIMESTAMP_TYPE_FLAG
            or _TIMESTAMP.unpack_from(buffer, MAX_TIMESTAMP_POSITION)[0] != batch.max_timestamp
        ):
            _stamp(batch, batch.attributes & ~TIMESTAMP_TYPE_FLAG, batch.max_timestamp)
        offset += batch.last_offset_delta + 1


def _stamp(batch: RecordBatch, attributes: int, max_timestamp: int) -> None:
    batch.attributes = attributes
    batch.max_timestamp = max_timestamp
    _ATTRIBUTES.pack_into(batch.buffer, ATTRIBUTES_POSITION, attributes)
    _TIMESTAMP.pack_into(batch.buffer, MAX_TIMESTAMP_POSITION, max_timestamp)
    write_crc(batch.buffer)
    batch.crc = int.from_bytes(batch.buffer[CRC_POSITION:ATTRIBUTES_POSITION], "big")


def _too_large(size: int, limit: int) -> ApiError:
    return ApiError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the record batch size in the append is {size} bytes which exceeds the maximum "
        f"configured value of {limit}",
    )


def _unreadable(error: CannotDecompress) -> ApiError:
    """Kafka's answer: UNKNOWN_SERVER_ERROR, because a codec library's exception has no code."""
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)
