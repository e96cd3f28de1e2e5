"""Converts batches from one magic to another.

Down for consumers that only know message sets (Fetch below v4); up for producers before Kafka 0.11,
because a log stores only magic 2.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from embedkafka.runtime.buffers import BytesLike
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import HEADER_SIZE, Batch, RecordBatch, read_batches
from embedkafka.wire.records.builder import build_batch_at
from embedkafka.wire.records.compression import Compression
from embedkafka.wire.records.legacy import build_message_set
from embedkafka.wire.records.record import Record, TimestampType

_FILLER: Final = struct.Struct(">qi")


def down_convert(batches: Iterable[Batch], *, magic: int, first_offset: int = 0) -> bytes:
    """Converts the batches to message sets of `magic` 0 or 1.

    Leaves out control batches, which old clients would take for data, and from uncompressed batches
    the records before `first_offset`. Headers and producer ids are lost. Zstandard does not exist
    below magic 2 and raises UNSUPPORTED_COMPRESSION_TYPE.
    """
    converted: list[bytes] = []
    for batch in batches:
        if batch.is_control:
            continue
        if batch.magic <= magic:
            converted.append(bytes(batch.buffer))
            continue
        compression = batch.compression
        if compression is Compression.ZSTD:
            raise ApiError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"down-conversion of zstd-compressed batches to magic {magic} is not supported",
            )
        records = [
            record
            for record in batch.records()
            if compression is not Compression.NONE or record.offset >= first_offset
        ]
        converted.append(
            build_message_set(
                records,
                magic=magic,
                compression=compression,
                timestamp_type=batch.timestamp_type,
            )
        )
    return b"".join(converted)


def down_convert_fetched(records: BytesLike, *, magic: int, first_offset: int) -> bytes:
    """The message sets to send to an old consumer in place of the fetched `records`.

    They are as long as `records`, or as the first converted batch if that is longer, because Kafka
    announces the size of an answer before it converts. The end is cut off, or padded with the head
    of a message that never ends, which consumers skip like any partial message. Raises
    UNSUPPORTED_COMPRESSION_TYPE if the first batch cannot be converted. A later one ends the
    answer, and the consumer's next fetch meets the error.
    """
    size = 0
    converted = bytearray()
    for batch in read_batches(records):
        size = size or _FILLER.size
        try:
            part = down_convert((batch,), magic=magic, first_offset=first_offset)
        except ApiError:
            if converted:
                break
            raise
        if part and not converted:
            size = max(len(records), len(part))
        converted += part
        if len(converted) >= size:
            break
    missing = size - len(converted)
    if missing > 0:
        converted += _FILLER.pack(-1, max(missing + 1, HEADER_SIZE)).ljust(missing, b"\0")
    return bytes(converted[:size])


def count_records(records: BytesLike) -> int:
    """The records of all complete batches."""
    return sum(
        batch.record_count if isinstance(batch, RecordBatch) else sum(1 for _ in batch.records())
        for batch in read_batches(records)
    )


def up_convert(
    batches: Sequence[Batch],
    *,
    base_offset: int,
    leader_epoch: int,
    compression: Compression,
    compression_level: int | None = None,
    append_time: int | None = None,
) -> bytes:
    """Joins the records of `batches` of any magic into one of magic 2, at consecutive offsets.

    The first batch names the producer; `append_time` stamps the result with LogAppendTime.
    """
    records = [
        Record(offset, record.timestamp, record.key, record.value, record.headers)
        for offset, record in enumerate(
            chain.from_iterable(batch.records() for batch in batches), base_offset
        )
    ]
    first = batches[0]
    return build_batch_at(
        records,
        base_offset=base_offset,
        last_offset=records[-1].offset if records else first.last_offset,
        leader_epoch=leader_epoch,
        compression=compression,
        compression_level=compression_level,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.base_sequence,
        transactional=first.is_transactional,
        control=first.is_control,
        timestamp_type=(
            TimestampType.CREATE_TIME if append_time is None else TimestampType.LOG_APPEND_TIME
        ),
        max_timestamp=append_time,
    )
