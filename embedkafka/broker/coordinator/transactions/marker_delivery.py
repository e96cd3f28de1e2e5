"""Delivers the markers of transactions to the leaders of their partitions.

Each broker has at most one request in flight. Markers that come due during it share the next one.
A marker that fails is sent again after a pause, to the leader of that time.

Owner: the `coordinator` loop.
Invariants: a transaction is reported as marked exactly once, when all its partitions have a marker,
and never after its shard was released. A replaced coordinator stops when a leader fences it.
Not here: what follows when all markers are written (`shard.py`), connections (`MarkerTransport`).
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from embedkafka.broker.coordinator.ports import CoordinatorParts
from embedkafka.broker.coordinator.transactions.decision import SendMarkers
from embedkafka.broker.coordinator.transactions.metadata import Transaction
from embedkafka.broker.coordinator.transactions.ports import MarkerTransport
from embedkafka.broker.coordinator.transactions.shard import TxnShard
from embedkafka.broker.coordinator.transactions.states import TxnState
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.transactions import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_LOG = logging.getLogger(__name__)

# The partition cannot take a marker, so it cannot have taken records of the transaction.
_NOTHING_TO_MARK: Final = frozenset(
    {ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION}
)
# Another coordinator has taken over, or a producer with a later epoch.
_FENCED: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)


class MarkerOrder:
    """The markers of one transaction, and the partitions that still need one."""

    __slots__ = ("coordinator_epoch", "is_cancelled", "left", "shard_partition", "transaction")

    def __init__(
        self, transaction: Transaction, *, shard_partition: int, coordinator_epoch: int
    ) -> None:
        self.transaction = transaction
        self.shard_partition = shard_partition
        self.coordinator_epoch = coordinator_epoch
        self.left = set(transaction.partitions)
        self.is_cancelled = False

    def marker(self, partitions: Iterable[TopicPartition]) -> WriteTxnMarkersRequest.Marker:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            by_topic.setdefault(topic, []).append(partition)
        return WriteTxnMarkersRequest.Marker(
            producer_id=self.transaction.producer_id,
            producer_epoch=self.transaction.producer_epoch,
            transaction_result=self.transaction.state is TxnState.PREPARE_COMMIT,
            topics=[
                WriteTxnMarkersRequest.Marker.Topic(name=name, partition_indexes=indexes)
                for name, indexes in by_topic.items()
            ],
            coordinator_epoch=self.coordinator_epoch,
            transaction_version=self.transaction.client_version,
        )


_Batch = list[tuple[MarkerOrder, frozenset[TopicPartition]]]


class MarkerDelivery:
    """`coordinator.ports.Effects`: sends markers until each partition has one."""

    def __init__(
        self,
        transport: MarkerTransport,
        parts: CoordinatorParts,
        *,
        retry_backoff_ms: int,
        on_marked: Callable[[MarkerOrder], None],
    ) -> None:
        self._transport = transport
        self._loop, self._timer = parts.loop, parts.timer
        self._retry_backoff_ms = retry_backoff_ms
        self._on_marked = on_marked
        self._orders: set[MarkerOrder] = set()
        self._due: dict[BrokerId, _Batch] = {}
        self._under_way: set[BrokerId] = set()

    def carry_out(self, partition: int, shard: TxnShard, effect: SendMarkers) -> None:
        """Starts to deliver the markers of one prepared transaction."""
        self._loop.assert_inside()
        order = MarkerOrder(
            effect.transaction,
            shard_partition=partition,
            coordinator_epoch=shard.coordinator_epoch,
        )
        self._orders.add(order)
        self._route(order, frozenset(order.left))
        self._finish_if_marked(order)

    def cancel(self, shard_partition: int) -> None:
        """The shard was released: its next leader sends the markers."""
        self._loop.assert_inside()
        for order in [o for o in self._orders if o.shard_partition == shard_partition]:
            self._abandon(order)

    def _route(self, order: MarkerOrder, partitions: frozenset[TopicPartition]) -> None:
        """Queues partitions for their leaders; deleted ones need no marker."""
        leaderless: set[TopicPartition] = set()
        by_leader: dict[BrokerId, set[TopicPartition]] = {}
        for topic_partition in partitions:
            leader = self._transport.find_leader(topic_partition)
            if leader is None:
                order.left.discard(topic_partition)
            elif leader < 0:
                leaderless.add(topic_partition)
            else:
                by_leader.setdefault(leader, set()).add(topic_partition)
        if leaderless:
            self._retry_later(order, frozenset(leaderless))
        for leader, of_leader in by_leader.items():
            self._due.setdefault(leader, []).append((order, frozenset(of_leader)))
            self._send_due(leader)

    def _retry_later(self, order: MarkerOrder, partitions: frozenset[TopicPartition]) -> None:
        retry = partial(self._retry, order, partitions)
        self._timer.add(self._retry_backoff_ms, partial(self._loop.post, retry))

    def _retry(self, order: MarkerOrder, partitions: frozenset[TopicPartition]) -> None:
        if not order.is_cancelled:
            self._route(order, partitions)
            self._finish_if_marked(order)

    def _send_due(self, broker_id: BrokerId) -> None:
        if broker_id in self._under_way:
            return
        batch = [entry for entry in self._due.pop(broker_id, ()) if not entry[0].is_cancelled]
        if not batch:
            return
        self._under_way.add(broker_id)
        request = WriteTxnMarkersRequest(
            markers=[order.marker(partitions) for order, partitions in batch]
        )

        def on_done(response: WriteTxnMarkersResponse | None) -> None:
            self._loop.post(partial(self._on_response, broker_id, batch, response))

        self._transport.send(broker_id, request, on_done)

    def _on_response(
        self, broker_id: BrokerId, batch: _Batch, response: WriteTxnMarkersResponse | None
    ) -> None:
        self._under_way.discard(broker_id)
        errors = _errors_of(response)
        for order, partitions in batch:
            if not order.is_cancelled:
                self._take(order, partitions, errors)
        self._send_due(broker_id)

    def _take(
        self,
        order: MarkerOrder,
        partitions: frozenset[TopicPartition],
        errors: dict[tuple[int, TopicPartition], ErrorCode],
    ) -> None:
        again: set[TopicPartition] = set()
        for topic_partition in partitions:
            key = (order.transaction.producer_id, topic_partition)
            error = errors.get(key, ErrorCode.NETWORK_EXCEPTION)
            if error is ErrorCode.NONE or error in _NOTHING_TO_MARK:
                order.left.discard(topic_partition)
            elif error in _FENCED:
                _LOG.info(
                    "markers of %s are fenced by %s: %s",
                    order.transaction.transactional_id,
                    topic_partition,
                    error.name,
                )
                self._abandon(order)
                return
            else:
                again.add(topic_partition)
        if again:
            self._retry_later(order, frozenset(again))
        self._finish_if_marked(order)

    def _finish_if_marked(self, order: MarkerOrder) -> None:
        if not order.left and not order.is_cancelled:
            self._abandon(order)
            self._on_marked(order)

    def _abandon(self, order: MarkerOrder) -> None:
        """Stops the order: nothing more is sent, and its answers are ignored."""
        order.is_cancelled = True
        self._orders.discard(order)


def _errors_of(
    response: WriteTxnMarkersResponse | None,
) -> dict[tuple[int, TopicPartition], ErrorCode]:
    """Codes by producer id and partition; empty for a broker that did not answer."""
    if response is None:
        return {}
    return {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): ErrorCode(
            partition.error_code
        )
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
