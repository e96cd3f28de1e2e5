"""Groups as an admin sees them: the answers to describe and list requests, from state alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from embedkafka.group.classic.group import ClassicGroup
from embedkafka.group.classic.member import ClassicMember
from embedkafka.group.classic.states import ClassicGroupState
from embedkafka.group.consumer.assignment import NOTHING, Assignment, ConsumerMember
from embedkafka.group.consumer.group import ConsumerGroup, TopicMetadata
from embedkafka.group.consumer.planning import preferred_assignor
from embedkafka.group.embedded_protocol import CONSUMER_PROTOCOL_TYPE
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.consumer_groups import ConsumerGroupDescribeResponse
from embedkafka.protocol.messages.groups import DescribeGroupsResponse, ListGroupsResponse

CLASSIC_TYPE: Final = "classic"
CONSUMER_TYPE: Final = "consumer"
_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def describe(
    group_id: str, group: ClassicGroup | None, *, version: int
) -> DescribeGroupsResponse.Group:
    """A classic group; subscriptions and assignments are shown while they hold, in Stable.

    Before v6 a group that does not exist is said to be dead, and that is no error.
    """
    if group is None:
        return _missing(group_id, version)
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


def list_classic(
    groups: Iterable[ClassicGroup], *, states: Sequence[str], types: Sequence[str]
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


def list_consumer(
    groups: Iterable[ConsumerGroup], *, states: Sequence[str], types: Sequence[str]
) -> Iterator[ListGroupsResponse.Group]:
    """Consumer groups in one of `states`, if consumer is one of `types`."""
    if types and CONSUMER_TYPE not in {name.lower() for name in types}:
        return
    wanted = {name.lower() for name in states}
    for group in groups:
        if not wanted or group.state.value.lower() in wanted:
            yield ListGroupsResponse.Group(
                group_id=group.group_id,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                group_state=group.state.value,
                group_type=CONSUMER_TYPE,
            )


def describe_consumer(
    group: ConsumerGroup, topics: Mapping[str, TopicMetadata], assignors: Sequence[str]
) -> ConsumerGroupDescribeResponse.Group:
    """A consumer group with what each member has and should have."""
    names = {topic_id: name for name, (topic_id, _) in topics.items()}
    return ConsumerGroupDescribeResponse.Group(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group.members.values(), assignors),
        members=[
            _describe_consumer_member(member, group.targets.get(member.member_id, NOTHING), names)
            for member in group.members.values()
        ],
    )


def describe_consumer_error(
    group_id: str, error: ErrorCode, message: str | None = None
) -> ConsumerGroupDescribeResponse.Group:
    return ConsumerGroupDescribeResponse.Group(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _describe_consumer_member(
    member: ConsumerMember, target: Assignment, names: Mapping[UUID, str]
) -> ConsumerGroupDescribeResponse.Group.Member:
    return ConsumerGroupDescribeResponse.Group.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_describe_assignment(member.assigned, names),
        target_assignment=_describe_assignment(target, names),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _describe_assignment(
    assignment: Assignment, names: Mapping[UUID, str]
) -> ConsumerGroupDescribeResponse.Group.Member.Assignment:
    """Topics that were deleted have no name to show."""
    assignment_type = ConsumerGroupDescribeResponse.Group.Member.Assignment
    return assignment_type(
        topic_partitions=[
            assignment_type.TopicPartitions(
                topic_id=topic_id, topic_name=names[topic_id], partitions=sorted(partitions)
            )
            for topic_id, partitions in sorted(assignment.items())
            if topic_id in names
        ]
    )


def _missing(group_id: str, version: int) -> DescribeGroupsResponse.Group:
    has_error = version >= 6
    return DescribeGroupsResponse.Group(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if has_error else ErrorCode.NONE,
        error_message=f"Group {group_id} not found." if has_error else None,
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
