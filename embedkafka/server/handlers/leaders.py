"""Telling a client who leads, along with the error that says that we do not (KIP-951)."""

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
    """The leader and its epoch, as this broker knows them, when `error` is about that.

    None while there is no leader, where Kafka tells the epoch alone: librdkafka 2.16 then goes on
    with a leader and an epoch from memory that it has not initialized.
    """
    if error not in _MOVED:
        return None
    info = broker.metadata.snapshot.find_partition(*topic_partition)
    return None if info is None or info.leader < 0 else (info.leader, info.leader_epoch)


def node_endpoints(
    broker: "Broker", ids: set[int], listener: str
) -> Iterable[tuple[int, str, int, str | None]]:
    """Id, host, port and rack of those brokers, as far as they live and have the listener."""
    for node in broker.metadata.snapshot.brokers.values():
        if node.id in ids and listener in node.endpoints:
            endpoint = node.endpoints[listener]
            yield node.id, endpoint.host, endpoint.port, node.rack
