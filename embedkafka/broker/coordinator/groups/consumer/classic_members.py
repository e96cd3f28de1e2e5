"""Members of consumer groups that still speak the classic protocol (KIP-848's online migration).

They join, sync, heartbeat and leave as in a classic group, but no member leads: the coordinator
assigns, and answers carry the member's epoch as the generation.

A heartbeat answers REBALANCE_IN_PROGRESS when the member should join again: the group has a new
epoch, the member has partitions to give up, or the partitions it waits for are free.

Owner: the `coordinator` loop, through the shard.
Not here: members that speak the consumer protocol (`groups.py`).
"""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from embedkafka.broker.coordinator.decision import LogRecord, Stored
from embedkafka.broker.coordinator.groups.calls import (
    UNKNOWN_MEMBER_ID,
    AnswerWhenStored,
    HeartbeatCall,
    JoinCall,
    LeaveCall,
    SyncCall,
    join_error,
    refuse,
)
from embedkafka.broker.coordinator.groups.config import GroupConfig
from embedkafka.broker.coordinator.groups.consumer.assignment import (
    ClassicSide,
    ConsumerMember,
    MemberState,
    subtract,
)
from embedkafka.broker.coordinator.groups.consumer.group import ConsumerGroup
from embedkafka.broker.coordinator.groups.consumer.heartbeat import require_member, require_static
from embedkafka.broker.coordinator.groups.consumer.member_transitions import MemberTransitions
from embedkafka.broker.coordinator.groups.consumer.migration import (
    Migration,
    identified,
    may_downgrade,
    named,
)
from embedkafka.broker.coordinator.groups.consumer.planning import replace_static_member
from embedkafka.broker.coordinator.groups.consumer.timers import MemberTimers, timer_key
from embedkafka.broker.coordinator.groups.decision import (
    CancelTimer,
    Decisions,
    SetTimer,
    TimerKind,
)
from embedkafka.broker.coordinator.groups.sequencer import Sequencer
from embedkafka.broker.coordinator.groups.subscription_metadata import (
    CONSUMER_PROTOCOL_TYPE,
    read_subscription,
    write_assignment,
)
from embedkafka.runtime.ids import format_uuid
from embedkafka.runtime.values import dataclass, replace
from embedkafka.wire.protocol.errors import ApiError, ErrorCode, ProtocolError
from embedkafka.wire.protocol.messages.groups import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from embedkafka.wire.protocol.messages.internal import ConsumerProtocolSubscription

_FIRST_SYNC_WITH_PROTOCOL: Final = 5


