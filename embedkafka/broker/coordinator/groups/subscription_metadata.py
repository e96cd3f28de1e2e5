"""The protocol that consumers embed in the classic one: subscriptions and assignments.

To the classic protocol they are opaque bytes. The broker reads them to learn which topics a group
uses, and to migrate a group from one protocol to the other.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.codec import decode, encode_versioned, leading_version
from embedkafka.wire.protocol.errors import ProtocolError
from embedkafka.wire.protocol.messages.internal import (
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
    """Reads a subscription; a version newer than ours is read as ours. Raises `ProtocolError`."""
    version = _readable_version(metadata)
    body = memoryview(metadata)[_VERSION_BYTES:]
    return decode(ConsumerProtocolSubscription, version, body, surplus_allowed=True)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Reads an assignment of any version; empty bytes mean that the member never had one."""
    if not assignment:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    version = _readable_version(assignment)
    body = memoryview(assignment)[_VERSION_BYTES:]
    return decode(ConsumerProtocolAssignment, version, body, surplus_allowed=True)


def write_assignment(partitions: Mapping[str, Iterable[int]], subscription: bytes) -> bytes:
    """Writes an assignment in the version of the member's subscription."""
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=sorted(numbers))
            for topic, numbers in sorted(partitions.items())
        ]
    )
    return encode_versioned(assignment, _readable_version(subscription))


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all subscriptions; None if one of them cannot be read.

    Every version of the format starts like the first.
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
        raise ProtocolError(f"the consumer protocol has no version {version}")
    return min(version, _NEWEST)
