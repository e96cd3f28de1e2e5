"""Who may commit and read offsets.

Owner: the `coordinator` loop, through the shard.
Invariants: an offset counts when its record is stored, in the order of the log; a transactional
one when its marker is.
Not here: the offsets themselves (`store.py`), how they go (`removal.py`), and whether
topics exist, which the handler asks.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Final

from embedkafka.coordinator.decision import Stored, TransactionalProducer
from embedkafka.group.classic.group import ClassicGroup
from embedkafka.group.classic.groups import ClassicGroups
from embedkafka.group.classic.messages import UNKNOWN_MEMBER_ID, find_member_error
from embedkafka.group.classic.states import ClassicGroupState
from embedkafka.group.config import GroupConfig
from embedkafka.group.consumer.assignment import ConsumerMember
from embedkafka.group.consumer.group import ConsumerGroup
from embedkafka.group.decision import Decision, Decisions
from embedkafka.group.offsets.store import (
    NO_EXPIRY,
    NO_PRODUCER_ID,
    STORE_ERRORS,
    CommittedOffset,
    Offsets,
)
from embedkafka.group.records import offset_record
from embedkafka.group.sequencer import Sequencer
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.internal import OffsetCommitKey, OffsetCommitValue
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import dataclass

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


class Commits:
    """Decides offset events for the groups of one shard."""

    def __init__(
        self,
        groups: MutableMapping[str, ClassicGroup],
        consumer_groups: Mapping[str, ConsumerGroup],
        offsets: Offsets,
        membership: ClassicGroups,
        sequencer: Sequencer,
        config: GroupConfig,
    ) -> None:
        self._groups = groups
        self._consumer_groups = consumer_groups
        self._sequencer = sequencer
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

        def run(out: Decisions, now_ms: int) -> None:
            error = self._find_error(committer, now_ms)
            if error is None:
                self._touch(committer, out)
                self._store(committer, offsets, reply=reply, out=out)
            else:
                refuse(error, out)

        def refuse(error: ErrorCode, out: Decisions) -> None:
            out.answer(reply, [error] * len(offsets))

        return self._sequencer.take(committer.group_id, run, now_ms=now_ms, refuse=refuse)

    def _find_error(self, committer: Committer, now_ms: int) -> ErrorCode | None:
        consumer = self._consumer_groups.get(committer.group_id)
        if consumer is not None:
            return _consumer_commit_error(consumer, committer)
        group = self._groups.get(committer.group_id)
        if group is None and committer.generation_id < 0:
            # Somebody who uses Kafka only to keep offsets, or an admin.
            group = self._groups[committer.group_id] = ClassicGroup(
                committer.group_id, now_ms=now_ms
            )
        if group is None:
            return _missing_group_error(committer)
        return _commit_error(group, committer)

    def _touch(self, committer: Committer, out: Decisions) -> None:
        """A commit of a member shows that it lives, as a heartbeat would; in classic groups."""
        group = self._groups.get(committer.group_id)
        if (
            group is None
            or group.state is ClassicGroupState.EMPTY
            or committer.producer is not None
        ):
            return
        self._membership.touch(group, committer.member_id, out)

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
        out.write(records, partial(self._on_stored, append), producer=committer.producer)

    def _on_stored(self, append: "_Append", stored: Stored) -> Decision:
        out = Decisions()
        self._offsets.end_append(
            append.group_id, append.partitions, transactional=append.producer is not None
        )
        error = stored.told_as(STORE_ERRORS)
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
        group = self._consumer_groups.get(group_id)
        if group is None or (member_id is None and epoch < 0):
            return None
        member = group.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None if member.member_epoch == epoch else _stale_error(member)

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


def _missing_group_error(committer: Committer) -> ErrorCode:
    """The group of the generation is gone; only newer consumers know a code for that."""
    is_transactional = committer.producer is not None
    if is_transactional or committer.version < _FIRST_WITH_MEMBER_EPOCH:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.GROUP_ID_NOT_FOUND


def _commit_error(group: ClassicGroup, committer: Committer) -> ErrorCode | None:
    is_transactional = committer.producer is not None
    if committer.generation_id < 0 and group.state is ClassicGroupState.EMPTY:
        return None
    names_member = (
        committer.generation_id >= 0
        or committer.member_id != UNKNOWN_MEMBER_ID
        or committer.group_instance_id is not None
    )
    if not names_member:
        # Before v3, transactional commits could not name the member.
        return None if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    error = find_member_error(group, committer.member_id, committer.group_instance_id)
    if error is None and committer.generation_id != group.generation_id:
        error = ErrorCode.ILLEGAL_GENERATION
    if error is None and not is_transactional:
        # The member knows the new generation, but not yet its assignment: what it commits may
        # belong to somebody else.
        is_completing = group.state is ClassicGroupState.COMPLETING_REBALANCE
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
    is_old = committer.version < _FIRST_WITH_MEMBER_EPOCH
    if is_old and not is_transactional and member.classic is None:
        return ErrorCode.UNSUPPORTED_VERSION
    if member.member_epoch == committer.generation_id:
        return None
    # Producers know no member epochs.
    return ErrorCode.ILLEGAL_GENERATION if is_transactional else _stale_error(member)


def _stale_error(member: ConsumerMember) -> ErrorCode:
    """A member that speaks the classic protocol knows its epoch as a generation."""
    is_classic = member.classic is not None
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH


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
