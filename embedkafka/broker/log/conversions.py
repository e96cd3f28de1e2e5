"""Counts the records that a broker had to rewrite: for old clients, or in another codec.

Owner: `_lock` (leaf) guards the totals; any thread may add to them and read them.
Invariants: records that are stored and sent as they are cost nothing here.
Not here: the conversion itself (`validation`, `records.conversion`).
"""

from enum import Enum

from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.values import NamedTuple


class Purpose(Enum):
    """The request that needed it, by Kafka's name."""

    PRODUCE = "Produce"
    FETCH = "Fetch"


class Converted(NamedTuple):
    """What was converted so far; Kafka's RecordConversionStats."""

    records: int = 0
    size: int = 0
    """The bytes that it took in memory."""
    ms: float = 0.0


class Conversions:
    """The totals of one broker, by purpose and topic."""

    def __init__(self) -> None:
        self._lock = ranked_lock("conversions", LEAF_RANK)
        self._totals: dict[tuple[Purpose, str], Converted] = {}

    def note(self, purpose: Purpose, topic: str, converted: Converted) -> None:
        with self._lock:
            before = self._totals.get((purpose, topic), Converted())
            self._totals[purpose, topic] = Converted(
                before.records + converted.records,
                before.size + converted.size,
                before.ms + converted.ms,
            )

    def totals(self) -> dict[tuple[Purpose, str], Converted]:
        with self._lock:
            return dict(self._totals)
