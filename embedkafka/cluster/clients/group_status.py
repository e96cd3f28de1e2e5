"""Groups as values: their members, what each one has, what is committed and how far behind it is.

`ask_groups` reads them from one embedded broker with a few requests.
Not here: groups as any client sees them, also of external clusters (`client_view`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from embedkafka.broker.coordinator.groups.subscription_metadata import (
    CONSUMER_PROTOCOL_TYPE,
    read_assignment,
)
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import dataclass
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.errors import ProtocolError
from embedkafka.wire.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from embedkafka.wire.protocol.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    OffsetFetchRequest,
)

_LIST, _DESCRIBE, _DESCRIBE_CONSUMER, _OFFSET_FETCH = 5, 5, 1, 8
_CONSUMER_TYPE: Final = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group at one moment."""

    member_id: str
    """The id that the coordinator gave it."""
    client_id: str
    """The client's id."""
    host: str
    """The address it connects from."""
    partitions: tuple[TopicPartition, ...]
    """What is assigned to it, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """A consumer group at one moment."""

    group_id: str
    """The group's id."""
    state: str
    """Kafka's name of its state, such as "Stable"."""
    members: tuple[GroupMember, ...]
    """Its members; none while it is empty."""
    committed: Mapping[TopicPartition, int]
    """The committed offset of each partition."""
    lag: Mapping[TopicPartition, int]
    """How many offsets each of these partitions is behind its end."""

    @property
    def total_lag(self) -> int:
        """The sum over all partitions."""
        return sum(self.lag.values())


def lag_of(
    committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """How far each committed partition is behind, as far as its end is known."""
    return {each: max(0, ends[each] - offset) for each, offset in committed.items() if each in ends}


def ask_groups(client: BrokerClient, ends: Mapping[TopicPartition, int]) -> Iterator[GroupStatus]:
    """The groups that this broker coordinates."""
    for listed in client.call(ListGroupsRequest(), _LIST).groups:
        members: Sequence[GroupMember] = ()
        if listed.group_type == _CONSUMER_TYPE:
            asked = ConsumerGroupDescribeRequest(
                group_ids=[listed.group_id], include_authorized_operations=False
            )
            (described,) = client.call(asked, _DESCRIBE_CONSUMER).groups
            members = [_consumer_member(member) for member in described.members]
        elif listed.protocol_type in ("", CONSUMER_PROTOCOL_TYPE):
            classic = DescribeGroupsRequest(groups=[listed.group_id])
            (found,) = client.call(classic, _DESCRIBE).groups
            members = [_classic_member(member) for member in found.members]
        committed = _committed(client, listed.group_id)
        yield GroupStatus(
            group_id=listed.group_id,
            state=listed.group_state,
            members=tuple(members),
            committed=committed,
            lag=lag_of(committed, ends),
        )


def _committed(client: BrokerClient, group: str) -> dict[TopicPartition, int]:
    asked = OffsetFetchRequest.Group(group_id=group, topics=None)
    (found,) = client.call(OffsetFetchRequest(groups=[asked]), _OFFSET_FETCH).groups
    return {
        TopicPartition(topic.name, partition.partition_index): partition.committed_offset
        for topic in found.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0
    }


def _consumer_member(member: ConsumerGroupDescribeResponse.Group.Member) -> GroupMember:
    assigned = (
        TopicPartition(topic.topic_name, partition)
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    )
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        partitions=tuple(sorted(assigned)),
    )


def _classic_member(member: DescribeGroupsResponse.Group.Member) -> GroupMember:
    try:
        topics = read_assignment(member.member_assignment).assigned_partitions
    except ProtocolError:
        topics = []  # not in the format of consumers
    assigned = (TopicPartition(topic.topic, n) for topic in topics for n in topic.partitions)
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        partitions=tuple(sorted(assigned)),
    )
