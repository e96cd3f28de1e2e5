"""Members of consumer groups that still speak the classic protocol (KIP-848's online migration).

They join, sync, heartbeat and leave as in a classic group; but nobody leads: the coordinator
assigns, and the epoch of a member is the generation it is told.

What a heartbeat answers: REBALANCE_IN_PROGRESS when the member should join again, because the
group has a new epoch, or the member has partitions to give up, or what it waits for is free.

Owner: the `coordinator` loop, through the shard, which has found that the group is a consumer
group and not busy.
Not here: members with heartbeats of their own (`groups.py`).
"""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from embedkafka.coordinator.decision import LogRecord, Stored
from embedkafka.group.classic.groups import find_session_error
from embedkafka.group.classic.member import SyncReply
from embedkafka.group.classic.messages import (
    UNKNOWN_MEMBER_ID,
    JoinAttempt,
    join_error,
    leave_response,
    leaving_members,
    sync_error,
)
from embedkafka.group.config import GroupConfig
from embedkafka.group.consumer.assignment import (
    ClassicSide,
    ConsumerMember,
    MemberState,
    subtract,
)
from embedkafka.group.consumer.group import ConsumerGroup
from embedkafka.group.consumer.heartbeat import require_member, require_static
from embedkafka.group.consumer.migration import identified, may_downgrade, named
from embedkafka.group.consumer.planning import replace_static_member
from embedkafka.group.consumer.steps import ConsumerSteps, timer_key
from embedkafka.group.decision import CancelTimer, Decisions, SetTimer, TimerKind
from embedkafka.group.embedded_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    read_subscription,
    write_assignment,
)
from embedkafka.protocol.errors import ApiError, ErrorCode, ProtocolError
from embedkafka.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from embedkafka.protocol.messages.internal import ConsumerProtocolSubscription
from embedkafka.runtime.values import replace

_FIRST_SYNC_WITH_PROTOCOL: Final = 5


