"""Reads topics out of consumers' subscriptions, the one client format a broker looks into."""

import struct
from collections.abc import Iterable


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of all subscriptions; None when one of them cannot be read.

    Every version of the format begins with its version and the topics.
    """
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(_topics(subscription))
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)


def _topics(subscription: bytes) -> Iterable[str]:
    _version, count = struct.unpack_from(">hi", subscription, 0)
    position = 6
    for _ in range(count):
        (length,) = struct.unpack_from(">h", subscription, position)
        position += 2
        name = subscription[position : position + length]
        if length < 0 or len(name) < length:
            raise struct.error("the subscription ends within a topic name")
        position += length
        yield name.decode()
