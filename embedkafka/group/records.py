"""Records of `__consumer_offsets`, byte for byte as Kafka writes them.

A key is an int16, which tells the kind of record, and a message without a version of its own; a
value is an int16, its version, and the message in that version. A record without value is a
tombstone. Values are written in the newest version that is not flexible, as Kafka does, so that
older Kafkas read them; an offset with an expiry time needs version 1.
"""

import struct
from collections.abc import Sequence
from typing import Final, TypeVar

from embedkafka.group.decision import LogRecord
from embedkafka.protocol.codec import decode, encode
from embedkafka.protocol.message import message, since
from embedkafka.protocol.message import struct as nested
from embedkafka.protocol.wire_types import Int32, Int64

OFFSETS_TOPIC: Final = "__consumer_offsets"

_OFFSET_VALUE_VERSION: Final = 3
_OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1
_GROUP_VALUE_VERSION: Final = 3

M = TypeVar("M")


@message(versions=(0, 1))
class OffsetCommitKey:
    """Key versions 0 and 1: one partition's offset in one group."""

    group: str
    topic: str
    partition: Int32


@message(versions=(0, 4), flexible=4)
class OffsetCommitValue:
    offset: Int64
    leader_epoch: Int32 = since(3, default=-1)
    metadata: str
    commit_timestamp: Int64
    expire_timestamp: Int64 = since(1, until=1, default=-1)


@message(versions=(2, 2))
class GroupMetadataKey:
    """Key version 2: a classic group."""

    group: str


@message(versions=(0, 4), flexible=4)
class GroupMetadataValue:
    @nested
    class Member:
        member_id: str
        group_instance_id: str | None = since(3, default=None)
        client_id: str
        client_host: str
        rebalance_timeout: Int32 = since(1, default=-1)
        session_timeout: Int32
        subscription: bytes
        assignment: bytes

    protocol_type: str
    generation: Int32
    protocol: str | None
    leader: str | None
    current_state_timestamp: Int64 = since(2, default=-1)
    members: Sequence[Member]


def offset_record(
    group_id: str, topic: str, partition: int, value: OffsetCommitValue | None
) -> LogRecord:
    """The committed offset of a partition, or its tombstone."""
    key = with_version(OffsetCommitKey(group=group_id, topic=topic, partition=partition), 1)
    if value is None:
        return LogRecord(key, None)
    has_expiry = value.expire_timestamp != -1
    version = _OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else _OFFSET_VALUE_VERSION
    return LogRecord(key, with_version(value, version))


def group_record(group_id: str, value: GroupMetadataValue | None) -> LogRecord:
    """A classic group's metadata, or its tombstone."""
    key = with_version(GroupMetadataKey(group=group_id), 2)
    if value is None:
        return LogRecord(key, None)
    return LogRecord(key, with_version(value, _GROUP_VALUE_VERSION))


def read_key(key: bytes | memoryview) -> OffsetCommitKey | GroupMetadataKey | None:
    """What the record is about; None for a kind this version does not know, which is skipped."""
    version = _version(key)
    if version in (0, 1):
        return decode(OffsetCommitKey, version, memoryview(key)[2:])
    if version == 2:
        return decode(GroupMetadataKey, version, memoryview(key)[2:])
    return None


def read_value(cls: type[M], value: bytes | memoryview) -> M:
    """The value in whatever version it was written."""
    return decode(cls, _version(value), memoryview(value)[2:])


def with_version(body: object, version: int) -> bytes:
    return struct.pack(">h", version) + encode(body, version)


def _version(buffer: bytes | memoryview) -> int:
    (version,) = struct.unpack_from(">h", buffer)
    return int(version)
