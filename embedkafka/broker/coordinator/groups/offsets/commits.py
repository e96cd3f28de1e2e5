"""Commits and reads offsets.

Owner: the `coordinator` loop, through the shard.
Invariants: an offset takes effect when its record is stored, in the order of the log; a
transactional one when its marker is.
Not here: the offsets themselves (`store.py`), their removal (`removal.py`), who may commit (each
kind's group says so), and whether topics exist, which handlers check.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from embedkafka.broker.coordinator.decision import Stored
from embedkafka.broker.coordinator.groups.calls import Committer, refuse
from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.decision import Decisions
from embedkafka.broker.coordinator.groups.kinds import GroupKinds
from embedkafka.broker.coordinator.groups.offsets.store import (
    NO_EXPIRY,
    STORE_ERRORS,
    CommittedOffset,
    Offsets,
)
from embedkafka.broker.coordinator.groups.offsets.totals import OffsetTotals
from embedkafka.broker.coordinator.groups.records import offset_record
from embedkafka.runtime.ids import NO_LEADER_EPOCH, NO_OFFSET, NO_PRODUCER_ID, TopicPartition
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.internal import OffsetCommitKey, OffsetCommitValue

_FIRST_WITH_MEMBER_EPOCH: Final = 9  # OffsetCommit
_FIRST_TXN_WITH_LOADING_ERROR: Final = 2  # TxnOffsetCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    """One partition of a commit request."""

    topic_partition: TopicPartition
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int | None = None  # None: now
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCall:
    """An OffsetCommit or TxnOffsetCommit request."""

    committer: Committer
    offsets: Sequence[OffsetToCommit]
    reply: Callable[[Sequence[ErrorCode]], None]  # takes one code for each offset, in order

    @property
    def group_id(self) -> str:
        return self.committer.group_id

    def refusal(self, error: ErrorCode) -> Sequence[ErrorCode]:
        """Producers before v2 cannot handle the loading error (KAFKA-7296)."""
        is_old = self.committer.version < _FIRST_TXN_WITH_LOADING_ERROR
        is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if self.committer.is_transactional and is_old and is_loading:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return [error] * len(self.offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    """The answer for one partition."""

    topic_partition: TopicPartition
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class Commits:
    """Decides commits for the groups of one shard, and reads their offsets."""

    def __init__(
        self, kinds: GroupKinds, offsets: Offsets, config: GroupConfig, totals: OffsetTotals
    ) -> None:
        self._kinds = kinds
        self._totals = totals
        self._offsets = offsets
        self._config = config

    # Commit

    def commit(self, call: CommitCall, out: Decisions, now_ms: int) -> None:
        """Stores the allowed offsets, and answers when they are stored."""
        error = self._find_error(call.committer, now_ms)
        if error is None:
            self._kinds.of_group(call.group_id).on_commit(call.committer, out)
            self._store(call, out, now_ms)
        else:
            refuse(call, error, out)

    def _find_error(self, committer: Committer, now_ms: int) -> ErrorCode | None:
        group = self._kinds.find_group(committer.group_id)
        if group is None and committer.generation_id < 0:
            # The client uses Kafka only to keep offsets, or is an admin.
            group = self._kinds.add_simple_group(committer.group_id, now_ms=now_ms)
        if group is None:
            return _missing_group_error(committer)
        return group.find_commit_error(committer)

    def _store(self, call: CommitCall, out: Decisions, now_ms: int) -> None:
        """Appends the offsets whose metadata is not too long."""
        limit = self._config.offset_metadata_max_bytes
        accepted = [offset for offset in call.offsets if len(offset.metadata) <= limit]
        errors = [
            ErrorCode.NONE if len(o.metadata) <= limit else ErrorCode.OFFSET_METADATA_TOO_LARGE
            for o in call.offsets
        ]
        if not accepted:
            out.answer(call.reply, errors)
            return
        step = OffsetsStored(
            store=self._offsets,
            totals=self._totals,
            call=call,
            errors=errors,
            entries=[_key_and_value(call.group_id, offset, now_ms) for offset in accepted],
        )
        self._offsets.begin_append(
            call.group_id, step.partitions, transactional=call.committer.is_transactional
        )
        records = [offset_record(k.group, k.topic, k.partition, v) for k, v in step.entries]
        out.write(records, step, producer=call.committer.producer)

    # Fetch

    def find_fetch_error(
        self, group_id: str, member_id: str | None, member_epoch: int
    ) -> ErrorCode | None:
        group = self._kinds.find_group(group_id)
        return None if group is None else group.find_fetch_error(member_id, member_epoch)

    def fetch(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        require_stable: bool,
    ) -> list[FetchedOffset]:
        """Offsets of the given partitions, or of all; -1 where there is none."""
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
class OffsetsStored:
    """Continues after the records of a commit; `errors` has a code for each requested offset."""

    store: Offsets
    totals: OffsetTotals
    call: CommitCall
    errors: Sequence[ErrorCode]
    entries: Sequence[tuple[OffsetCommitKey, OffsetCommitValue]]

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(key.topic, key.partition) for key, _ in self.entries]

    @property
    def producer_id(self) -> int:
        producer = self.call.committer.producer
        return NO_PRODUCER_ID if producer is None else producer.producer_id

    def __call__(self, stored: Stored, out: Decisions) -> None:
        self.store.end_append(
            self.call.group_id,
            self.partitions,
            transactional=self.call.committer.is_transactional,
        )
        error = stored.told_as(STORE_ERRORS)
        if error is ErrorCode.NONE:
            self.totals.committed += len(self.entries)
            for delta, (key, value) in enumerate(self.entries):
                self.store.replay(
                    key,
                    value,
                    record_offset=stored.base_offset + delta,
                    producer_id=self.producer_id,
                )
        codes = [error if code is ErrorCode.NONE else code for code in self.errors]
        out.answer(self.call.reply, codes)


def _missing_group_error(committer: Committer) -> ErrorCode:
    """The committer's group is gone; only newer consumers know a code for that."""
    if committer.is_transactional or committer.version < _FIRST_WITH_MEMBER_EPOCH:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.GROUP_ID_NOT_FOUND


def _key_and_value(
    group_id: str, offset: OffsetToCommit, now_ms: int
) -> tuple[OffsetCommitKey, OffsetCommitValue]:
    topic, partition = offset.topic_partition
    commit_ms, retention_ms = offset.commit_timestamp_ms, offset.retention_ms
    return (
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
            commit_timestamp=now_ms if commit_ms is None else commit_ms,
            expire_timestamp=NO_EXPIRY if retention_ms is None else now_ms + retention_ms,
        ),
    )
