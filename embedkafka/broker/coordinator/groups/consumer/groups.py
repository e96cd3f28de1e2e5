"""Consumer groups (KIP-848): members join, stay, leave and time out.

A heartbeat may change the member, the group's epoch, the target assignment and the member's
partitions. All of it goes into one batch, and the answer follows when that is stored. Until then
other events of the group wait (`sequencer.py`).

Owner: the `coordinator` loop, through the shard.
Not here: the meaning of records (`group.py`), single steps (`member_transitions.py`), members that
speak the classic protocol (`classic_members.py`).
"""

from collections.abc import Callable, Collection
from typing import Final
from uuid import UUID

from embedkafka.broker.coordinator.decision import LogRecord, Stored
from embedkafka.broker.coordinator.groups.calls import (
    AnswerWhenStored,
    Committer,
    HeartbeatCall,
    JoinCall,
    LeaveCall,
    SyncCall,
)
from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.consumer.assignment import (
    NOTHING,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
)
from embedkafka.broker.coordinator.groups.consumer.classic_members import ClassicMembers
from embedkafka.broker.coordinator.groups.consumer.group import ConsumerGroup
from embedkafka.broker.coordinator.groups.consumer.heartbeat import (
    ConsumerHeartbeatCall,
    heartbeat_assignment,
    heartbeat_error,
    refuse_bad_regex,
    refuse_unreleased,
    refuse_wrong_epoch,
    require_member,
    require_static,
    updated_member,
)
from embedkafka.broker.coordinator.groups.consumer.member_transitions import MemberTransitions
from embedkafka.broker.coordinator.groups.consumer.migration import GroupUpgraded, Migration
from embedkafka.broker.coordinator.groups.consumer.planning import replace_static_member
from embedkafka.broker.coordinator.groups.consumer.records import current_record, find_consumer_key
from embedkafka.broker.coordinator.groups.consumer.timers import (
    CONSUMER_TIMERS,
    MemberTimers,
    cancel_timers,
)
from embedkafka.broker.coordinator.groups.decision import (
    Decisions,
    Sequel,
    SetTimer,
    TimerKey,
    TimerKind,
)
from embedkafka.broker.coordinator.groups.records import group_record
from embedkafka.broker.coordinator.groups.sequencer import Sequencer
from embedkafka.runtime.ids import format_uuid
from embedkafka.runtime.values import dataclass, replace
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from embedkafka.wire.protocol.messages.internal import ConsumerGroupMetadataKey

# Delay before a failed removal of a member is tried again.
_RETRY_MS: Final = 500


