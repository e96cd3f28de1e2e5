"""Records of `__consumer_offsets`, byte for byte as Kafka writes them.

A key starts with an int16 that tells the kind of record; the key's message has no other version. A
value starts with an int16 too, the version of its message. A record without a value is a
tombstone. Like Kafka, this writes values in the newest version that is not flexible, which older
brokers can read. Only version 1 can hold the expiry time of an offset.
"""

from typing import Final

from embedkafka.broker.coordinator.decision import LogRecord
from embedkafka.wire.protocol.codec import decode, encode_versioned, leading_version
from embedkafka.wire.protocol.messages.internal import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

_OFFSET_VALUE_VERSION: Final = 3
_OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1
_GROUP_VALUE_VERSION: Final = 3


def offset_record(
    group_id: str, topic: str, partition: int, value: OffsetCommitValue | None
) -> LogRecord:
    """The committed offset of a partition, or its tombstone."""
    key = encode_versioned(OffsetCommitKey(group=group_id, topic=topic, partition=partition), 1)
    if value is None:
        return LogRecord(key, None)
    has_expiry = value.expire_timestamp != -1
    version = _OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else _OFFSET_VALUE_VERSION
    return LogRecord(key, encode_versioned(value, version))


def group_record(group_id: str, value: GroupMetadataValue | None) -> LogRecord:
    """A classic group's metadata, or its tombstone."""
    key = encode_versioned(GroupMetadataKey(group=group_id), 2)
    if value is None:
        return LogRecord(key, None)
    return LogRecord(key, encode_versioned(value, _GROUP_VALUE_VERSION))


def read_key(key: bytes | memoryview) -> OffsetCommitKey | GroupMetadataKey | None:
    """The decoded key; None for other kinds of records."""
    version = leading_version(key)
    if version in (0, 1):
        return decode(OffsetCommitKey, version, memoryview(key)[2:])
    if version == 2:
        return decode(GroupMetadataKey, version, memoryview(key)[2:])
    return None
