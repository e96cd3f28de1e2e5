"""One record, its timestamp type, and constants that all magics share."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.wire_types import MAX_LONG

Header = tuple[str, bytes | None]

NO_TIMESTAMP: Final = -1
LOG_OVERHEAD: Final = 12  # base offset and size, before every batch and message
COMPRESSION_MASK: Final = 0x07  # of the attributes, in every magic
TIMESTAMP_TYPE_FLAG: Final = 0x08


class TimestampType(IntEnum):
    """Who set the timestamps: bit 3 of the attributes. Magic 0 has no timestamps."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record(NamedTuple):
    """A record as a consumer sees it, with its absolute offset."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


class RecordHead(NamedTuple):
    """A record without its contents."""

    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool


def to_long(value: int) -> int:
    """`value` in 64 bits, as Java's arithmetic leaves it: records may carry any time difference."""
    if -MAX_LONG <= value <= MAX_LONG:
        return value
    return (value + 2**63) % 2**64 - 2**63
