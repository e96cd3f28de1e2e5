"""Searches for the first record from a timestamp on.

The log finds the batch by its indexes and headers, under its lock. The search in the batch needs no
lock and may take long, because it inflates a compressed batch. The caller picks its thread.
"""

from collections.abc import Callable
from typing import Final

from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.records.batch import Batch
from embedkafka.wire.records.compression import Compression

_QUICK_BYTES: Final = 4096
"""Compressed batches up to this size inflate quickly."""


class TimestampAndOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


class TimestampSearch:
    """Looks for `timestamp` in the batches that `next_batch` returns, from an offset on."""

    def __init__(
        self, next_batch: Callable[[int], Batch | None], timestamp: int, start_offset: int
    ) -> None:
        self._next_batch = next_batch
        self._timestamp = timestamp
        self._start_offset = start_offset
        self._batch = next_batch(start_offset)

    @property
    def is_slow(self) -> bool:
        """Whether `finish` may keep a thread busy for long."""
        batch = self._batch
        return (
            batch is not None
            and batch.size_in_bytes > _QUICK_BYTES
            and batch.compression is not Compression.NONE
        )

    def finish(self) -> TimestampAndOffset | None:
        batch = self._batch
        while batch is not None:
            for record in batch.heads():
                if record.timestamp >= self._timestamp and record.offset >= self._start_offset:
                    return TimestampAndOffset(
                        record.timestamp, record.offset, batch.partition_leader_epoch
                    )
            # The batch's records with that timestamp are below the log start.
            batch = self._next_batch(batch.last_offset + 1)
        return None