class ClassicMembers:
    """Decides classic requests for the consumer groups of one shard."""

    def __init__(
        self,
        steps: MemberTransitions,
        migration: Migration,
        member_timers: MemberTimers,
        sequencer: Sequencer,
        config: GroupConfig,
        new_uuid: Callable[[], UUID],
    ) -> None:
        self._steps = steps
        self._migration = migration
        self._member_timers = member_timers
        self._sequencer = sequencer
        self._config = config
        self._new_uuid = new_uuid

    # Join

    def join(self, group: ConsumerGroup, call: JoinCall, out: Decisions, now_ms: int) -> None:
        """Lets a consumer in, or back in, and answers with its epoch as the generation."""
        try:
            self._join(group, call, out, now_ms)
        except ApiError as error:
            refuse(call, error.code, out)

    def _join(self, group: ConsumerGroup, call: JoinCall, out: Decisions, now_ms: int) -> None:
        request = call.request
        is_unknown = request.member_id == UNKNOWN_MEMBER_ID
        member_id = format_uuid(self._new_uuid()) if is_unknown else request.member_id
        self._refuse(group, call, member_id)
        if is_unknown and call.requires_known_member_id:
            # The group does not keep the id: a client may come back with any.
            out.answer(call.reply, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        records: list[LogRecord] = []
        subscription = _subscription(call)
        replaced = self._find_replaced(group, call)
        member = self._member(group, call, member_id, replaced, records)
        updated = _updated(member, call, subscription)
        stepped = self._steps.advance(
            group,
            member,
            updated,
            owned=identified(subscription.owned_partitions, self._steps.topics()),
            records=records,
            out=out,
            now_ms=now_ms,
        )
        if replaced is not None and may_downgrade(
            group, [replaced.member_id], self._config, joining=1
        ):
            members = {**group.members, replaced.member_id: stepped}
            then = AnswerWhenStored(call=call, response=_join_response(stepped))
            self._migration.downgrade(group, members, then, out, now_ms=now_ms, rebalances=False)
        else:
            joined = ClassicMemberJoined(
                timers=self._member_timers,
                call=call,
                member=stepped,
                response=_join_response(stepped),
            )
            self._sequencer.store(group.group_id, records, joined, out, now_ms=now_ms)

    def _refuse(self, group: ConsumerGroup, call: JoinCall, member_id: str) -> None:
        error = call.find_session_error(self._config)
        if error is not None:
            raise ApiError(error)
        self._steps.refuse_when_full(group, member_id)
        if not group.supports(call.request.protocol_type, call.protocols):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _find_replaced(self, group: ConsumerGroup, call: JoinCall) -> ConsumerMember | None:
        """The static member that the joining one replaces."""
        instance_id = call.request.group_instance_id
        if instance_id is None or call.request.member_id != UNKNOWN_MEMBER_ID:
            return None
        return group.find_static_member(instance_id)

    def _member(
        self,
        group: ConsumerGroup,
        call: JoinCall,
        member_id: str,
        replaced: ConsumerMember | None,
        records: list[LogRecord],
    ) -> ConsumerMember:
        if replaced is not None:
            return replace_static_member(group, replaced, member_id, records)
        instance_id = call.request.group_instance_id
        if instance_id is not None and call.request.member_id != UNKNOWN_MEMBER_ID:
            return require_static(group, instance_id, member_id)
        return group.members.get(member_id, ConsumerMember(member_id=member_id))

    # Sync

    def sync(self, group: ConsumerGroup, call: SyncCall, out: Decisions) -> None:
        """Gives a member the partitions that the coordinator has assigned to it."""
        request = call.request
        try:
            member, classic = _require(group, request.member_id, request.group_instance_id)
            _refuse_generation(member, request.generation_id)
            _refuse_protocol(classic, request, call.version)
            self._refuse_outdated(group, member, out)
        except ApiError as error:
            refuse(call, error.code, out)
            return
        out.do(CancelTimer(timer_key(TimerKind.CONSUMER_SYNC, group.group_id, member)))
        self._member_timers.restart_session(group.group_id, member, out)
        assigned = named(member.assigned, self._steps.topics())
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(assigned, classic.protocol.metadata),
        )
        out.answer(call.reply, response)

    def _refuse_outdated(
        self, group: ConsumerGroup, member: ConsumerMember, out: Decisions
    ) -> None:
        """Makes the member join again if the epoch is new, unless it is still revoking."""
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        if group.group_epoch > member.member_epoch and not is_revoking:
            _expect_join(group.group_id, member, out)
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    # Heartbeat

    def heartbeat(self, group: ConsumerGroup, call: HeartbeatCall, out: Decisions) -> None:
        request = call.request
        try:
            member, _ = _require(group, request.member_id, request.group_instance_id)
            _refuse_generation(member, request.generation_id)
        except ApiError as error:
            refuse(call, error.code, out)
            return
        self._member_timers.restart_session(group.group_id, member, out)
        error_code = ErrorCode.NONE
        if _should_join(group, member):
            _expect_join(group.group_id, member, out)
            error_code = ErrorCode.REBALANCE_IN_PROGRESS
        out.answer(call.reply, HeartbeatResponse(error_code=error_code))

    # Leave

    def leave(self, group: ConsumerGroup, call: LeaveCall, out: Decisions, now_ms: int) -> None:
        """Removes members of either protocol: an admin does not know which one they speak."""
        leaving: list[str] = []
        errors: list[ErrorCode] = []
        for one in call.members:
            try:
                leaving.append(_require_leaving(group, one).member_id)
                errors.append(ErrorCode.NONE)
            except ApiError as error:
                errors.append(error.code)
        response = call.response(errors)
        if leaving:
            then = AnswerWhenStored(call=call, response=response)
            self._steps.fence(group, list(dict.fromkeys(leaving)), then, out, now_ms=now_ms)
        else:
            out.answer(call.reply, response)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberJoined:
    """Continues after the records of a join: the member must sync in time."""

    timers: MemberTimers
    call: JoinCall
    member: ConsumerMember
    response: JoinGroupResponse

    def __call__(self, stored: Stored, out: Decisions) -> None:
        if stored.error is not ErrorCode.NONE:
            refuse(self.call, stored.told_as(), out)
            return
        group_id, member = self.call.group_id, self.member
        out.do(CancelTimer(timer_key(TimerKind.CONSUMER_JOIN, group_id, member)))
        self.timers.restart_session(group_id, member, out)
        sync_key = timer_key(TimerKind.CONSUMER_SYNC, group_id, member)
        out.do(SetTimer(sync_key, self.call.rebalance_timeout_ms))
        out.answer(self.call.reply, self.response)


