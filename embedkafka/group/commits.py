"""Who may commit, read and delete offsets, and when offsets expire.

Owner: the `coordinator` loop, through the shard.
Invariants: an offset counts when its record is stored, in the order of the log; a transactional
one when its marker is.
Not here: the offsets themselves (`offsets.py`); whether topics exist, which the handler asks.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from embedkafka.group.append_errors import OFFSET_ERRORS
from embedkafka.group.config import GroupConfig
from embedkafka.group.consumer_group import ConsumerGroup
from embedkafka.group.consumer_groups import ConsumerGroups
from embedkafka.group.decision import (
    Decision,
    Decisions,
    LogRecord,
    Stored,
    TransactionalProducer,
)
from embedkafka.group.group import CONSUMER_PROTOCOL_TYPE, Group
from embedkafka.group.membership import UNKNOWN_MEMBER_ID, Membership, member_error
from embedkafka.group.offsets import NO_EXPIRY, NO_PRODUCER_ID, CommittedOffset, Offsets
from embedkafka.group.records import (
    OffsetCommitKey,
    OffsetCommitValue,
    group_record,
    offset_record,
)
from embedkafka.group.states import GroupState
from embedkafka.protocol.errors import ErrorCode
from embedkafka.runtime.ids import TopicPartition

INVALID_OFFSET: Final = -1
NO_LEADER_EPOCH: Final = -1
_FIRST_WITH_MEMBER_EPOCH: Final = 9  # OffsetCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    """One partition of a commit request."""

    topic_partition: TopicPartition
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRY


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """Who commits: a member of a generation, or nobody the group knows (generation -1)."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    producer: TransactionalProducer | None = None
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    """The answer for one partition."""

    topic_partition: TopicPartition
    offset: int = INVALID_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


CommitReply = Callable[[Sequence[ErrorCode]], None]
"""Takes one code for each partition of the request, in its order."""

DeleteReply = Callable[[tuple[ErrorCode, Sequence[ErrorCode]]], None]
"""Takes the group's error and, without one, a code for each partition of the request."""


