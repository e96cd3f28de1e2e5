"""Records of consumer groups in `__consumer_offsets`, byte for byte as Kafka 4.0 writes them.

As in `records.py`, the key's version tells the kind of record; all values are of version 0.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from embedkafka.group.consumer_assignment import Assignment, ConsumerMember, assignment_of
from embedkafka.group.decision import LogRecord
from embedkafka.group.records import with_version
from embedkafka.protocol.codec import decode
from embedkafka.protocol.message import message, tagged
from embedkafka.protocol.message import struct as nested
from embedkafka.protocol.wire_types import Int8, Int32, Int64


@message(versions=(3, 3))
class ConsumerGroupMetadataKey:
    group_id: str


@message(versions=(0, 0), flexible=0)
class ConsumerGroupMetadataValue:
    epoch: Int32


@message(versions=(4, 4))
class ConsumerGroupPartitionMetadataKey:
    group_id: str


@message(versions=(0, 0), flexible=0)
class ConsumerGroupPartitionMetadataValue:
    @nested
    class Topic:
        @nested
        class Partition:
            partition: Int32
            racks: Sequence[str]

        topic_id: UUID
        topic_name: str
        num_partitions: Int32
        partition_metadata: Sequence[Partition] = ()  # not used since 4.0

    topics: Sequence[Topic]


@message(versions=(5, 5))
class ConsumerGroupMemberMetadataKey:
    group_id: str
    member_id: str


@nested
class ClassicMemberMetadata:
    """Of members that speak the classic protocol; read, and never written here."""

    @nested
    class Protocol:
        name: str
        metadata: bytes

    session_timeout_ms: Int32
    supported_protocols: Sequence[Protocol]


@message(versions=(0, 0), flexible=0)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: Sequence[str]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = tagged(0, since=0, default=None)


@message(versions=(6, 6))
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str


@message(versions=(0, 0), flexible=0)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32


@message(versions=(7, 7))
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str
    member_id: str


@message(versions=(0, 0), flexible=0)
class ConsumerGroupTargetAssignmentMemberValue:
    @nested
    class Topic:
        topic_id: UUID
        partitions: Sequence[Int32]

    topic_partitions: Sequence[Topic]


@message(versions=(8, 8))
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str
    member_id: str


@message(versions=(0, 0), flexible=0)
class ConsumerGroupCurrentMemberAssignmentValue:
    @nested
    class Topic:
        topic_id: UUID
        partitions: Sequence[Int32]

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Sequence[Topic]
    partitions_pending_revocation: Sequence[Topic]


@message(versions=(16, 16))
class ConsumerGroupRegularExpressionKey:
    group_id: str
    regular_expression: str


@message(versions=(0, 0), flexible=0)
class ConsumerGroupRegularExpressionValue:
    topics: Sequence[str]
    version: Int64
    timestamp: Int64


ConsumerKey = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)

CONSUMER_KEYS: Final[Mapping[int, type[ConsumerKey]]] = {
    3: ConsumerGroupMetadataKey,
    4: ConsumerGroupPartitionMetadataKey,
    5: ConsumerGroupMemberMetadataKey,
    6: ConsumerGroupTargetAssignmentMetadataKey,
    7: ConsumerGroupTargetAssignmentMemberKey,
    8: ConsumerGroupCurrentMemberAssignmentKey,
    16: ConsumerGroupRegularExpressionKey,
}


def find_consumer_key(key: bytes) -> ConsumerKey | None:
    """What the record is about, if it is about a consumer group."""
    (version,) = struct.unpack_from(">h", key)
    cls = CONSUMER_KEYS.get(version)
    return None if cls is None else decode(cls, version, memoryview(key)[2:])


def epoch_record(group_id: str, epoch: int | None) -> LogRecord:
    """The group's epoch; None deletes the group."""
    value = None if epoch is None else ConsumerGroupMetadataValue(epoch=epoch)
    return _record(ConsumerGroupMetadataKey(group_id=group_id), 3, value)


def subscription_metadata_record(
    group_id: str, topics: Mapping[str, tuple[UUID, int]] | None
) -> LogRecord:
    """Ids and partition counts of the subscribed topics."""
    value = None
    if topics is not None:
        value = ConsumerGroupPartitionMetadataValue(
            topics=[
                ConsumerGroupPartitionMetadataValue.Topic(
                    topic_id=topic_id, topic_name=name, num_partitions=count
                )
                for name, (topic_id, count) in sorted(topics.items())
            ]
        )
    return _record(ConsumerGroupPartitionMetadataKey(group_id=group_id), 4, value)


def member_record(group_id: str, member_id: str, member: ConsumerMember | None) -> LogRecord:
    """What the member subscribes and who it is."""
    value = None
    if member is not None:
        value = ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
        )
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    return _record(key, 5, value)


def target_epoch_record(group_id: str, epoch: int | None) -> LogRecord:
    """The group epoch for which the target assignment was made."""
    value = None
    if epoch is not None:
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)
    return _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), 6, value)


def target_record(group_id: str, member_id: str, target: Assignment | None) -> LogRecord:
    """What the member should have."""
    value = None
    if target is not None:
        topic_type = ConsumerGroupTargetAssignmentMemberValue.Topic
        value = ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                topic_type(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in sorted(target.items())
            ]
        )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return _record(key, 7, value)


def current_record(group_id: str, member_id: str, member: ConsumerMember | None) -> LogRecord:
    """What the member has, and how far it has come."""
    value = None
    if member is not None:
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state.value,
            assigned_partitions=_topics(member.assigned),
            partitions_pending_revocation=_topics(member.pending_revocation),
        )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return _record(key, 8, value)


def regex_record(
    group_id: str, regex: str, topics: Iterable[str] | None, *, now_ms: int
) -> LogRecord:
    """The topics that a regular expression stands for at the moment."""
    value = None
    if topics is not None:
        value = ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=0, timestamp=now_ms
        )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return _record(key, 16, value)


def read_topics(
    topics: Sequence[
        ConsumerGroupCurrentMemberAssignmentValue.Topic
        | ConsumerGroupTargetAssignmentMemberValue.Topic
    ],
) -> Assignment:
    return assignment_of((topic.topic_id, topic.partitions) for topic in topics)


def _topics(assignment: Assignment) -> list[ConsumerGroupCurrentMemberAssignmentValue.Topic]:
    return [
        ConsumerGroupCurrentMemberAssignmentValue.Topic(
            topic_id=topic_id, partitions=sorted(partitions)
        )
        for topic_id, partitions in sorted(assignment.items())
    ]


def _record(key: ConsumerKey, key_version: int, value: object | None) -> LogRecord:
    encoded = None if value is None else with_version(value, 0)
    return LogRecord(with_version(key, key_version), encoded)