class ConsumerGroups:
    """`kinds.GroupKind`: decides consumer group events for one shard."""

    def __init__(
        self,
        migration: Migration,
        steps: MemberTransitions,
        member_timers: MemberTimers,
        classic_members: ClassicMembers,
        sequencer: Sequencer,
        config: GroupConfig,
        new_uuid: Callable[[], UUID],
    ) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self._migration = migration
        self._steps = steps
        self._member_timers = member_timers
        self._classic_members = classic_members
        self._sequencer = sequencer
        self._config = config
        self._new_uuid = new_uuid

    # The classic protocol

    def join(self, call: JoinCall, out: Decisions, now_ms: int) -> None:
        group = self.groups[call.group_id]
        if group.is_empty:
            self._migration.join_instead(group, call, out, now_ms)
        else:
            self._classic_members.join(group, call, out, now_ms)

    def sync(self, call: SyncCall, out: Decisions) -> None:
        self._classic_members.sync(self.groups[call.group_id], call, out)

    def heartbeat(self, call: HeartbeatCall, out: Decisions) -> None:
        self._classic_members.heartbeat(self.groups[call.group_id], call, out)

    def leave(self, call: LeaveCall, out: Decisions, now_ms: int) -> None:
        self._classic_members.leave(self.groups[call.group_id], call, out, now_ms)

    # Heartbeats of the consumer protocol

    def consumer_heartbeat(
        self, heartbeat: ConsumerHeartbeatCall, out: Decisions, now_ms: int
    ) -> None:
        """Lets a member join, stay or leave."""
        rule = self._leave if heartbeat.is_leaving else self._stay
        try:
            refuse_bad_regex(heartbeat.request.subscribed_topic_regex)
            rule(heartbeat, out, now_ms)
        except ApiError as error:
            out.answer(heartbeat.reply, heartbeat_error(error.code, error.message))

    def _stay(self, heartbeat: ConsumerHeartbeatCall, out: Decisions, now_ms: int) -> None:
        records: list[LogRecord] = []
        group_id = heartbeat.group_id
        upgraded = self._migration.find_group_to_upgrade(group_id) if heartbeat.is_joining else None
        if upgraded is None:
            group = self._require_or_new(heartbeat, records)
        else:
            group = self._migration.upgraded(upgraded, records)
            self._steps.refuse_when_full(group, heartbeat.request.member_id)
            self._migration.on_upgrading(upgraded, out)
        member = self._require_or_new_member(group, heartbeat, records)
        self._steps.live_members.add(member.member_id)
        updated = updated_member(member, heartbeat)
        stepped = self._steps.advance(
            group,
            member,
            updated,
            owned=heartbeat.owned,
            records=records,
            out=out,
            now_ms=now_ms,
            may_see=heartbeat.may_see,
        )
        self._member_timers.restart_session(group_id, stepped, out)
        has_news = heartbeat.is_full or stepped.assigned != member.assigned
        response = ConsumerGroupHeartbeatResponse(
            member_id=stepped.member_id,
            member_epoch=stepped.member_epoch,
            heartbeat_interval_ms=self._member_timers.heartbeat_interval_ms(group_id),
            assignment=heartbeat_assignment(stepped.assigned) if has_news else None,
        )
        then: Sequel = AnswerWhenStored(call=heartbeat, response=response)
        if upgraded is not None:
            then = GroupUpgraded(
                migration=self._migration, groups=self.groups, classic=upgraded, then=then
            )
        self._sequencer.store(group_id, records, then, out, now_ms=now_ms)

    def _require_or_new(
        self, heartbeat: ConsumerHeartbeatCall, records: list[LogRecord]
    ) -> ConsumerGroup:
        """The group, or a new one; that also replaces an empty classic group."""
        group_id = heartbeat.request.group_id
        group = self.groups.get(group_id)
        if group is not None:
            self._steps.refuse_when_full(group, heartbeat.request.member_id)
            return group
        is_classic = self._migration.has_classic_group(group_id)
        if not heartbeat.is_joining:
            if is_classic:
                other = f"Group {group_id} is not a consumer group."
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, other)
            raise self._no_group(heartbeat, f"Consumer group {group_id} not found.")
        if is_classic:
            records.append(group_record(group_id, None))
        return ConsumerGroup(group_id)

    def _require_or_new_member(
        self, group: ConsumerGroup, heartbeat: ConsumerHeartbeatCall, records: list[LogRecord]
    ) -> ConsumerMember:
        request = heartbeat.request
        member_id = request.member_id or format_uuid(self._new_uuid())
        static = None
        if request.instance_id is not None:
            static = group.find_static_member(request.instance_id)
        if heartbeat.is_joining:
            if static is None:
                return group.members.get(member_id, ConsumerMember(member_id=member_id))
            if static.classic is None:
                refuse_unreleased(static, member_id)
            return replace_static_member(group, static, member_id, records)
        if request.instance_id is not None:
            member = require_static(group, request.instance_id, member_id)
        else:
            member = require_member(group, member_id)
        refuse_wrong_epoch(member, request.member_epoch, heartbeat.owned)
        return member

    def _leave(self, heartbeat: ConsumerHeartbeatCall, out: Decisions, now_ms: int) -> None:
        request = heartbeat.request
        group = self.groups.get(request.group_id)
        if group is None:
            raise self._no_group(heartbeat, f"Group {request.group_id} not found.")
        if request.instance_id is None:
            member = require_member(group, request.member_id)
        else:
            member = require_static(group, request.instance_id, request.member_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
        )
        then = AnswerWhenStored(call=heartbeat, response=response)
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            gone = replace(member, member_epoch=STATIC_LEAVING_EPOCH, pending_revocation=NOTHING)
            record = current_record(group.group_id, member.member_id, gone)
            self._sequencer.store(group.group_id, [record], then, out, now_ms=now_ms)
        else:
            self._steps.fence(group, [member.member_id], then, out, now_ms=now_ms)

    def _no_group(self, heartbeat: ConsumerHeartbeatCall, why: str) -> ApiError:
        was_taken_away = heartbeat.request.member_id in self._steps.live_members
        code = ErrorCode.UNKNOWN_MEMBER_ID if was_taken_away else ErrorCode.GROUP_ID_NOT_FOUND
        return ApiError(code, why)

    # Events

    @property
    def timers(self) -> Collection[TimerKind]:
        return CONSUMER_TIMERS

    def on_timer(self, key: TimerKey, out: Decisions, now_ms: int) -> None:
        """Removes a member that was silent, or has not joined, synced or revoked in time."""
        group = self.groups.get(key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if group is None or member is None:
            return
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        if key.kind is not TimerKind.CONSUMER_REBALANCE or is_revoking:
            self._steps.fence(group, [key.member_id], RetryTimer(key=key), out, now_ms=now_ms)

    def on_commit(self, committer: Committer, out: Decisions) -> None:
        """Only heartbeats keep a member of a consumer group alive."""

    def dismiss(self, group_id: str, out: Decisions) -> None:
        """Requests wait only for appends, which answer them when they end."""
        cancel_timers(group_id, self.groups[group_id].members, out)

    def on_deleted(self, group_id: str) -> None:
        """The tombstones have deleted the group: it always has records."""

    # The log

    def replay(self, key: bytes, value: bytes | None) -> bool:
        """Ignores tombstones of missing groups. The epoch's tombstone deletes the group."""
        consumer_key = find_consumer_key(key)
        if consumer_key is None:
            return False
        group_id = consumer_key.group_id
        group = self.groups.get(group_id)
        if group is None:
            if value is None:
                return True
            group = self.groups[group_id] = ConsumerGroup(group_id)
        if value is None and isinstance(consumer_key, ConsumerGroupMetadataKey):
            del self.groups[group_id]
        else:
            group.replay(consumer_key, value)
        return True

    def on_loaded(self, out: Decisions, now_ms: int) -> None:
        for group in self.groups.values():
            self._member_timers.start(group, out)

    def on_unloaded(self, out: Decisions) -> None:
        """Requests wait only for appends, which answer them when they end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTimer:
    """Continues after the removal of a member that timed out: tries again if it failed."""

    key: TimerKey

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is not ErrorCode.NONE:
            out.do(SetTimer(self.key, _RETRY_MS))
