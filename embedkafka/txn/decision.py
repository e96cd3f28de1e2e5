"""Decisions of a transaction shard: answers, appends, and markers as effects."""

from embedkafka.coordinator import decision
from embedkafka.runtime.values import NamedTuple
from embedkafka.txn.metadata import Transaction


class SendMarkers(NamedTuple):
    """Writes the outcome of a prepared transaction to its partitions."""

    transaction: Transaction


Decision = decision.Decision[SendMarkers]
Decisions = decision.Decisions[SendMarkers]
Sequel = decision.Sequel[SendMarkers]
