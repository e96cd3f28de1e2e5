"""How offsets go: deleted by an admin or with their topic or group, or expired.

Owner: the `coordinator` loop, through the shard.
Invariants: an offset is gone when its tombstone is stored, in the order of the log, so that a
commit made meanwhile outlives it; so is a group, and what comes for it meanwhile waits its turn.
Not here: the offsets themselves (`store.py`), and who may commit them (`commits.py`).
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import partial

from embedkafka.coordinator.decision import LogRecord, Stored
from embedkafka.group.classic.group import ClassicGroup
from embedkafka.group.classic.states import ClassicGroupState
from embedkafka.group.config import GroupConfig
from embedkafka.group.consumer.group import ConsumerGroup
from embedkafka.group.consumer.planning import group_tombstones
from embedkafka.group.decision import Decision, Decisions
from embedkafka.group.embedded_protocol import CONSUMER_PROTOCOL_TYPE
from embedkafka.group.offsets.store import NO_EXPIRY, STORE_ERRORS, CommittedOffset, Offsets
from embedkafka.group.records import group_record, offset_record
from embedkafka.group.sequencer import Sequel, Sequencer
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.internal import OffsetCommitKey
from embedkafka.runtime.ids import TopicPartition

DeleteReply = Callable[[tuple[ErrorCode, Sequence[ErrorCode]]], None]
"""Takes the group's error and, without one, a code for each partition of the request."""


