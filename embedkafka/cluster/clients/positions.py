"""Where a read begins: at an offset, at one per partition, or at a moment.

Owner: none. Any: confluent-kafka has no types, and is imported late.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from embedkafka.runtime.arguments import require_int, shown
from embedkafka.runtime.failures import InvalidArgument

From = int | Mapping[int, int] | datetime
"""An offset, offsets by partition, or a time with its time zone."""


def require_from(from_: object) -> From | None:
    """`from_` if a read can begin there; raises `InvalidArgument` otherwise."""
    if from_ is None:
        return None
    if isinstance(from_, datetime):
        if from_.tzinfo is None:
            raise InvalidArgument(f"from_ must have a time zone, got {shown(from_)}")
        return from_
    if isinstance(from_, Mapping):
        return {
            require_int("a partition of from_", partition, least=0): require_int(
                "an offset of from_", offset, least=0
            )
            for partition, offset in from_.items()
        }
    return require_int("from_", from_, least=0)


def find_positions(
    consumer: Any, topic: str, partitions: Collection[int], from_: From | None, timeout_s: float
) -> list[Any]:
    """The positions at which a consumer begins, one for each partition."""
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    if isinstance(from_, datetime):
        since_ms = round(from_.timestamp() * 1000)
        moments = [TopicPartition(topic, partition, since_ms) for partition in partitions]
        found: list[Any] = consumer.offsets_for_times(moments, timeout=timeout_s)
        return found
    if from_ is None:
        return [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions]
    if isinstance(from_, int):
        from_ = dict.fromkeys(partitions, from_)
    if unknown := sorted(from_.keys() - set(partitions)):
        raise InvalidArgument(f"topic {topic} has no partition {unknown[0]}")
    positions = []
    for partition in partitions:
        asked = TopicPartition(topic, partition)
        start, end = consumer.get_watermark_offsets(asked, timeout=timeout_s)
        # A client that begins beyond the end would begin at the start.
        offset = min(max(from_.get(partition, start), start), end)
        positions.append(TopicPartition(topic, partition, offset))
    return positions
