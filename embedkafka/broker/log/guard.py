"""Guards every call of a log: takes the lock, refuses a closed log, reports disk failures.

Owner: the `Log` it belongs to, and `CleanableLog`, the cleaner's access to it.
Invariants: an OSError never leaves a log; it becomes KAFKA_STORAGE_ERROR after it was reported.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from embedkafka.runtime.files import is_disk_failure
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.locks import ranked_lock
from embedkafka.wire.protocol.errors import ApiError, ErrorCode

_LOG = logging.getLogger(__name__)

T = TypeVar("T")


class LogGuard:
    """The lock of one log, and whether it is closed."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        on_storage_error: Callable[[OSError], None] | None,
        *,
        lock_rank: int,
    ) -> None:
        self.lock = ranked_lock(f"log {topic_partition}", lock_rank)
        self.is_closed = False
        self.on_storage_error = on_storage_error
        self._topic_partition = topic_partition

    def run(self, act: Callable[[], T]) -> T:
        """Runs `act` under the lock, if the log is open."""
        try:
            with self.lock:
                self.require_open()
                return act()
        except OSError as error:
            raise self.storage_error(error) from error

    def require_open(self) -> None:
        if self.is_closed:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self._topic_partition} is closed"
            )

    def storage_error(self, error: OSError) -> ApiError:
        """Reports a disk failure, and returns the error for the client."""
        _LOG.error("Disk failure in the log of %s: %s", self._topic_partition, error)
        if self.on_storage_error is not None and is_disk_failure(error):
            self.on_storage_error(error)
        return ApiError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"disk failure in the log of {self._topic_partition}: {error}",
        )