class OffsetRemoval:
    """Decides what is removed from the groups of one shard."""

    def __init__(
        self,
        groups: MutableMapping[str, ClassicGroup],
        consumer_groups: Mapping[str, ConsumerGroup],
        offsets: Offsets,
        sequencer: Sequencer,
        config: GroupConfig,
    ) -> None:
        self._groups = groups
        self._consumer_groups = consumer_groups
        self._offsets = offsets
        self._sequencer = sequencer
        self._config = config

    def delete(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition],
        *,
        reply: DeleteReply,
    ) -> Decision:
        """Deletes offsets of topics that nobody in the group subscribes."""
        out = Decisions()
        consumer = self._consumer_groups.get(group_id)
        if consumer is not None:
            subscribed = consumer.subscribed_topics()
            self._delete_partitions(group_id, partitions, subscribed, reply=reply, out=out)
            return out.done()
        group = self._groups.get(group_id)
        if group is None:
            out.answer(reply, (ErrorCode.GROUP_ID_NOT_FOUND, ()))
            return out.done()
        is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
        if group.state is not ClassicGroupState.EMPTY and not is_consumer:
            out.answer(reply, (ErrorCode.NON_EMPTY_GROUP, ()))
            return out.done()
        subscribed = _subscribed(group, partitions)
        self._delete_partitions(group_id, partitions, subscribed, reply=reply, out=out)
        return out.done()

    def _delete_partitions(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition],
        subscribed: frozenset[str],
        *,
        reply: DeleteReply,
        out: Decisions,
    ) -> None:
        """Writes tombstones for the partitions of topics outside `subscribed`."""
        errors = [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if tp.topic in subscribed else ErrorCode.NONE
            for tp in partitions
        ]
        doomed = self._known(group_id, [tp for tp in partitions if tp.topic not in subscribed])
        if not doomed:
            out.answer(reply, (ErrorCode.NONE, errors))
            return

        def on_stored(stored: Stored) -> Decision:
            after = Decisions()
            error = stored.told_as(STORE_ERRORS)
            if error is ErrorCode.NONE:
                self._bury(group_id, doomed, stored)
                after.answer(reply, (ErrorCode.NONE, errors))
            else:
                after.answer(reply, (error, ()))
            return after.done()

        out.write(_tombstones(group_id, doomed), on_stored)

    def forget(self, partitions: Iterable[TopicPartition]) -> Decision:
        """Deletes the offsets of partitions that were deleted, in every group."""
        out = Decisions()
        gone = list(partitions)
        for group_id in list(self._offsets.group_ids()):
            doomed = self._known(group_id, gone)
            if doomed:
                out.write(
                    _tombstones(group_id, doomed), partial(self._on_tombstones, group_id, doomed)
                )
        return out.done()

    def delete_group(
        self, group_id: str, *, reply: Callable[[ErrorCode], None], now_ms: int
    ) -> Decision:
        """Deletes an empty group with its offsets; the answer comes when that is stored."""

        def run(out: Decisions, now_ms: int) -> None:
            group, consumer = self._groups.get(group_id), self._consumer_groups.get(group_id)
            if group is None and consumer is None:
                out.answer(reply, ErrorCode.GROUP_ID_NOT_FOUND)
            elif _has_members(group, consumer):
                out.answer(reply, ErrorCode.NON_EMPTY_GROUP)
            else:
                doomed = self._all_partitions(group_id)
                self._delete_group(group_id, doomed, answer, out, now_ms)

        def answer(stored: Stored, out: Decisions) -> None:
            out.answer(reply, stored.told_as(STORE_ERRORS))

        def refuse(error: ErrorCode, out: Decisions) -> None:
            out.answer(reply, error)

        return self._sequencer.take(group_id, run, now_ms=now_ms, refuse=refuse)

    def _delete_group(
        self,
        group_id: str,
        doomed: Sequence[TopicPartition],
        then: Sequel,
        out: Decisions,
        now_ms: int,
    ) -> None:
        """Appends the tombstones of the group and of its offsets, which are `doomed`."""
        group, consumer = self._groups.get(group_id), self._consumer_groups.get(group_id)
        records = _tombstones(group_id, doomed)
        if consumer is not None:
            records += group_tombstones(consumer, now_ms=now_ms)
        elif group is not None and group.generation_id > 0:
            # One that never had a generation has no record to delete.
            records.append(group_record(group_id, None))

        def forget(stored: Stored, out: Decisions) -> None:
            if stored.error is ErrorCode.NONE and group is not None:
                group.move_to(ClassicGroupState.DEAD, now_ms=stored.now_ms)
                self._groups.pop(group_id, None)
            then(stored, out)

        self._sequencer.store(group_id, records, forget, out, now_ms=now_ms)

    def _all_partitions(self, group_id: str) -> list[TopicPartition]:
        """Partitions with an offset: committed, in an open transaction, or on its way."""
        committed = self._offsets.of_group(group_id)
        unstable = self._offsets.unstable_partitions(group_id)
        in_flight = self._offsets.in_flight_partitions(group_id)
        return list(dict.fromkeys([*committed, *sorted(unstable), *sorted(in_flight)]))

    def expire(self, *, now_ms: int) -> Decision:
        """Deletes offsets that nobody needs any more, and groups that had nothing else."""
        out = Decisions()
        group_ids = [*self._groups, *self._consumer_groups]
        for group_id in group_ids:
            if not self._sequencer.is_busy(group_id):
                self._expire_group(group_id, out, now_ms)
        return out.done()

    def _expire_group(self, group_id: str, out: Decisions, now_ms: int) -> None:
        group, consumer = self._groups.get(group_id), self._consumer_groups.get(group_id)
        if group is not None:
            expired = self._expired(group, now_ms)
        else:
            subscribed = frozenset() if consumer is None else consumer.subscribed_topics()
            expired = self._expired_where(
                group_id, subscribed=subscribed, since_ms=None, now_ms=now_ms
            )
        is_awaited = group is not None and bool(group.pending_members)
        is_empty = not _has_members(group, consumer) and not is_awaited
        if is_empty and self._has_only(group_id, expired):
            self._delete_group(group_id, expired, _nothing, out, now_ms)
        elif expired:
            then = partial(self._on_tombstones, group_id, expired)
            out.write(_tombstones(group_id, expired), then)

    def _expired_where(
        self, group_id: str, *, subscribed: frozenset[str], since_ms: int | None, now_ms: int
    ) -> list[TopicPartition]:
        """Partitions, of topics outside `subscribed`, whose offsets are older than the retention.

        Age counts from `since_ms` where given, else from the commit; a commit that named its own
        expiry keeps that.
        """
        return [
            tp
            for tp, offset in self._offsets.of_group(group_id).items()
            if tp.topic not in subscribed
            and not self._offsets.is_in_flight(group_id, tp)
            and not self._offsets.is_unstable(group_id, tp)
            and self._is_expired(offset, since_ms, now_ms)
        ]

    def _is_expired(self, offset: CommittedOffset, since_ms: int | None, now_ms: int) -> bool:
        if offset.expire_timestamp_ms != NO_EXPIRY:
            return now_ms >= offset.expire_timestamp_ms
        start_ms = offset.commit_timestamp_ms if since_ms is None else since_ms
        return now_ms - start_ms >= self._config.offsets_retention_ms

    def _expired(self, group: ClassicGroup, now_ms: int) -> list[TopicPartition]:
        """Offsets outlive an empty group's last member, or, without members, their commit."""
        if group.protocol_type is None:
            subscribed: frozenset[str] | None = frozenset()
            since_ms = None
        elif group.state is ClassicGroupState.EMPTY:
            subscribed = frozenset()
            since_ms = group.current_state_timestamp_ms
        else:
            is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
            is_settled = group.state is ClassicGroupState.STABLE and is_consumer
            subscribed = group.subscribed_topics if is_settled else None
            since_ms = None
        if subscribed is None:
            return []
        return self._expired_where(
            group.group_id, subscribed=subscribed, since_ms=since_ms, now_ms=now_ms
        )

    def _has_only(self, group_id: str, expired: Sequence[TopicPartition]) -> bool:
        """Whether nothing is left of the group's offsets without the `expired` ones."""
        return (
            not self._offsets.has_pending(group_id)
            and not self._offsets.has_in_flight(group_id)
            and len(expired) == len(self._offsets.of_group(group_id))
        )

    def _known(self, group_id: str, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        known = set(self._all_partitions(group_id))
        return [tp for tp in partitions if tp in known]

    def _on_tombstones(
        self, group_id: str, doomed: Sequence[TopicPartition], stored: Stored
    ) -> Decision:
        if stored.error is ErrorCode.NONE:
            self._bury(group_id, doomed, stored)
        return Decision()

    def _bury(self, group_id: str, doomed: Sequence[TopicPartition], stored: Stored) -> None:
        for delta, tp in enumerate(doomed):
            key = OffsetCommitKey(group=group_id, topic=tp.topic, partition=tp.partition)
            self._offsets.replay(key, None, record_offset=stored.base_offset + delta)


def _has_members(group: ClassicGroup | None, consumer: ConsumerGroup | None) -> bool:
    if consumer is not None:
        return bool(consumer.members)
    return group is not None and group.state is not ClassicGroupState.EMPTY


def _nothing(stored: Stored, out: Decisions) -> None:
    """What is refused is tried again at the next check."""


def _subscribed(group: ClassicGroup, partitions: Iterable[TopicPartition]) -> frozenset[str]:
    """Topics in use; when subscriptions cannot be read, any of them may be."""
    if group.state is ClassicGroupState.EMPTY:
        return frozenset()
    if group.subscribed_topics is None:
        return frozenset(tp.topic for tp in partitions)
    return group.subscribed_topics


def _tombstones(group_id: str, partitions: Iterable[TopicPartition]) -> list[LogRecord]:
    return [offset_record(group_id, tp.topic, tp.partition, None) for tp in partitions]
