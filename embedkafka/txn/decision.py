"""What a transaction's shard decides: besides answers and appends, markers."""

from typing import NamedTuple

from embedkafka.coordinator import decision
from embedkafka.txn.metadata import Transaction


class SendMarkers(NamedTuple):
    """The outcome of a prepared transaction is to be told to its partitions."""

    transaction: Transaction


Decision = decision.Decision[SendMarkers]
Decisions = decision.Decisions[SendMarkers]
Sequel = decision.Sequel[SendMarkers]
