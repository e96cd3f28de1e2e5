"""Groups with members that change from the classic protocol to the consumer protocol, or back.

Members go over one by one (KIP-848). The first that speaks the consumer protocol turns a classic
group into a consumer group in which the others still speak the classic one; when the last of
those with the consumer protocol leaves, the group is a classic one again.

Pure: what a group would be, and why not.
"""

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from embedkafka.coordinator.decision import LogRecord
from embedkafka.group.classic.group import ClassicGroup
from embedkafka.group.classic.member import ClassicMember
from embedkafka.group.classic.states import ClassicGroupState
from embedkafka.group.config import GroupConfig
from embedkafka.group.consumer.assignment import (
    NOTHING,
    Assignment,
    ClassicSide,
    ConsumerMember,
    assignment_of,
)
from embedkafka.group.consumer.group import ConsumerGroup
from embedkafka.group.consumer.planning import Topics, metadata_of
from embedkafka.group.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    subscription_metadata_record,
    target_epoch_record,
    target_record,
)
from embedkafka.group.embedded_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    read_assignment,
    read_subscription,
    write_assignment,
)
from embedkafka.group.records import group_record
from embedkafka.protocol.errors import ApiError, ErrorCode, ProtocolError
from embedkafka.protocol.messages.internal import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

PartitionsByName = Iterable[
    ConsumerProtocolAssignment.TopicPartition | ConsumerProtocolSubscription.TopicPartition
]


def refuse_upgrade(group: ClassicGroup, config: GroupConfig) -> None:
    """Raises GROUP_ID_NOT_FOUND with the reason why the group stays a classic one."""
    if not config.consumer_migration_policy.allows_upgrade:
        reason = "online upgrade is disabled"
    elif group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        reason = "the group does not use the consumer embedded protocol"
    elif len(group.members) > config.consumer_group_max_size:
        reason = "the group size exceeds the consumer group maximum size"
    else:
        return
    raise _cannot_upgrade(group, reason)


def upgrade_records(group: ClassicGroup, topics: Topics) -> list[LogRecord]:
    """A consumer group in the place of the classic one, its members in the state Stable.

    Each has the partitions of its last assignment, whatever the group is doing at the moment.
    """
    try:
        members = [_consumer_member(group, member, topics) for member in group.members.values()]
    except ProtocolError as error:
        raise _cannot_upgrade(group, "the embedded consumer protocol is malformed") from error
    group_id, epoch = group.group_id, group.generation_id
    metadata = metadata_of((member.subscribed_topic_names for member in members), topics)
    return [
        group_record(group_id, None),
        *(member_record(group_id, member.member_id, member) for member in members),
        subscription_metadata_record(group_id, metadata),
        epoch_record(group_id, epoch),
        *(target_record(group_id, member.member_id, member.assigned) for member in members),
        target_epoch_record(group_id, epoch),
        *(current_record(group_id, member.member_id, member) for member in members),
    ]


def may_downgrade(
    group: ConsumerGroup, leaving: Collection[str], config: GroupConfig, *, joining: int = 0
) -> bool:
    """Whether everybody speaks the classic protocol once these have left.

    `joining` counts those who do, and come in their places.
    """
    staying = [m for m in group.members.values() if m.member_id not in leaving]
    return (
        config.consumer_migration_policy.allows_downgrade
        and 0 < len(staying) + joining <= config.group_max_size
        and all(member.classic is not None for member in staying)
        and any(group.members[member_id].classic is None for member_id in leaving)
    )


def downgraded(
    group: ConsumerGroup, members: Mapping[str, ConsumerMember], topics: Topics, *, now_ms: int
) -> ClassicGroup:
    """A stable classic group of `members`, each of which gets the target of the id it is under.

    That is its own id, but for a static member in the place of another.
    """
    classic = ClassicGroup(group.group_id, now_ms=now_ms, state=ClassicGroupState.STABLE)
    classic.generation_id = group.group_epoch
    for target_id, member in members.items():
        assert member.classic is not None, f"{member.member_id} does not speak the protocol"
        target = named(group.targets.get(target_id, NOTHING), topics)
        converted = ClassicMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.classic.session_timeout_ms,
            protocols=member.classic.protocols,
            assignment=write_assignment(target, member.classic.protocol.metadata),
        )
        classic.add(converted, CONSUMER_PROTOCOL_TYPE)
    classic.protocol_name = classic.select_protocol()
    classic.refresh_subscribed_topics()
    return classic


def named(assignment: Assignment, topics: Topics) -> dict[str, frozenset[int]]:
    """The assignment by names, without topics that were deleted."""
    names = {topic_id: name for name, (topic_id, _) in topics.items()}
    return {names[t]: partitions for t, partitions in assignment.items() if t in names}


def identified(partitions: PartitionsByName, topics: Topics) -> Assignment:
    """The assignment by topic ids, without topics that do not exist."""
    by_id: dict[UUID, Iterable[int]] = {
        topics[part.topic][0]: part.partitions for part in partitions if part.topic in topics
    }
    return assignment_of(by_id.items())


def _consumer_member(group: ClassicGroup, member: ClassicMember, topics: Topics) -> ConsumerMember:
    # Before its first generation a group has no protocol; its members offer the same topics in all.
    protocol_name = group.protocol_name or member.protocols[0].name
    subscription = read_subscription(member.metadata_for(protocol_name))
    assignment = read_assignment(member.assignment)
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        member_epoch=group.generation_id,
        previous_member_epoch=group.generation_id,
        assigned=identified(assignment.assigned_partitions, topics),
        classic=ClassicSide(
            session_timeout_ms=member.session_timeout_ms, protocols=member.protocols
        ),
    )


def _cannot_upgrade(group: ClassicGroup, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}.",
    )
