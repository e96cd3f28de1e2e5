"""The result for one partition of a Produce request."""

from collections.abc import Sequence

from embedkafka.broker.log.validation import RecordError
from embedkafka.runtime.ids import NO_OFFSET
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.errors import ErrorCode


class PartitionResponse(NamedTuple):
    """The offsets of the appended batch, or the error."""

    error: ErrorCode = ErrorCode.NONE
    base_offset: int = NO_OFFSET
    log_append_time_ms: int = -1
    log_start_offset: int = NO_OFFSET
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None

    def failed(self, error: ErrorCode) -> "PartitionResponse":
        """The same append, not confirmed by the replicas."""
        return self._replace(error=error)
