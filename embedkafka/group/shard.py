"""One partition of the offsets topic: its groups and offsets, and what each event does to them.

The shard decides; it has no thread, no clock and no log. Loading replays records, batch by batch;
live events return decisions whose records are replayed when they are stored.

Owner: the `coordinator` loop.
Invariants: a group is in a shard only if its id hashes to the shard's partition; a shard loaded
from the log of another equals it, but for waiting requests and timers.
Not here: which shards this broker has, and requests about several groups (`service.py`).
"""

import logging
from collections.abc import Callable
from uuid import UUID

from embedkafka.coordinator.decision import LogRecord, Stored
from embedkafka.group.classic.group import ClassicGroup
from embedkafka.group.classic.groups import ClassicGroups
from embedkafka.group.classic.member import ClassicMember, SyncReply
from embedkafka.group.classic.messages import JoinAttempt, join_error, sync_error
from embedkafka.group.classic.states import ClassicGroupState
from embedkafka.group.config import GroupConfig
from embedkafka.group.consumer.classic_members import ClassicMembers
from embedkafka.group.consumer.group import ConsumerGroup
from embedkafka.group.consumer.groups import ConsumerGroups
from embedkafka.group.consumer.planning import group_tombstones
from embedkafka.group.consumer.records import ConsumerKey, find_consumer_key
from embedkafka.group.consumer.steps import ConsumerSteps
from embedkafka.group.decision import Decision, Decisions, TimerKey, TimerKind
from embedkafka.group.embedded_protocol import ClassicProtocol
from embedkafka.group.offsets.commits import Commits
from embedkafka.group.offsets.removal import OffsetRemoval
from embedkafka.group.offsets.store import NO_PRODUCER_ID, Offsets
from embedkafka.group.ports import GroupOverrides, TopicCatalog
from embedkafka.group.records import read_key
from embedkafka.group.sequencer import Sequencer
from embedkafka.protocol.codec import decode_versioned, leading_version
from embedkafka.protocol.errors import ErrorCode, ProtocolError
from embedkafka.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
)
from embedkafka.protocol.messages.internal import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from embedkafka.records.batch import Batch, RecordBatch
from embedkafka.records.control import ControlType, find_control_type

_LOG = logging.getLogger(__name__)


