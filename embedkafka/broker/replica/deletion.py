"""The result for one partition of a DeleteRecords request."""

from embedkafka.runtime.ids import NO_OFFSET
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.errors import ErrorCode


class DeletedRecords(NamedTuple):
    """The low watermark that all replicas have reached, or the error."""

    low_watermark: int = NO_OFFSET
    error: ErrorCode = ErrorCode.NONE
