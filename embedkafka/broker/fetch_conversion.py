"""Converts fetched data for consumers of older versions.

Owner: none; these are functions of the fetched data and of the log's settings.
Not here: how batches become message sets (`records.conversion`).
"""

from typing import Final

from embedkafka.broker.log.log import LogConfig
from embedkafka.broker.replica.fetch import PartitionData, bytes_of
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.conversion import down_convert_fetched

LAST_CONVERTED: Final = 5
"""The newest Fetch version that needs a change: later ones know KAFKA_STORAGE_ERROR."""

REFUSALS: Final = frozenset({ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
"""The errors for batches that cannot be converted; records are null then."""

_LAST_OF_MAGIC_0: Final = 1
LAST_OF_MESSAGE_SETS: Final = 3


def for_older_client(
    data: PartitionData, *, version: int, fetch_offset: int, config: LogConfig | None
) -> PartitionData:
    """One partition's data in a form that Fetch `version` (at most `LAST_CONVERTED`) can carry.

    `config` is None if this broker has no such log.
    """
    if data.error is ErrorCode.KAFKA_STORAGE_ERROR:
        return data._replace(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if config is None or version > LAST_OF_MESSAGE_SETS:
        return data
    if config.compression_type == "zstd":
        return PartitionData(data.topic_partition, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if not config.message_downconversion_enable:
        return PartitionData(data.topic_partition, ErrorCode.UNSUPPORTED_VERSION)
    try:
        converted = down_convert_fetched(
            bytes_of(data.records),
            magic=0 if version <= _LAST_OF_MAGIC_0 else 1,
            first_offset=fetch_offset,
        )
    except ApiError as error:
        return PartitionData(data.topic_partition, error.code)
    return data._replace(records=memoryview(converted))
