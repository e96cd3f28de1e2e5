"""Adds the current leader to a NOT_LEADER_OR_FOLLOWER answer (KIP-951)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from embedkafka.protocol.errors import ErrorCode
from embedkafka.runtime.ids import TopicPartition

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker

_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def find_leader(
    broker: "Broker", topic_partition: TopicPartition, error: ErrorCode
) -> tuple[int, int] | None:
    """The leader and its epoch as this broker knows them, if `error` concerns leadership.

    None while there is no leader. Kafka sends the epoch alone then; librdkafka 2.16 reacts to that
    by using a leader and an epoch from uninitialized memory.
    """
    if error not in _MOVED:
        return None
    info = broker.metadata.snapshot.find_partition(*topic_partition)
    return None if info is None or info.leader < 0 else (info.leader, info.leader_epoch)


def node_endpoints(
    broker: "Broker", ids: set[int], listener: str
) -> Iterable[tuple[int, str, int, str | None]]:
    """Id, host, port and rack of those brokers that are alive and have the listener."""
    for node in broker.metadata.snapshot.brokers.values():
        if node.id in ids and listener in node.endpoints:
            endpoint = node.endpoints[listener]
            yield node.id, endpoint.host, endpoint.port, node.rack
