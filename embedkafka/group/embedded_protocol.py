"""What consumers put into a classic group's opaque bytes: their subscriptions and assignments.

A broker looks into them for the topics that a group is using, and to move a group from one
protocol to the other.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from embedkafka.protocol.codec import decode, encode_versioned, leading_version
from embedkafka.protocol.errors import ProtocolError
from embedkafka.protocol.messages.internal import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_VERSION_BYTES: Final = 2
_NEWEST: Final = 3


class ClassicProtocol(NamedTuple):
    """One assignor that a member offers, with its subscription in that assignor's format."""

    name: str
    metadata: bytes


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """A subscription in any version, the newest known where it is newer; else `ProtocolError`."""
    version = _readable_version(metadata)
    body = memoryview(metadata)[_VERSION_BYTES:]
    return decode(ConsumerProtocolSubscription, version, body, surplus_allowed=True)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """An assignment in any version; empty bytes are what a member has that never had one."""
    if not assignment:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    version = _readable_version(assignment)
    body = memoryview(assignment)[_VERSION_BYTES:]
    return decode(ConsumerProtocolAssignment, version, body, surplus_allowed=True)


def write_assignment(partitions: Mapping[str, Iterable[int]], subscription: bytes) -> bytes:
    """An assignment in the version of the member's subscription."""
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=sorted(numbers))
            for topic, numbers in sorted(partitions.items())
        ]
    )
    return encode_versioned(assignment, _readable_version(subscription))


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of all subscriptions; None when one of them cannot be read.

    Every version of the format begins as the first one does.
    """
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            body = memoryview(subscription)[_VERSION_BYTES:]
            first = decode(ConsumerProtocolSubscription, 0, body, surplus_allowed=True)
            topics.update(first.topics)
    except ProtocolError:
        return None
    return frozenset(topics)


def _readable_version(buffer: bytes) -> int:
    version = leading_version(buffer)
    if version < 0:
        raise ProtocolError(f"consumers know no version {version} of their protocol")
    return min(version, _NEWEST)
