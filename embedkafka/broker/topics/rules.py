"""Checks names, counts and assignments of new topics, with Kafka's error codes and messages."""

from collections.abc import Collection, Iterable, Sequence

from embedkafka.broker.controller.manual_assignment import check_replicas
from embedkafka.runtime.topic_names import name_fault
from embedkafka.wire.protocol.errors import ApiError, ErrorCode

DEFAULT = -1
"""The client leaves this count to the broker."""

_MAX_PARTITIONS_PER_REQUEST = 10_000
_MAX_RECORDS_PER_REQUEST = 10_000


def check_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION for an illegal name."""
    reason = name_fault(name)
    if reason:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def is_valid_topic_name(name: str) -> bool:
    return name_fault(name) is None


def check_collision(name: str, existing: Iterable[str]) -> None:
    """Refuses a name that differs from another only in `.` and `_`: their metrics would collide."""
    if "." not in name and "_" not in name:
        return
    plain = name.replace(".", "_")
    colliding = sorted(other for other in existing if other.replace(".", "_") == plain)
    if colliding:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {colliding[0]}",
        )


def check_request_size(topics: Iterable[tuple[int, int]]) -> None:
    """Refuses a request that is too large, given each topic's partitions and settings.

    Kafka limits the records that one request adds to its metadata log: one for each partition,
    setting and topic. Checking first saves a broker minutes of placing replicas.
    """
    asked = [(max(partitions, 0), settings) for partitions, settings in topics]
    if sum(partitions for partitions, _ in asked) > _MAX_PARTITIONS_PER_REQUEST:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )
    check_batch_size(sum(1 + partitions + settings for partitions, settings in asked))


def check_batch_size(records: int) -> None:
    if records > _MAX_RECORDS_PER_REQUEST:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
        )


def check_counts(partitions: int, replication: int, alive: int) -> None:
    """Refuses counts that are not positive, and more replicas than live brokers."""
    if replication < 1:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if partitions < 1:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if replication > alive:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication} time(s): The target replication "
            f"factor of {replication} cannot be reached because only {alive} broker(s) are "
            "registered or some brokers have all their log directories cordoned.",
        )


def check_unset(partitions: int, replication: int) -> None:
    """Refuses counts beside a manual assignment."""
    for name, count in (("replication factor", replication), ("numPartitions", partitions)):
        if count != DEFAULT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {name} was not set to -1.",
            )


def check_assignment(
    assignment: Iterable[tuple[int, Sequence[int]]],
    registered: Collection[int],
    *,
    first: int = 0,
    replication: int | None = None,
) -> dict[int, Sequence[int]]:
    """The manual assignment by partition; refuses an incomplete one.

    Partitions must be consecutive from `first`. Each needs the same number (`replication`, if
    given) of distinct, registered brokers.
    """
    by_partition: dict[int, Sequence[int]] = {}
    for partition, replicas in assignment:
        if partition in by_partition:
            raise _bad_assignment(
                f"Found multiple manual partition assignments for partition {partition}"
            )
        check_replicas(replicas, registered)
        replication = replication or len(replicas)
        if len(replicas) != replication:
            raise _bad_assignment(
                f"The manual partition assignment includes a partition with {len(replicas)} "
                "replica(s), but this is not consistent with previous partitions, which have "
                f"{replication} replica(s)."
            )
        by_partition[partition] = tuple(replicas)
    if sorted(by_partition) != list(range(first, first + len(by_partition))):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return by_partition


def _bad_assignment(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
