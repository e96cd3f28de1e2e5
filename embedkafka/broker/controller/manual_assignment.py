"""Checks the replicas that a client chooses for a partition, in Kafka's words."""

from collections.abc import Collection, Sequence

from embedkafka.wire.protocol.errors import ApiError, ErrorCode


def check_replicas(replicas: Sequence[int], registered: Collection[int]) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT unless `replicas` are distinct, registered brokers."""
    if not replicas:
        raise _refused("includes an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker not in registered:
            raise _refused(f"includes broker {broker}, but no such broker is registered.")
        if broker == previous:
            raise _refused(f"includes the broker {broker} more than once.")
        previous = broker


def _refused(reason: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {reason}"
    )
