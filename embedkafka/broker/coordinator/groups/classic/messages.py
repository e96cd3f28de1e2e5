"""Checks of classic requests against a group, and the answers and records they lead to.

Everything here looks at a request and a group; nothing changes.
"""

from collections.abc import Mapping

from embedkafka.broker.coordinator.decision import LogRecord
from embedkafka.broker.coordinator.groups.calls import HeartbeatCall, JoinCall, SyncCall
from embedkafka.broker.coordinator.groups.classic.group import ClassicGroup
from embedkafka.broker.coordinator.groups.classic.member import ClassicMember
from embedkafka.broker.coordinator.groups.classic.states import ClassicGroupState
from embedkafka.broker.coordinator.groups.records import group_record
from embedkafka.broker.coordinator.groups.subscription_metadata import ClassicProtocol
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from embedkafka.wire.protocol.messages.internal import GroupMetadataValue


def new_member(call: JoinCall, member_id: str) -> ClassicMember:
    return ClassicMember(
        member_id=member_id,
        group_instance_id=call.request.group_instance_id,
        client_id=call.client_id,
        client_host=call.client_host,
        rebalance_timeout_ms=call.rebalance_timeout_ms,
        session_timeout_ms=call.request.session_timeout_ms,
        protocols=call.protocols,
    )


def find_sync_error(group: ClassicGroup | None, call: SyncCall) -> ErrorCode | None:
    request = call.request
    protocol_type, protocol_name = request.protocol_type, request.protocol_name
    if call.version >= 5 and (protocol_type is None or protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.find_member_error(request.member_id, request.group_instance_id)
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


def find_heartbeat_error(group: ClassicGroup | None, call: HeartbeatCall) -> ErrorCode | None:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    request = call.request
    error = group.find_member_error(request.member_id, request.group_instance_id)
    if error is None and request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def generation_response(group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
    """The group's generation as `member` sees it: only the leader sees the members."""
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
    """The group as it is, with `assignment` by member id."""
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


def read_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group that a record describes."""
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
        group.add(_read_member(member, value.protocol or ""), value.protocol_type)
    group.protocol_type = value.protocol_type or None
    group.refresh_subscribed_topics()
    return group


def _read_member(value: GroupMetadataValue.Member, protocol_name: str) -> ClassicMember:
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
