"""Consumer groups as ConsumerGroupDescribe shows them."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from embedkafka.broker.coordinator.groups.consumer.assignment import (
    NOTHING,
    Assignment,
    ConsumerMember,
)
from embedkafka.broker.coordinator.groups.consumer.group import ConsumerGroup, TopicMetadata
from embedkafka.broker.coordinator.groups.consumer.planning import preferred_assignor
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.consumer_groups import ConsumerGroupDescribeResponse

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def describe_consumer(
    group: ConsumerGroup, topics: Mapping[str, TopicMetadata], assignors: Sequence[str]
) -> ConsumerGroupDescribeResponse.Group:
    """Describes a consumer group with the current and target assignments of its members."""
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
    """Leaves out deleted topics, which have no name."""
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
