"""How an append ended."""

from typing import Final, NamedTuple

from embedkafka.log.producer_entry import BatchMetadata
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.records.batch import Batch

UNKNOWN: Final = -1


class AppendInfo(NamedTuple):
    """Where an append went; for a duplicate, where the original went.

    `log_append_time_ms` is -1 where records keep the time of their producer.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    num_bytes: int
    last_leader_epoch: int = UNKNOWN
    duplicate: bool = False


def duplicate_of(original: BatchMetadata, batch: Batch, log_start_offset: int) -> AppendInfo:
    """What the producer of `batch` was told when it sent it the first time."""
    return AppendInfo(
        original.first_offset,
        original.last_offset,
        original.timestamp,
        original.timestamp,
        log_start_offset,
        0,
        batch.partition_leader_epoch,
        True,
    )


def nothing_appended(log_start_offset: int, log_end_offset: int) -> AppendInfo:
    return AppendInfo(UNKNOWN, log_end_offset - 1, UNKNOWN, UNKNOWN, log_start_offset, 0)


class UnexpectedAppendOffset(ApiError):
    """A follower was given batches that do not continue its log."""

    def __init__(self, message: str, *, first_offset: int, last_offset: int) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        self.first_offset = first_offset
        self.last_offset = last_offset
