"""Reads `orders`, and writes each to `accepted`, or to `rejected` with the reason in a header.

The result and the position in `orders` are one transaction, so a restart repeats no order and loses
none.
"""

import json
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException, Message, Producer

Headers = list[tuple[str, str | bytes | None]]


@dataclass(frozen=True, kw_only=True)
class Topics:
    """Where the service reads and writes."""

    orders: str = "orders"
    accepted: str = "accepted"
    rejected: str = "rejected"


class Intake:
    """One instance of the service, for the length of a `with` block."""

    def __init__(
        self, bootstrap_servers: str, topics: Topics | None = None, *, group: str = "intake"
    ) -> None:
        self._topics = topics or Topics()
        brokers = {"bootstrap.servers": bootstrap_servers}
        reading = {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        self._orders = Consumer({**brokers, **reading})
        self._results = Producer({**brokers, "transactional.id": f"{group}-1"})

    def __enter__(self) -> Self:
        self._results.init_transactions()
        self._orders.subscribe([self._topics.orders])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._orders.close()

    def take(self, *, timeout_s: float = 30.0) -> bool:
        """Handles the next order; False if none came in time."""
        order = self._orders.poll(timeout_s)
        if order is None:
            return False
        if order.error():
            raise KafkaException(order.error())
        self._results.begin_transaction()
        try:
            self._write_result(order)
            positions = self._orders.position(self._orders.assignment())
            group = self._orders.consumer_group_metadata()
            self._results.send_offsets_to_transaction(positions, group)
            self._results.commit_transaction()
        except KafkaException:
            self._results.abort_transaction()
            raise
        return True

    def _write_result(self, order: Message) -> None:
        fault = find_fault(order.value())
        topic = self._topics.accepted if fault is None else self._topics.rejected
        headers: Headers = [] if fault is None else [("reason", fault)]
        self._results.produce(topic, order.value(), key=order.key(), headers=headers)


def find_fault(order: bytes | None) -> str | None:
    """Why an order cannot be accepted; None if it can."""
    try:
        fields = json.loads(order or b"")
    except ValueError:
        return "not JSON"
    if not isinstance(fields, dict) or not fields.get("sku"):
        return "no sku"
    quantity = fields.get("quantity")
    if not isinstance(quantity, int) or quantity < 1:
        return "no quantity"
    return None
