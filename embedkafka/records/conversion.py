"""Batches of one magic turned into batches of another.

Down for consumers that know message sets only (Fetch below v4), up for what producers before
Kafka 0.11 send, for a log stores magic 2 only.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.records.batch import Batch
from embedkafka.records.builder import build_batch_at
from embedkafka.records.compression import Compression
from embedkafka.records.legacy import build_message_set
from embedkafka.records.record import Record, TimestampType


def down_convert(batches: Iterable[Batch], *, magic: int, first_offset: int = 0) -> bytes:
    """The batches as message sets of `magic` 0 or 1.

    Control batches are left out, for old clients would take them for data; of uncompressed batches
    also the records before `first_offset`. Headers and producer ids are lost. Zstandard has no
    form below magic 2 and raises UNSUPPORTED_COMPRESSION_TYPE.
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


def up_convert(
    batches: Sequence[Batch],
    *,
    base_offset: int,
    leader_epoch: int,
    compression: Compression,
    compression_level: int | None = None,
    append_time: int | None = None,
) -> bytes:
    """All records of `batches`, of any magic, as one batch of magic 2 at consecutive offsets.

    The first batch says who produced them; `append_time` stamps the result with LogAppendTime.
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
