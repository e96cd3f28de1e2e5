"""The committed offsets of one shard, and those of open transactions.

Owner: the `coordinator` loop, through the shard.
Invariants: only `replay` and `complete_transaction` change offsets, live and when loading, so both
end in the same state. The commit later in the log wins, even if compaction or a late transaction
marker replays an older one after it.
Not here: who may commit (`kinds.Group`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from embedkafka.broker.coordinator.decision import TOO_LARGE
from embedkafka.runtime.ids import NO_PRODUCER_ID, TopicPartition
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.internal import OffsetCommitKey, OffsetCommitValue

NO_EXPIRY: Final = -1

# How offset requests report a failed append, where they differ from the rest.
STORE_ERRORS: Final = dict.fromkeys(TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)

_NONE: Final[Mapping[TopicPartition, "CommittedOffset"]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A committed offset; `record_offset` is the position of its record in the log."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    record_offset: int


class Offsets:
    """Offsets by group and partition."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[int, dict[str, dict[TopicPartition, CommittedOffset]]] = {}
        # Soft state: commits whose records are in flight. Their offsets do not expire, and
        # transactional ones already make the offset unstable.
        self._in_flight: Counter[tuple[str, TopicPartition]] = Counter()
        self._in_flight_transactional: Counter[tuple[str, TopicPartition]] = Counter()

    # Reading

    def of_group(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._committed.get(group_id, _NONE)

    def group_ids(self) -> Iterator[str]:
        """Groups with offsets, committed or pending."""
        seen = dict.fromkeys(self._committed)
        for groups in self._pending.values():
            seen.update(dict.fromkeys(groups))
        return iter(seen)

    def is_unstable(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Whether an open transaction has an offset for the partition."""
        return (group_id, topic_partition) in self._in_flight_transactional or any(
            topic_partition in groups.get(group_id, ()) for groups in self._pending.values()
        )

    def is_in_flight(self, group_id: str, topic_partition: TopicPartition) -> bool:
        return (group_id, topic_partition) in self._in_flight

    def has_in_flight(self, group_id: str) -> bool:
        return any(key[0] == group_id for key in self._in_flight)

    def has_pending(self, group_id: str) -> bool:
        """Whether the group has offsets in open transactions."""
        return any(group_id in groups for groups in self._pending.values()) or any(
            key[0] == group_id for key in self._in_flight_transactional
        )

    def in_flight_partitions(self, group_id: str) -> set[TopicPartition]:
        """Partitions with commits in flight."""
        keys = self._in_flight.keys() | self._in_flight_transactional.keys()
        return {tp for group, tp in keys if group == group_id}

    def unstable_partitions(self, group_id: str) -> set[TopicPartition]:
        """Partitions with offsets in open transactions."""
        return {tp for groups in self._pending.values() for tp in groups.get(group_id, ())}

    # Soft state of appends

    def begin_append(
        self, group_id: str, partitions: Iterable[TopicPartition], *, transactional: bool
    ) -> None:
        in_flight = self._in_flight_transactional if transactional else self._in_flight
        in_flight.update((group_id, tp) for tp in partitions)

    def end_append(
        self, group_id: str, partitions: Iterable[TopicPartition], *, transactional: bool
    ) -> None:
        in_flight = self._in_flight_transactional if transactional else self._in_flight
        for tp in partitions:
            in_flight[group_id, tp] -= 1
            if in_flight[group_id, tp] <= 0:
                del in_flight[group_id, tp]

    # Replay

    def replay(
        self,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
        *,
        record_offset: int,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """Applies one record; an offset of a transaction waits for its marker."""
        topic_partition = TopicPartition(key.topic, key.partition)
        if value is None:
            self._remove(key.group, topic_partition)
            return
        committed = CommittedOffset(
            offset=value.offset,
            leader_epoch=value.leader_epoch,
            metadata=value.metadata,
            commit_timestamp_ms=value.commit_timestamp,
            expire_timestamp_ms=value.expire_timestamp,
            record_offset=record_offset,
        )
        if producer_id == NO_PRODUCER_ID:
            self._commit(key.group, topic_partition, committed)
        else:
            groups = self._pending.setdefault(producer_id, {})
            groups.setdefault(key.group, {})[topic_partition] = committed

    def complete_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Applies the marker of a producer's transaction."""
        groups = self._pending.pop(producer_id, {})
        if committed:
            for group_id, offsets in groups.items():
                for topic_partition, offset in offsets.items():
                    self._commit(group_id, topic_partition, offset)

    def _commit(
        self, group_id: str, topic_partition: TopicPartition, committed: CommittedOffset
    ) -> None:
        offsets = self._committed.setdefault(group_id, {})
        present = offsets.get(topic_partition)
        if present is None or present.record_offset < committed.record_offset:
            offsets[topic_partition] = committed

    def _remove(self, group_id: str, topic_partition: TopicPartition) -> None:
        """Applies a tombstone, to offsets of open transactions too."""
        _discard(self._committed, group_id, topic_partition)
        for producer_id, groups in list(self._pending.items()):
            _discard(groups, group_id, topic_partition)
            if not groups:
                del self._pending[producer_id]


def _discard(
    groups: dict[str, dict[TopicPartition, CommittedOffset]],
    group_id: str,
    topic_partition: TopicPartition,
) -> None:
    offsets = groups.get(group_id)
    if offsets is None:
        return
    offsets.pop(topic_partition, None)
    if not offsets:
        del groups[group_id]
