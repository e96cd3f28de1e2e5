"""Groups of all kinds, as ListGroups shows them."""

from collections.abc import Iterable, Sequence

from embedkafka.group.kinds import Group
from embedkafka.protocol.messages.groups import ListGroupsResponse


def list_groups(
    groups: Iterable[Group], *, states: Sequence[str], types: Sequence[str]
) -> list[ListGroupsResponse.Group]:
    """The groups in one of `states` and of one of `types`, in any case; no names let all pass."""
    wanted_states = {name.lower() for name in states}
    wanted_types = {name.lower() for name in types}
    return [
        ListGroupsResponse.Group(
            group_id=group.group_id,
            protocol_type=group.listed_protocol_type,
            group_state=group.state_name,
            group_type=group.group_type.value,
        )
        for group in groups
        if (not wanted_types or group.group_type.value in wanted_types)
        and (not wanted_states or group.state_name.lower() in wanted_states)
    ]