def _subscription(call: JoinCall) -> ConsumerProtocolSubscription:
    """Reads the subscription, which is the same in all protocols of a consumer."""
    try:
        return read_subscription(call.protocols[0].metadata)
    except ProtocolError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error


def _updated(
    member: ConsumerMember, call: JoinCall, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    return replace(
        member,
        instance_id=call.request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=call.client_id,
        client_host=call.client_host,
        rebalance_timeout_ms=call.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        classic=ClassicSide(
            session_timeout_ms=call.request.session_timeout_ms, protocols=call.protocols
        ),
    )


def _join_response(member: ConsumerMember) -> JoinGroupResponse:
    """The member's epoch as a generation, without a leader: the coordinator assigns."""
    assert member.classic is not None
    return JoinGroupResponse(
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.classic.protocol.name,
        leader="",
        member_id=member.member_id,
        members=[],
    )


def _require(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicSide]:
    if instance_id is None:
        member = require_member(group, member_id)
    else:
        member = require_static(group, instance_id, member_id)
    if member.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member, member.classic


def _require_leaving(group: ConsumerGroup, leaving: LeaveGroupRequest.Member) -> ConsumerMember:
    """The leaving member; an admin may give only its instance id."""
    instance_id = leaving.group_instance_id
    if instance_id is None:
        return require_member(group, leaving.member_id)
    if leaving.member_id == UNKNOWN_MEMBER_ID:
        member = group.find_static_member(instance_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member
    return require_static(group, instance_id, leaving.member_id)


def _refuse_generation(member: ConsumerMember, generation_id: int) -> None:
    if generation_id != member.member_epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)


def _refuse_protocol(classic: ClassicSide, request: SyncGroupRequest, version: int) -> None:
    has_protocol = request.protocol_type is not None and request.protocol_name is not None
    if (
        (version >= _FIRST_SYNC_WITH_PROTOCOL and not has_protocol)
        or request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE)
        or request.protocol_name not in (None, classic.protocol.name)
    ):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _should_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.member_epoch < group.group_epoch:
        return True
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not _is_waiting(group, member)


def _is_waiting(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether another member still holds a partition that this one should get."""
    holders = group.holders()
    missing = subtract(group.targets.get(member.member_id, {}), member.assigned)
    return any((topic_id, p) in holders for topic_id, parts in missing.items() for p in parts)


def _expect_join(group_id: str, member: ConsumerMember, out: Decisions) -> None:
    """Gives the member its rebalance timeout to join again."""
    key = timer_key(TimerKind.CONSUMER_JOIN, group_id, member)
    out.do(SetTimer(key, member.rebalance_timeout_ms, if_absent=True))
