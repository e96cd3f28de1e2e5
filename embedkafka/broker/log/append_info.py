"""The result of an append."""

from typing import Final

from embedkafka.broker.log.producers.entry import BatchMetadata
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import Batch

UNKNOWN: Final = -1


class AppendInfo(NamedTuple):
    """The offsets of an append; for a duplicate, those of the original.

    `log_append_time_ms` is -1 if records keep their producer's time.
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
    """The result of the original append, for a producer that sent `batch` again."""
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
    """Batches for a follower do not continue its log."""

    def __init__(self, message: str, *, first_offset: int, last_offset: int) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        self.first_offset = first_offset
        self.last_offset = last_offset
