"""Classic groups as DescribeGroups shows them."""

from embedkafka.group.classic.group import ClassicGroup
from embedkafka.group.classic.member import ClassicMember
from embedkafka.group.classic.states import ClassicGroupState
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.groups import DescribeGroupsResponse


def describe(
    group_id: str, group: ClassicGroup | None, *, is_other: bool, version: int
) -> DescribeGroupsResponse.Group:
    """Describes a classic group; only Stable shows subscriptions and assignments.

    Before v6 a missing group is reported as Dead, without an error. `is_other` says that the group
    is there, but is not a classic one.
    """
    if group is None:
        what = "is not a classic group." if is_other else "not found."
        return _missing(group_id, f"Group {group_id} {what}", version)
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


def _missing(group_id: str, message: str, version: int) -> DescribeGroupsResponse.Group:
    has_error = version >= 6
    return DescribeGroupsResponse.Group(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if has_error else ErrorCode.NONE,
        error_message=message if has_error else None,
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
        member_assignment=b"" if protocol_name is None else member.assignment,
    )
