"""Decisions of a transaction shard: answers, appends, and markers as effects."""

from embedkafka.broker.coordinator import decision
from embedkafka.broker.coordinator.transactions.metadata import Transaction
from embedkafka.runtime.values import NamedTuple


class SendMarkers(NamedTuple):
    """Writes the outcome of a prepared transaction to its partitions."""

    transaction: Transaction


Decision = decision.Decision[SendMarkers]
Decisions = decision.Decisions[SendMarkers]
Sequel = decision.Sequel[SendMarkers]
