"""Membership requests as values, what is wrong with them, and the answers and records they lead to.

Everything here looks at a request and a group; nothing changes.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from embedkafka.coordinator.decision import LogRecord
from embedkafka.group.classic.group import ClassicGroup
from embedkafka.group.classic.member import ClassicMember, JoinReply
from embedkafka.group.classic.states import ClassicGroupState
from embedkafka.group.embedded_protocol import ClassicProtocol
from embedkafka.group.records import group_record
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from embedkafka.protocol.messages.internal import GroupMetadataValue
from embedkafka.runtime.values import dataclass

UNKNOWN_MEMBER_ID: Final = ""
UNKNOWN_GENERATION_ID: Final = -1
_FIRST_BATCHED_LEAVE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAttempt:
    """A JoinGroup request with what its connection and version say about it."""

    request: JoinGroupRequest
    client_id: str
    client_host: str
    version: int
    reply: JoinReply

    @property
    def requires_known_member_id(self) -> bool:
        """From v4 on (KIP-394) a dynamic member must come back with the id it is given."""
        return self.version >= 4 and self.request.group_instance_id is None

    @property
    def can_skip_assignment(self) -> bool:
        """From v9 on a static leader that returns is told to keep the assignment (KIP-814)."""
        return self.version >= 9

    @property
    def rebalance_timeout_ms(self) -> int:
        if self.version == 0:
            return self.request.session_timeout_ms
        return self.request.rebalance_timeout_ms

    @property
    def protocols(self) -> tuple[ClassicProtocol, ...]:
        return tuple(ClassicProtocol(p.name, bytes(p.metadata)) for p in self.request.protocols)

    def new_member(self, member_id: str) -> ClassicMember:
        return ClassicMember(
            member_id=member_id,
            group_instance_id=self.request.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=self.protocols,
        )


def find_member_error(
    group: ClassicGroup, member_id: str, instance_id: str | None
) -> ErrorCode | None:
    """Whether the two ids are those of a present member; a replaced static member is fenced."""
    if instance_id is not None:
        current_id = group.static_members.get(instance_id)
        if current_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if current_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return None if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def find_sync_error(
    group: ClassicGroup | None, request: SyncGroupRequest, version: int
) -> ErrorCode | None:
    protocol_type, protocol_name = request.protocol_type, request.protocol_name
    if version >= 5 and (protocol_type is None or protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = find_member_error(group, request.member_id, request.group_instance_id)
    if error is not None:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.UNKNOWN_MEMBER_ID if group.state is ClassicGroupState.EMPTY else None


def find_heartbeat_error(group: ClassicGroup | None, request: HeartbeatRequest) -> ErrorCode | None:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = find_member_error(group, request.member_id, request.group_instance_id)
    if error is None and request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def join_error(error: ErrorCode, member_id: str = UNKNOWN_MEMBER_ID) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        generation_id=UNKNOWN_GENERATION_ID,
        protocol_type=None,
        protocol_name=None,
        leader="",
        member_id=member_id,
        members=[],
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error, assignment=b"")


def leaving_members(request: LeaveGroupRequest, version: int) -> Sequence[LeaveGroupRequest.Member]:
    """Before v3 a member could only leave by itself."""
    if version < _FIRST_BATCHED_LEAVE:
        return [LeaveGroupRequest.Member(member_id=request.member_id)]
    return request.members


def leave_response(
    request: LeaveGroupRequest, errors: Sequence[ErrorCode], version: int
) -> LeaveGroupResponse:
    """One code for each of `leaving_members`, in their order."""
    if version < _FIRST_BATCHED_LEAVE:
        return LeaveGroupResponse(error_code=errors[0])
    members = [
        LeaveGroupResponse.Member(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            error_code=error,
        )
        for member, error in zip(request.members, errors, strict=True)
    ]
    return LeaveGroupResponse(members=members)


def generation_response(group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
    """The group's generation as `member` sees it: only the leader is shown the members."""
    is_leader = member.member_id == group.leader_id
    assert group.protocol_name is not None
    name = group.protocol_name
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=[
            JoinGroupResponse.Member(
                member_id=m.member_id,
                group_instance_id=m.group_instance_id,
                metadata=m.metadata_for(name),
            )
            for m in group.members.values()
        ]
        if is_leader
        else [],
    )


def assignment_response(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def metadata_record(group: ClassicGroup, assignment: Mapping[str, bytes]) -> LogRecord:
    timestamp_ms = group.current_state_timestamp_ms
    members = [
        GroupMetadataValue.Member(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata_for(group.protocol_name or ""),
            assignment=assignment[member.member_id],
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=-1 if timestamp_ms is None else timestamp_ms,
        members=members,
    )
    return group_record(group.group_id, value)