class Shard:
    """State and rules of one offsets partition."""

    def __init__(
        self,
        partition: int,
        config: GroupConfig,
        new_uuid: Callable[[], UUID],
        catalog: TopicCatalog,
        overrides: GroupOverrides,
    ) -> None:
        self.partition = partition
        self.groups: dict[str, ClassicGroup] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.offsets = Offsets()
        self.sequencer = sequencer = Sequencer(self._replay_live)
        self.membership = ClassicGroups(self.groups, config, new_uuid)
        steps = ConsumerSteps(self.groups, self.membership, config, catalog, overrides, sequencer)
        self.consumers = ConsumerGroups(
            self.consumer_groups, self.groups, self.membership, steps, config, new_uuid
        )
        self.classic_members = ClassicMembers(steps, config, new_uuid)
        self.commits = Commits(
            self.groups, self.consumer_groups, self.offsets, self.membership, sequencer, config
        )
        self.removal = OffsetRemoval(
            self.groups, self.consumer_groups, self.offsets, sequencer, config
        )

    # The classic protocol, in groups of either kind

    def join(self, attempt: JoinAttempt, *, now_ms: int) -> Decision:
        """Joins the group that there is; an empty consumer group makes room for a classic one."""
        group_id = attempt.request.group_id

        def run(out: Decisions, now_ms: int) -> None:
            consumer = self.consumer_groups.get(group_id)
            if consumer is None:
                out.include(self.membership.join(attempt, now_ms=now_ms))
            elif consumer.members:
                self.classic_members.join(consumer, attempt, out, now_ms)
            else:
                self._join_in_place_of(consumer, attempt, out, now_ms)

        def refuse(error: ErrorCode, out: Decisions) -> None:
            out.answer(attempt.reply, join_error(error, attempt.request.member_id))

        return self.sequencer.take(group_id, run, now_ms=now_ms, refuse=refuse)

    def _join_in_place_of(
        self, consumer: ConsumerGroup, attempt: JoinAttempt, out: Decisions, now_ms: int
    ) -> None:
        def join(stored: Stored, out: Decisions) -> None:
            if stored.error is ErrorCode.NONE:
                out.include(self.membership.join(attempt, now_ms=stored.now_ms))
            else:
                error = stored.told_as()
                out.answer(attempt.reply, join_error(error, attempt.request.member_id))

        error = self.membership.find_join_error(attempt)
        if error is None:
            tombstones = group_tombstones(consumer, now_ms=now_ms)
            self.sequencer.store(consumer.group_id, tombstones, join, out, now_ms=now_ms)
        else:
            out.answer(attempt.reply, join_error(error, attempt.request.member_id))

    def sync(
        self, request: SyncGroupRequest, *, version: int, reply: SyncReply, now_ms: int
    ) -> Decision:
        def run(out: Decisions, now_ms: int) -> None:
            group = self.consumer_groups.get(request.group_id)
            if group is None:
                sync = self.membership.sync
                out.include(sync(request, version=version, reply=reply, now_ms=now_ms))
            else:
                self.classic_members.sync(group, request, version=version, reply=reply, out=out)

        def refuse(error: ErrorCode, out: Decisions) -> None:
            out.answer(reply, sync_error(error))

        return self.sequencer.take(request.group_id, run, now_ms=now_ms, refuse=refuse)

    def heartbeat(
        self,
        request: HeartbeatRequest,
        *,
        reply: Callable[[HeartbeatResponse], None],
        now_ms: int,
    ) -> Decision:
        def run(out: Decisions, now_ms: int) -> None:
            group = self.consumer_groups.get(request.group_id)
            if group is None:
                out.include(self.membership.heartbeat(request, reply=reply))
            else:
                self.classic_members.heartbeat(group, request, reply=reply, out=out)

        def refuse(error: ErrorCode, out: Decisions) -> None:
            out.answer(reply, HeartbeatResponse(error_code=error))

        return self.sequencer.take(request.group_id, run, now_ms=now_ms, refuse=refuse)

    def leave(
        self,
        request: LeaveGroupRequest,
        *,
        version: int,
        reply: Callable[[LeaveGroupResponse], None],
        now_ms: int,
    ) -> Decision:
        def run(out: Decisions, now_ms: int) -> None:
            group = self.consumer_groups.get(request.group_id)
            if group is None:
                leave = self.membership.leave
                out.include(leave(request, version=version, reply=reply, now_ms=now_ms))
            else:
                self.classic_members.leave(
                    group, request, version=version, reply=reply, out=out, now_ms=now_ms
                )

        def refuse(error: ErrorCode, out: Decisions) -> None:
            out.answer(reply, LeaveGroupResponse(error_code=error))

        return self.sequencer.take(request.group_id, run, now_ms=now_ms, refuse=refuse)

    def on_timer(self, key: TimerKey, *, now_ms: int) -> Decision:
        """A timer that a decision has set, and none has replaced or cancelled, is due."""
        match key.kind:
            case TimerKind.SESSION | TimerKind.JOIN | TimerKind.SYNC:
                return self.sequencer.take(
                    key.group_id,
                    lambda out, now_ms: out.include(self._on_classic_timer(key, now_ms)),
                    now_ms=now_ms,
                )
            case TimerKind.CONSUMER_REBALANCE:
                return self.consumers.on_rebalance_timeout(key, now_ms=now_ms)
            case TimerKind.CONSUMER_SESSION | TimerKind.CONSUMER_JOIN | TimerKind.CONSUMER_SYNC:
                return self.consumers.on_timeout(key, now_ms=now_ms)

    def _on_classic_timer(self, key: TimerKey, now_ms: int) -> Decision:
        match key.kind:
            case TimerKind.JOIN:
                return self.membership.on_join_timeout(key.group_id, now_ms=now_ms)
            case TimerKind.SYNC:
                return self.membership.on_sync_timeout(key.group_id, now_ms=now_ms)
            case _:
                return self.membership.on_session_timeout(
                    key.group_id, key.member_id, now_ms=now_ms
                )

    # Loading

    def replay_batch(self, batch: Batch) -> None:
        """Applies one batch of the log."""
        producer_id = NO_PRODUCER_ID
        if isinstance(batch, RecordBatch):
            if batch.is_control:
                self._replay_marker(batch)
                return
            if batch.is_transactional:
                producer_id = batch.producer_id
        for record in batch.records():
            if record.key is None:
                raise ProtocolError(f"the record at offset {record.offset} has no key")
            self._replay_record(record.key, record.value, record.offset, producer_id)

    def complete_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The marker of a transaction has reached this partition, live or when loading."""
        self.offsets.complete_transaction(producer_id, committed=committed)

    def on_loaded(self, *, now_ms: int) -> Decision:
        """The log has been replayed to its end: the shard begins to answer."""
        for group_id in self.offsets.group_ids():
            # Who only keeps offsets has no record of its own.
            if group_id not in self.groups and group_id not in self.consumer_groups:
                self.groups[group_id] = ClassicGroup(group_id, now_ms=now_ms)
        out = Decisions()
        out.include(self.membership.on_loaded(now_ms=now_ms))
        out.include(self.consumers.on_loaded())
        return out.done()

    def on_unloaded(self, *, now_ms: int) -> Decision:
        """This broker leads the partition no longer."""
        classic = self.membership.on_unloaded(now_ms=now_ms)
        waiting = self.sequencer.on_unloaded()
        return Decision(answers=(*classic.answers, *waiting.answers))

    def _replay_marker(self, batch: RecordBatch) -> None:
        for record in batch.records():
            kind = find_control_type(record)
            if kind is not None:
                committed = kind is ControlType.COMMIT
                self.complete_transaction(batch.producer_id, committed=committed)

    def _replay_live(self, record: LogRecord) -> None:
        """A record of a consumer group has been stored: from here on it is as if loaded."""
        self._replay_record(record.key, record.value, -1, NO_PRODUCER_ID)

    def _replay_record(
        self, key: bytes, value: bytes | None, record_offset: int, producer_id: int
    ) -> None:
        match read_key(key):
            case OffsetCommitKey() as offset_key:
                self.offsets.replay(
                    offset_key,
                    None if value is None else decode_versioned(OffsetCommitValue, value),
                    record_offset=record_offset,
                    producer_id=producer_id,
                )
            case GroupMetadataKey() as group_key:
                self._replay_group(
                    group_key.group,
                    None if value is None else decode_versioned(GroupMetadataValue, value),
                )
            case None:
                consumer_key = find_consumer_key(key)
                if consumer_key is None:
                    # Left by a newer broker, as Kafka has it: what it knew is not known here.
                    _LOG.warning(
                        "offsets partition %d: the record at offset %d is of unknown type %d",
                        self.partition,
                        record_offset,
                        leading_version(key),
                    )
                else:
                    self._replay_consumer_group(consumer_key, value)

    def _replay_consumer_group(self, key: ConsumerKey, value: bytes | None) -> None:
        """Tombstones of groups that are gone are nothing; that of the epoch is the last one."""
        group = self.consumer_groups.get(key.group_id)
        if group is None:
            if value is None:
                return
            group = self.consumer_groups[key.group_id] = ConsumerGroup(key.group_id)
        if value is None and isinstance(key, ConsumerGroupMetadataKey):
            del self.consumer_groups[key.group_id]
        else:
            group.replay(key, value)

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = _loaded_group(group_id, value)


def _loaded_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    timestamp_ms = value.current_state_timestamp
    group = ClassicGroup(
        group_id,
        now_ms=None if timestamp_ms == -1 else timestamp_ms,
        state=ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY,
    )
    group.generation_id = value.generation
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    for member in value.members:
        group.add(_loaded_member(member, value.protocol or ""), value.protocol_type)
    group.protocol_type = value.protocol_type or None
    group.refresh_subscribed_topics()
    return group


def _loaded_member(value: GroupMetadataValue.Member, protocol_name: str) -> ClassicMember:
    has_own_timeout = value.rebalance_timeout != -1
    return ClassicMember(
        member_id=value.member_id,
        group_instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout if has_own_timeout else value.session_timeout,
        session_timeout_ms=value.session_timeout,
        protocols=[ClassicProtocol(protocol_name, value.subscription)],
        assignment=value.assignment,
    )
