"""Removes offsets: an admin deletes them, their topic or group is deleted, or they expire.

Owner: the `coordinator` loop, through the shard.
Invariants: an offset disappears when its tombstone is stored, in the order of the log, so a later
commit survives. The same holds for a group, whose events wait until then.
Not here: the offsets themselves (`store.py`), commits (`commits.py`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from embedkafka.broker.coordinator.decision import LogRecord, Stored
from embedkafka.broker.coordinator.groups.calls import AnswerWhenStored, refuse
from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.decision import Decisions, Sequel
from embedkafka.broker.coordinator.groups.kinds import Group, GroupKind, GroupKinds, OffsetRetention
from embedkafka.broker.coordinator.groups.offsets.store import (
    NO_EXPIRY,
    STORE_ERRORS,
    CommittedOffset,
    Offsets,
)
from embedkafka.broker.coordinator.groups.offsets.totals import OffsetTotals
from embedkafka.broker.coordinator.groups.records import offset_record
from embedkafka.broker.coordinator.groups.sequencer import Sequencer
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.internal import OffsetCommitKey
from embedkafka.wire.protocol.wire_types import MAX_LONG

_AFTER_ALL_MS: Final = MAX_LONG
"""A time at which every retention has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteCall:
    """An OffsetDelete request. Its answer is the group's error and a code for each partition."""

    group_id: str
    partitions: Sequence[TopicPartition]
    reply: Callable[[tuple[ErrorCode, Sequence[ErrorCode]]], None]

    def refusal(self, error: ErrorCode) -> tuple[ErrorCode, Sequence[ErrorCode]]:
        return error, ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleteCall:
    """One group of a DeleteGroups request."""

    group_id: str
    reply: Callable[[ErrorCode], None]
    with_members: bool = False
    """Whether the group goes even if it has members. No client can ask for that."""

    def refusal(self, error: ErrorCode) -> ErrorCode:
        return error


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupExpireCall:
    """Lets the offsets of one group expire before their time. No client sends this."""

    group_id: str
    reply: Callable[[ErrorCode], None]

    def refusal(self, error: ErrorCode) -> ErrorCode:
        return error


