"""Groups as an admin sees them: the answers of DescribeGroups and ListGroups, from state alone."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from embedkafka.group.group import Group
from embedkafka.group.member import Member
from embedkafka.group.states import GroupState
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.groups import DescribeGroupsResponse, ListGroupsResponse

CLASSIC_TYPE: Final = "classic"


def describe(group_id: str, group: Group | None, *, version: int) -> DescribeGroupsResponse.Group:
    """A classic group; subscriptions and assignments are shown while they hold, in Stable.

    Before v6 a group that does not exist is said to be dead, and that is no error.
    """
    if group is None:
        return _missing(group_id, version)
    name = group.protocol_name if group.state is GroupState.STABLE else None
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


def list_classic(
    groups: Iterable[Group], *, states: Sequence[str], types: Sequence[str]
) -> Iterator[ListGroupsResponse.Group]:
    """Classic groups in one of `states`, if classic is one of `types`; no filter lets all pass.

    Names in filters may be in any case.
    """
    if types and CLASSIC_TYPE not in {name.lower() for name in types}:
        return
    wanted = {name.lower() for name in states}
    for group in groups:
        if not wanted or group.state.value.lower() in wanted:
            yield ListGroupsResponse.Group(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC_TYPE,
            )


def _missing(group_id: str, version: int) -> DescribeGroupsResponse.Group:
    has_error = version >= 6
    return DescribeGroupsResponse.Group(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if has_error else ErrorCode.NONE,
        error_message=f"Group {group_id} not found." if has_error else None,
        group_id=group_id,
        group_state=GroupState.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def _describe_member(
    member: Member, protocol_name: str | None
) -> DescribeGroupsResponse.Group.Member:
    return DescribeGroupsResponse.Group.Member(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol_name is None else member.metadata_for(protocol_name),
        member_assignment=b"" if protocol_name is None else member.assignment,
    )