class Commits:
    """Decides offset events for the groups of one shard."""

    def __init__(
        self,
        groups: MutableMapping[str, Group],
        offsets: Offsets,
        membership: Membership,
        consumers: ConsumerGroups,
        config: GroupConfig,
    ) -> None:
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._membership = membership
        self._config = config

    # Commit

    def commit(
        self,
        committer: Committer,
        offsets: Sequence[OffsetToCommit],
        *,
        reply: CommitReply,
        now_ms: int,
    ) -> Decision:
        """Stores the offsets that are allowed; the answer comes when they are stored."""
        out = Decisions()
        consumer = self._consumers.find(committer.group_id)
        if consumer is not None:
            error = _consumer_commit_error(consumer, committer)
            if error is None:
                self._store(committer, offsets, reply=reply, out=out)
            else:
                out.answer(reply, [error] * len(offsets))
            return out.done()
        group = self._groups.get(committer.group_id)
        if group is None and committer.generation_id < 0:
            # Somebody who uses Kafka only to keep offsets, or an admin.
            group = self._groups[committer.group_id] = Group(committer.group_id, now_ms=now_ms)
        error = _commit_error(group, committer)
        if group is None or error is not None:
            out.answer(reply, [error or ErrorCode.ILLEGAL_GENERATION] * len(offsets))
            return out.done()
        is_transactional = committer.producer is not None
        if not is_transactional and group.state is not GroupState.EMPTY:
            self._membership.touch(group, committer.member_id, out)
        self._store(committer, offsets, reply=reply, out=out)
        return out.done()

    def _store(
        self,
        committer: Committer,
        offsets: Sequence[OffsetToCommit],
        *,
        reply: CommitReply,
        out: Decisions,
    ) -> None:
        """Appends the offsets whose metadata is not too long."""
        limit = self._config.offset_metadata_max_bytes
        accepted = [offset for offset in offsets if len(offset.metadata) <= limit]
        append = _Append(
            group_id=committer.group_id,
            producer=committer.producer,
            reply=reply,
            errors=[
                ErrorCode.NONE if len(o.metadata) <= limit else ErrorCode.OFFSET_METADATA_TOO_LARGE
                for o in offsets
            ],
            entries=[_key_and_value(committer.group_id, offset) for offset in accepted],
        )
        if not accepted:
            out.answer(reply, append.errors)
            return
        self._offsets.begin_append(
            append.group_id, append.partitions, transactional=append.producer is not None
        )
        records = [offset_record(k.group, k.topic, k.partition, v) for k, v in append.entries]
        out.write(records, partial(self._on_stored, append), committer.producer)

    def _on_stored(self, append: "_Append", stored: Stored) -> Decision:
        out = Decisions()
        self._offsets.end_append(
            append.group_id, append.partitions, transactional=append.producer is not None
        )
        error = OFFSET_ERRORS.get(stored.error, stored.error)
        if error is ErrorCode.NONE:
            for delta, (key, value) in enumerate(append.entries):
                self._offsets.replay(
                    key,
                    value,
                    record_offset=stored.base_offset + delta,
                    producer_id=append.producer_id,
                )
        codes = [error if code is ErrorCode.NONE else code for code in append.errors]
        out.answer(append.reply, codes)
        return out.done()

    # Fetch

    def fetch_error(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode | None:
        """Whether a member of a consumer group (from v9 on) may read: not if it was replaced."""
        group = self._consumers.find(group_id)
        if group is None or (member_id is None and epoch < 0):
            return None
        member = group.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None if member.member_epoch == epoch else ErrorCode.STALE_MEMBER_EPOCH

    def fetch(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        require_stable: bool,
    ) -> list[FetchedOffset]:
        """Offsets of the given partitions, or all there are; -1 where there is none."""
        committed = self._offsets.of_group(group_id)
        wanted = committed if partitions is None else partitions
        return [self._fetch_one(group_id, tp, committed, require_stable) for tp in wanted]

    def _fetch_one(
        self,
        group_id: str,
        topic_partition: TopicPartition,
        committed: Mapping[TopicPartition, CommittedOffset],
        require_stable: bool,
    ) -> FetchedOffset:
        if require_stable and self._offsets.is_unstable(group_id, topic_partition):
            error = ErrorCode.UNSTABLE_OFFSET_COMMIT
            return FetchedOffset(topic_partition=topic_partition, error=error)
        found = committed.get(topic_partition)
        if found is None:
            return FetchedOffset(topic_partition=topic_partition)
        return FetchedOffset(
            topic_partition=topic_partition,
            offset=found.offset,
            leader_epoch=found.leader_epoch,
            metadata=found.metadata,
        )

    # Delete and expire

    def delete(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition],
        *,
        reply: DeleteReply,
    ) -> Decision:
        """Deletes offsets of topics that nobody in the group subscribes."""
        out = Decisions()
        consumer = self._consumers.find(group_id)
        if consumer is not None:
            subscribed = consumer.subscribed_topics()
            self._delete_partitions(group_id, partitions, subscribed, reply=reply, out=out)
            return out.done()
        group = self._groups.get(group_id)
        if group is None:
            out.answer(reply, (ErrorCode.GROUP_ID_NOT_FOUND, ()))
            return out.done()
        is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
        if group.state is not GroupState.EMPTY and not is_consumer:
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
            error = OFFSET_ERRORS.get(stored.error, stored.error)
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
        """Deletes an empty group with its offsets."""
        out = Decisions()
        group = self._groups.get(group_id)
        consumer = self._consumers.find(group_id)
        doomed = self._all_partitions(group_id)
        records = _tombstones(group_id, doomed)
        if group is None and consumer is None:
            out.answer(reply, ErrorCode.GROUP_ID_NOT_FOUND)
        elif consumer is not None and self._consumers.is_idle(consumer):
            records += self._consumers.bury(consumer, now_ms=now_ms)
            self._write_deletion(group_id, doomed, records, reply=reply, out=out)
        elif group is not None and group.state is GroupState.EMPTY:
            records += self._bury_group(group, now_ms)
            self._write_deletion(group_id, doomed, records, reply=reply, out=out)
        else:
            out.answer(reply, ErrorCode.NON_EMPTY_GROUP)
        return out.done()

    def _write_deletion(
        self,
        group_id: str,
        doomed: Sequence[TopicPartition],
        records: Sequence[LogRecord],
        *,
        reply: Callable[[ErrorCode], None],
        out: Decisions,
    ) -> None:
        """Appends the tombstones, those of the offsets `doomed` first, and then answers."""
        if not records:
            out.answer(reply, ErrorCode.NONE)
            return

        def on_stored(stored: Stored) -> Decision:
            after = Decisions()
            if stored.error is ErrorCode.NONE:
                self._bury(group_id, doomed, stored)
            after.answer(reply, OFFSET_ERRORS.get(stored.error, stored.error))
            return after.done()

        out.write(records, on_stored)

    def _all_partitions(self, group_id: str) -> list[TopicPartition]:
        """Partitions with an offset, committed or in an open transaction."""
        committed = self._offsets.of_group(group_id)
        unstable = self._offsets.unstable_partitions(group_id)
        return list(dict.fromkeys([*committed, *sorted(unstable)]))

    def expire(self, *, now_ms: int) -> Decision:
        """Deletes offsets that nobody needs any more, and groups that had nothing else."""
        out = Decisions()
        for group in list(self._groups.values()):
            expired = self._expired(group, now_ms)
            records = _tombstones(group.group_id, expired)
            is_empty = group.state is GroupState.EMPTY and not group.pending_members
            if is_empty and self._has_only(group.group_id, expired):
                records += self._bury_group(group, now_ms)
            if records:
                out.write(records, partial(self._on_tombstones, group.group_id, expired))
        for consumer in self._consumers.all():
            self._expire_consumer_group(consumer, out, now_ms)
        return out.done()

    def _expire_consumer_group(self, group: ConsumerGroup, out: Decisions, now_ms: int) -> None:
        expired = self._expired_where(
            group.group_id,
            subscribed=group.subscribed_topics(),
            since_ms=None,
            now_ms=now_ms,
        )
        records = _tombstones(group.group_id, expired)
        if self._consumers.is_idle(group) and self._has_only(group.group_id, expired):
            records += self._consumers.bury(group, now_ms=now_ms)
        if records:
            out.write(records, partial(self._on_tombstones, group.group_id, expired))

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

    def _expired(self, group: Group, now_ms: int) -> list[TopicPartition]:
        """Offsets outlive an empty group's last member, or, without members, their commit."""
        if group.protocol_type is None:
            subscribed: frozenset[str] | None = frozenset()
            since_ms = None
        elif group.state is GroupState.EMPTY:
            subscribed = frozenset()
            since_ms = group.current_state_timestamp_ms
        else:
            is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
            is_settled = group.state is GroupState.STABLE and is_consumer
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

    def _bury_group(self, group: Group, now_ms: int) -> list[LogRecord]:
        """Takes the group out; one that never had a generation has no record to delete."""
        group.move_to(GroupState.DEAD, now_ms=now_ms)
        del self._groups[group.group_id]
        return [group_record(group.group_id, None)] if group.generation_id > 0 else []

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Append:
    """A commit on its way to the log; `errors` are those of the whole request so far."""

    group_id: str
    producer: TransactionalProducer | None
    reply: CommitReply
    errors: Sequence[ErrorCode]
    entries: Sequence[tuple[OffsetCommitKey, OffsetCommitValue]]

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(key.topic, key.partition) for key, _ in self.entries]

    @property
    def producer_id(self) -> int:
        return NO_PRODUCER_ID if self.producer is None else self.producer.producer_id