class ClassicMembers:
    """Decides classic requests for consumer groups of one shard."""

    def __init__(
        self, steps: ConsumerSteps, config: GroupConfig, new_uuid: Callable[[], UUID]
    ) -> None:
        self._steps = steps
        self._config = config
        self._new_uuid = new_uuid

    # Join

    def join(self, group: ConsumerGroup, attempt: JoinAttempt, out: Decisions, now_ms: int) -> None:
        """Lets a consumer in, or back in; it is told its epoch as the generation."""
        try:
            self._join(group, attempt, out, now_ms)
        except ApiError as error:
            out.answer(attempt.reply, join_error(error.code, attempt.request.member_id))

    def _join(
        self, group: ConsumerGroup, attempt: JoinAttempt, out: Decisions, now_ms: int
    ) -> None:
        request = attempt.request
        is_unknown = request.member_id == UNKNOWN_MEMBER_ID
        member_id = str(self._new_uuid()) if is_unknown else request.member_id
        self._refuse(group, attempt, member_id)
        if is_unknown and attempt.requires_known_member_id:
            # Nobody remembers the id: any will do when it comes back.
            out.answer(attempt.reply, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        records: list[LogRecord] = []
        subscription = _subscription(attempt)
        replaced = self._find_replaced(group, attempt)
        member = self._member(group, attempt, member_id, replaced, records)
        updated = _updated(member, attempt, subscription)
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
            then = _answer_join(attempt, stepped)
            self._steps.downgrade(group, members, then, out, now_ms=now_ms, rebalances=False)
        else:
            then = self._answer_join_and_watch(attempt, stepped)
            self._steps.sequencer.store(group.group_id, records, then, out, now_ms=now_ms)

    def _refuse(self, group: ConsumerGroup, attempt: JoinAttempt, member_id: str) -> None:
        error = find_session_error(attempt, self._config)
        if error is not None:
            raise ApiError(error)
        self._steps.refuse_when_full(group, member_id)
        if not group.supports(attempt.request.protocol_type, attempt.protocols):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _find_replaced(self, group: ConsumerGroup, attempt: JoinAttempt) -> ConsumerMember | None:
        """The static member whose place the joining one takes."""
        instance_id = attempt.request.group_instance_id
        if instance_id is None or attempt.request.member_id != UNKNOWN_MEMBER_ID:
            return None
        return group.find_static_member(instance_id)

    def _member(
        self,
        group: ConsumerGroup,
        attempt: JoinAttempt,
        member_id: str,
        replaced: ConsumerMember | None,
        records: list[LogRecord],
    ) -> ConsumerMember:
        if replaced is not None:
            return replace_static_member(group, replaced, member_id, records)
        instance_id = attempt.request.group_instance_id
        if instance_id is not None and attempt.request.member_id != UNKNOWN_MEMBER_ID:
            return require_static(group, instance_id, member_id)
        return group.members.get(member_id, ConsumerMember(member_id=member_id))

    def _answer_join_and_watch(
        self, attempt: JoinAttempt, member: ConsumerMember
    ) -> Callable[[Stored, Decisions], None]:
        answer = _answer_join(attempt, member)
        group_id = attempt.request.group_id

        def then(stored: Stored, out: Decisions) -> None:
            if stored.error is ErrorCode.NONE:
                out.do(CancelTimer(timer_key(TimerKind.CONSUMER_JOIN, group_id, member)))
                self._steps.restart_session(group_id, member, out)
                sync_key = timer_key(TimerKind.CONSUMER_SYNC, group_id, member)
                out.do(SetTimer(sync_key, attempt.rebalance_timeout_ms))
            answer(stored, out)

        return then

    # Sync

    def sync(
        self,
        group: ConsumerGroup,
        request: SyncGroupRequest,
        *,
        version: int,
        reply: SyncReply,
        out: Decisions,
    ) -> None:
        """Gives a member what the coordinator has assigned to it."""
        try:
            member, classic = _require(group, request.member_id, request.group_instance_id)
            _refuse_generation(member, request.generation_id)
            _refuse_protocol(classic, request, version)
            self._refuse_outdated(group, member, out)
        except ApiError as error:
            out.answer(reply, sync_error(error.code))
            return
        out.do(CancelTimer(timer_key(TimerKind.CONSUMER_SYNC, group.group_id, member)))
        self._steps.restart_session(group.group_id, member, out)
        assigned = named(member.assigned, self._steps.topics())
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(assigned, classic.protocol.metadata),
        )
        out.answer(reply, response)

    def _refuse_outdated(
        self, group: ConsumerGroup, member: ConsumerMember, out: Decisions
    ) -> None:
        """A new epoch makes the member join again, once it has given up what it has to."""
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        if group.group_epoch > member.member_epoch and not is_revoking:
            _expect_join(group.group_id, member, out)
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    # Heartbeat

    def heartbeat(
        self,
        group: ConsumerGroup,
        request: HeartbeatRequest,
        *,
        reply: Callable[[HeartbeatResponse], None],
        out: Decisions,
    ) -> None:
        try:
            member, _ = _require(group, request.member_id, request.group_instance_id)
            _refuse_generation(member, request.generation_id)
        except ApiError as error:
            out.answer(reply, HeartbeatResponse(error_code=error.code))
            return
        self._steps.restart_session(group.group_id, member, out)
        error_code = ErrorCode.NONE
        if _should_join(group, member):
            _expect_join(group.group_id, member, out)
            error_code = ErrorCode.REBALANCE_IN_PROGRESS
        out.answer(reply, HeartbeatResponse(error_code=error_code))

    # Leave

    def leave(
        self,
        group: ConsumerGroup,
        request: LeaveGroupRequest,
        *,
        version: int,
        reply: Callable[[LeaveGroupResponse], None],
        out: Decisions,
        now_ms: int,
    ) -> None:
        """Removes members, of either protocol: an admin does not ask which one they speak."""
        leaving: list[str] = []
        errors: list[ErrorCode] = []
        for one in leaving_members(request, version):
            try:
                leaving.append(_require_leaving(group, one).member_id)
                errors.append(ErrorCode.NONE)
            except ApiError as error:
                errors.append(error.code)

        def answer(stored: Stored, out: Decisions) -> None:
            if stored.error is ErrorCode.NONE:
                out.answer(reply, leave_response(request, errors, version))
            else:
                code = stored.told_as()
                out.answer(reply, LeaveGroupResponse(error_code=code))

        if leaving:
            self._steps.fence(group, list(dict.fromkeys(leaving)), answer, out, now_ms=now_ms)
        else:
            out.answer(reply, leave_response(request, errors, version))


def _subscription(attempt: JoinAttempt) -> ConsumerProtocolSubscription:
    """All protocols of a consumer come with the same subscription."""
    try:
        return read_subscription(attempt.protocols[0].metadata)
    except ProtocolError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error


def _updated(
    member: ConsumerMember, attempt: JoinAttempt, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    return replace(
        member,
        instance_id=attempt.request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=attempt.client_id,
        client_host=attempt.client_host,
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        classic=ClassicSide(
            session_timeout_ms=attempt.request.session_timeout_ms, protocols=attempt.protocols
        ),
    )


def _answer_join(
    attempt: JoinAttempt, member: ConsumerMember
) -> Callable[[Stored, Decisions], None]:
    assert member.classic is not None
    response = JoinGroupResponse(
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.classic.protocol.name,
        leader="",
        member_id=member.member_id,
        members=[],
    )

    def then(stored: Stored, out: Decisions) -> None:
        if stored.error is ErrorCode.NONE:
            out.answer(attempt.reply, response)
        else:
            code = stored.told_as()
            out.answer(attempt.reply, join_error(code, attempt.request.member_id))

    return then


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
    """The member; an admin may name the instance alone."""
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
    """Whether somebody else still has something of what the member should get."""
    holders = group.holders()
    missing = subtract(group.targets.get(member.member_id, {}), member.assigned)
    return any((topic_id, p) in holders for topic_id, parts in missing.items() for p in parts)


def _expect_join(group_id: str, member: ConsumerMember, out: Decisions) -> None:
    """The member is out if it does not join again in time."""
    key = timer_key(TimerKind.CONSUMER_JOIN, group_id, member)
    out.do(SetTimer(key, member.rebalance_timeout_ms, if_absent=True))