class OffsetRemoval:
    """Decides removals for the groups of one shard."""

    def __init__(
        self,
        kinds: GroupKinds,
        offsets: Offsets,
        sequencer: Sequencer,
        config: GroupConfig,
        totals: OffsetTotals,
    ) -> None:
        self._totals = totals
        self._kinds = kinds
        self._offsets = offsets
        self._sequencer = sequencer
        self._config = config

    def delete(self, call: OffsetDeleteCall, out: Decisions) -> None:
        """Deletes offsets of topics that no member of the group subscribes to."""
        group = self._kinds.find_group(call.group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.find_offset_delete_error()
        if group is None or error is not None:
            refuse(call, error or ErrorCode.GROUP_ID_NOT_FOUND, out)
            return
        subscribed = group.subscribed_among(tp.topic for tp in call.partitions)
        errors = [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if tp.topic in subscribed else ErrorCode.NONE
            for tp in call.partitions
        ]
        free = [tp for tp in call.partitions if tp.topic not in subscribed]
        doomed = self._known(call.group_id, free)
        answer = AnswerWhenStored(
            call=call, response=(ErrorCode.NONE, errors), store_errors=STORE_ERRORS
        )
        if doomed:
            then = Counted(totals=self._totals, deleted=len(doomed), then=answer)
            self._write_tombstones(call.group_id, doomed, then, out)
        else:
            out.answer(call.reply, (ErrorCode.NONE, errors))

    def forget(self, partitions: Iterable[TopicPartition], out: Decisions) -> None:
        """Deletes the offsets of deleted partitions, in every group."""
        gone = list(partitions)
        for group_id in list(self._offsets.group_ids()):
            doomed = self._known(group_id, gone)
            if doomed:
                then = Counted(totals=self._totals, deleted=len(doomed), then=_nothing)
                self._write_tombstones(group_id, doomed, then, out)

    def delete_group(self, call: GroupDeleteCall, out: Decisions, now_ms: int) -> None:
        """Deletes a group with its offsets, and answers when that is stored."""
        group = self._kinds.find_group(call.group_id)
        if group is None:
            refuse(call, ErrorCode.GROUP_ID_NOT_FOUND, out)
        elif not group.is_empty and not call.with_members:
            refuse(call, ErrorCode.NON_EMPTY_GROUP, out)
        else:
            if call.with_members:
                self._kinds.of_group(call.group_id).dismiss(call.group_id, out)
            answer = AnswerWhenStored(call=call, response=ErrorCode.NONE, store_errors=STORE_ERRORS)
            self._delete_group(group, self._all_partitions(call.group_id), answer, out, now_ms)

    def _delete_group(
        self,
        group: Group,
        doomed: Sequence[TopicPartition],
        then: Sequel,
        out: Decisions,
        now_ms: int,
    ) -> None:
        """Appends the tombstones of the group and of its offsets, for `doomed` partitions."""
        group_id = group.group_id
        records = [*_tombstones(group_id, doomed), *group.tombstones(now_ms=now_ms)]
        deleted = GroupDeleted(kind=self._kinds.of_group(group_id), group_id=group_id, then=then)
        self._sequencer.store(group_id, records, deleted, out, now_ms=now_ms)

    def _write_tombstones(
        self, group_id: str, doomed: Sequence[TopicPartition], then: Sequel, out: Decisions
    ) -> None:
        step = TombstonesStored(
            store=self._offsets, group_id=group_id, partitions=doomed, then=then
        )
        out.write(_tombstones(group_id, doomed), step)

    def _all_partitions(self, group_id: str) -> list[TopicPartition]:
        """Partitions with an offset: committed, in an open transaction, or in flight."""
        committed = self._offsets.of_group(group_id)
        unstable = self._offsets.unstable_partitions(group_id)
        in_flight = self._offsets.in_flight_partitions(group_id)
        return list(dict.fromkeys([*committed, *sorted(unstable), *sorted(in_flight)]))

    def expire(self, out: Decisions, now_ms: int) -> None:
        """Deletes expired offsets, and empty groups that have no other offsets."""
        for group in self._kinds.all_groups():
            if not self._sequencer.is_busy(group.group_id):
                self._expire_group(group, out, now_ms)

    def expire_now(self, call: GroupExpireCall, out: Decisions, now_ms: int) -> None:
        """Does to one group what `expire` will do once its retention has passed."""
        group = self._kinds.find_group(call.group_id)
        if group is None:
            refuse(call, ErrorCode.GROUP_ID_NOT_FOUND, out)
            return
        answer = AnswerWhenStored(call=call, response=ErrorCode.NONE, store_errors=STORE_ERRORS)
        if not self._expire_group(group, out, now_ms, judged_ms=_AFTER_ALL_MS, then=answer):
            refuse(call, ErrorCode.NON_EMPTY_GROUP, out)

    def _expire_group(
        self,
        group: Group,
        out: Decisions,
        now_ms: int,
        *,
        judged_ms: int | None = None,
        then: Sequel | None = None,
    ) -> bool:
        """Deletes what has expired by `judged_ms`, or by now; returns whether there was any."""
        retention = group.find_offset_retention()
        group_id = group.group_id
        due_ms = now_ms if judged_ms is None else judged_ms
        expired = [] if retention is None else self._expired(group_id, retention, due_ms)
        is_abandoned = group.is_empty and not group.expects_members
        is_over = is_abandoned and self._has_only(group_id, expired)
        counted = Counted(
            totals=self._totals, expired=len(expired), groups=int(is_over), then=then or _nothing
        )
        if is_over:
            self._delete_group(group, expired, counted, out, now_ms)
        elif expired:
            self._write_tombstones(group_id, expired, counted, out)
        else:
            return False
        return True

    def _expired(
        self, group_id: str, retention: OffsetRetention, now_ms: int
    ) -> list[TopicPartition]:
        """Partitions whose offsets are older than the retention, or past the expiry they named."""
        return [
            tp
            for tp, offset in self._offsets.of_group(group_id).items()
            if tp.topic not in retention.subscribed
            and not self._offsets.is_in_flight(group_id, tp)
            and not self._offsets.is_unstable(group_id, tp)
            and self._is_expired(offset, retention.since_ms, now_ms)
        ]

    def _is_expired(self, offset: CommittedOffset, since_ms: int | None, now_ms: int) -> bool:
        if offset.expire_timestamp_ms != NO_EXPIRY:
            return now_ms >= offset.expire_timestamp_ms
        start_ms = offset.commit_timestamp_ms if since_ms is None else since_ms
        return now_ms - start_ms >= self._config.offsets_retention_minutes * 60_000

    def _has_only(self, group_id: str, expired: Sequence[TopicPartition]) -> bool:
        """Whether the group has no offsets besides the `expired` ones."""
        return (
            not self._offsets.has_pending(group_id)
            and not self._offsets.has_in_flight(group_id)
            and len(expired) == len(self._offsets.of_group(group_id))
        )

    def _known(self, group_id: str, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        known = set(self._all_partitions(group_id))
        return [tp for tp in partitions if tp in known]


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstonesStored:
    """Continues after the tombstones of offsets."""

    store: Offsets
    group_id: str
    partitions: Sequence[TopicPartition]
    then: Sequel

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is ErrorCode.NONE:
            for delta, tp in enumerate(self.partitions):
                key = OffsetCommitKey(group=self.group_id, topic=tp.topic, partition=tp.partition)
                self.store.replay(key, None, record_offset=stored.base_offset + delta)
        self.then(stored, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Counts what the tombstones have removed, once they are stored."""

    totals: OffsetTotals
    then: Sequel
    expired: int = 0
    groups: int = 0
    deleted: int = 0

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is ErrorCode.NONE:
            self.totals.expired += self.expired
            self.totals.expired_groups += self.groups
            self.totals.deleted += self.deleted
        self.then(stored, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted:
    """Continues after the tombstones of a group."""

    kind: GroupKind
    group_id: str
    then: Sequel

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is ErrorCode.NONE:
            self.kind.on_deleted(self.group_id)
        self.then(stored, out)


def _nothing(stored: Stored, out: Decisions) -> None:
    """If the append failed, the next check tries again."""


def _tombstones(group_id: str, partitions: Iterable[TopicPartition]) -> list[LogRecord]:
    return [offset_record(group_id, tp.topic, tp.partition, None) for tp in partitions]