def _commit_error(group: Group | None, committer: Committer) -> ErrorCode | None:
    is_transactional = committer.producer is not None
    if group is None:
        return ErrorCode.ILLEGAL_GENERATION
    if committer.generation_id < 0 and group.state is GroupState.EMPTY:
        return None
    names_member = (
        committer.generation_id >= 0
        or committer.member_id != UNKNOWN_MEMBER_ID
        or committer.group_instance_id is not None
    )
    if not names_member:
        # Before v3, transactional commits could not name the member.
        return None if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    error = member_error(group, committer.member_id, committer.group_instance_id)
    if error is None and committer.generation_id != group.generation_id:
        error = ErrorCode.ILLEGAL_GENERATION
    if error is None and not is_transactional:
        # The member knows the new generation, but not yet its assignment: what it commits may
        # belong to somebody else.
        is_completing = group.state is GroupState.COMPLETING_REBALANCE
        error = ErrorCode.REBALANCE_IN_PROGRESS if is_completing else None
    return error


def _consumer_commit_error(group: ConsumerGroup, committer: Committer) -> ErrorCode | None:
    is_transactional = committer.producer is not None
    is_anonymous = committer.generation_id < 0 and not committer.member_id
    if committer.generation_id < 0 and not group.members:
        return None
    if is_transactional and is_anonymous and committer.group_instance_id is None:
        return None
    member = group.members.get(committer.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not is_transactional and committer.version < _FIRST_WITH_MEMBER_EPOCH:
        return ErrorCode.UNSUPPORTED_VERSION
    if member.member_epoch == committer.generation_id:
        return None
    # Producers know no member epochs.
    return ErrorCode.ILLEGAL_GENERATION if is_transactional else ErrorCode.STALE_MEMBER_EPOCH


def _subscribed(group: Group, partitions: Iterable[TopicPartition]) -> frozenset[str]:
    """Topics in use; when subscriptions cannot be read, any of them may be."""
    if group.state is GroupState.EMPTY:
        return frozenset()
    if group.subscribed_topics is None:
        return frozenset(tp.topic for tp in partitions)
    return group.subscribed_topics


def _key_and_value(
    group_id: str, offset: OffsetToCommit
) -> tuple[OffsetCommitKey, OffsetCommitValue]:
    topic, partition = offset.topic_partition
    return (
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
            commit_timestamp=offset.commit_timestamp_ms,
            expire_timestamp=offset.expire_timestamp_ms,
        ),
    )


def _tombstones(group_id: str, partitions: Iterable[TopicPartition]) -> list[LogRecord]:
    return [offset_record(group_id, tp.topic, tp.partition, None) for tp in partitions]
