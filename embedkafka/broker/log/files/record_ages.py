"""How old records are on a clock that a test has moved.

Kafka takes a record's age from its timestamp. That is right while brokers and clients agree on the
time. After `kafka.clock.advance(days=8)` they do not: clients live in real time, so a record sent
now carries a timestamp that the brokers take for eight days old. Its age must count from its
arrival. Its timestamp must stay what the client sent: consumers, time indexes and searches use it.

So the leader notes from which offset on timestamps are how far behind the brokers' clock. Whatever
asks for an age adds that shift to the timestamp: retention, compaction lags, the rolling of
segments, the expiry of producers. A record with an old timestamp is as old as it would be on a
clock that was never moved.

Owner: `PartitionAges._lock` (leaf) guards changes; readers see the regimes replaced whole.
Invariants: a shift depends on the offset alone, so all replicas agree, before and after a restart,
a compaction or a restored snapshot. Nothing is stored: files are Kafka's, and a later cluster on
the same directory starts in real time, where timestamps are right by themselves.
Not here: the clock (`runtime.clock`).
"""

import uuid
from bisect import bisect_right

from embedkafka.broker.log.files.time_index import TimestampOffset
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.values import NamedTuple


class Regime(NamedTuple):
    """The records from offset `start` on, up to the next regime."""

    start: int
    shift_ms: int
    """What must be added to their timestamps to compare them with the brokers' clock."""
    first_ms: int
    """The time of the first of them, on the brokers' clock."""


class PartitionAges:
    """The regimes of one partition, for all its replicas. There are none on an unmoved clock."""

    __slots__ = ("_lock", "_regimes")

    def __init__(self) -> None:
        self._lock = ranked_lock("ages", LEAF_RANK)
        self._regimes: tuple[Regime, ...] = ()

    def note(self, offset: int, timestamp: int, *, now_ms: int, shift_ms: int) -> None:
        """Notes what a leader is about to append at `offset`."""
        shift_ms = shift_of(timestamp, now_ms=now_ms, shift_ms=shift_ms)
        with self._lock:
            known = self._regimes
            kept = known[: bisect_right(known, offset - 1, key=_start)]
            if shift_ms != (kept[-1].shift_ms if kept else 0):
                kept = (*kept, Regime(offset, shift_ms, timestamp + shift_ms))
            self._regimes = kept

    def shift_at(self, offset: int) -> int:
        """What to add to the timestamp of the record at `offset`."""
        regimes = self._regimes
        index = bisect_right(regimes, offset, key=_start) if regimes else 0
        return regimes[index - 1].shift_ms if index else 0

    def latest(self, largest: TimestampOffset, base_offset: int, end_offset: int) -> int:
        """The time of the latest record between two offsets, of which `largest` has the largest
        timestamp.

        A record with a smaller timestamp may be the later one, if its regime began in between.
        """
        times = [largest.timestamp + self.shift_at(largest.offset)]
        times += [
            regime.first_ms for regime in self._regimes if base_offset <= regime.start < end_offset
        ]
        return max(times)


class RecordAges:
    """The ages of a whole cluster, by the topic's id, or its name if it has none."""

    def __init__(self) -> None:
        self._lock = ranked_lock("ages of all partitions", LEAF_RANK)
        self._partitions: dict[tuple[object, int], PartitionAges] = {}

    def of(self, topic_id: uuid.UUID | None, topic_partition: TopicPartition) -> PartitionAges:
        key = (topic_id or topic_partition.topic, topic_partition.partition)
        with self._lock:
            return self._partitions.setdefault(key, PartitionAges())


def shift_of(timestamp: int, *, now_ms: int, shift_ms: int) -> int:
    """`shift_ms` for a timestamp from a client's clock, 0 for one from the brokers' clock.

    The closer clock is taken for its source. Brokers stamp some records themselves, and a test may
    use `kafka.clock.now_ms()`.
    """
    from_client = abs(timestamp - (now_ms - shift_ms)) <= abs(timestamp - now_ms)
    return shift_ms if from_client else 0


def _start(regime: Regime) -> int:
    return regime.start
