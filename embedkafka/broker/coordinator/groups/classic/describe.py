"""Classic groups as DescribeGroups shows them."""

from embedkafka.broker.coordinator.groups.classic.group import ClassicGroup
from embedkafka.broker.coordinator.groups.classic.member import ClassicMember
from embedkafka.broker.coordinator.groups.classic.states import ClassicGroupState
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import DescribeGroupsResponse


def describe(group_id: str, group: ClassicGroup) -> DescribeGroupsResponse.Group:
    """Describes a classic group; only Stable shows subscriptions."""
    name = group.protocol_name if group.state is ClassicGroupState.STABLE else None
    return DescribeGroupsResponse.Group(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=name or "",
        members=[_describe_member(member, name) for member in group.members.values()],
    )


def describe_error(group_id: str, error: ErrorCode) -> DescribeGroupsResponse.Group:
    return DescribeGroupsResponse.Group(
        error_code=error,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )


def describe_missing(
    group_id: str, *, version: int, is_other: bool
) -> DescribeGroupsResponse.Group:
    """A group that does not exist or is of another kind; before v6 it is Dead, with no error."""
    what = "is not a classic group." if is_other else "not found."
    has_error = version >= 6
    return DescribeGroupsResponse.Group(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if has_error else ErrorCode.NONE,
        error_message=f"Group {group_id} {what}" if has_error else None,
        group_id=group_id,
        group_state=ClassicGroupState.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def _describe_member(
    member: ClassicMember, protocol_name: str | None
) -> DescribeGroupsResponse.Group.Member:
    return DescribeGroupsResponse.Group.Member(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol_name is None else member.metadata_for(protocol_name),
        member_assignment=member.assignment,
    )
