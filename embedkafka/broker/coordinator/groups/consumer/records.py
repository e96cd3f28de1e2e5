"""Records of consumer groups in `__consumer_offsets`, byte for byte as Kafka 4.0 writes them.

As in `groups/records.py`, the key's version tells the kind of record. All values have version 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from embedkafka.broker.coordinator.decision import LogRecord
from embedkafka.broker.coordinator.groups.consumer.assignment import (
    Assignment,
    ClassicSide,
    ConsumerMember,
    assignment_of,
)
from embedkafka.broker.coordinator.groups.subscription_metadata import ClassicProtocol
from embedkafka.wire.protocol.codec import decode, encode_versioned, leading_version
from embedkafka.wire.protocol.messages.internal import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

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
    """The decoded key; None if the record is not of a consumer group."""
    version = leading_version(key)
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
                    topic_id=topic_id,
                    topic_name=name,
                    num_partitions=count,
                    partition_metadata=[],  # racks, which Kafka 4.0 no longer writes
                )
                for name, (topic_id, count) in sorted(topics.items())
            ]
        )
    return _record(ConsumerGroupPartitionMetadataKey(group_id=group_id), 4, value)


def member_record(group_id: str, member_id: str, member: ConsumerMember | None) -> LogRecord:
    """The member's identity and subscription."""
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
            classic_member_metadata=None if member.classic is None else _classic(member.classic),
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
    """The member's target assignment."""
    value = None
    if target is not None:
        topic_type = ConsumerGroupTargetAssignmentMemberValue.TopicPartition
        value = ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                topic_type(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in sorted(target.items())
            ]
        )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return _record(key, 7, value)


def current_record(group_id: str, member_id: str, member: ConsumerMember | None) -> LogRecord:
    """The member's current assignment, epoch and state."""
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
    """The topics that match a regular expression now."""
    value = None
    if topics is not None:
        value = ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=0, timestamp=now_ms
        )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return _record(key, 16, value)


def read_topics(
    topics: Sequence[
        ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
        | ConsumerGroupTargetAssignmentMemberValue.TopicPartition
    ],
) -> Assignment:
    return assignment_of((topic.topic_id, topic.partitions) for topic in topics)


def read_classic(
    value: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None,
) -> ClassicSide | None:
    """The classic side of the member; None if it speaks the consumer protocol."""
    if value is None or not value.supported_protocols:
        return None
    return ClassicSide(
        session_timeout_ms=value.session_timeout_ms,
        protocols=tuple(ClassicProtocol(p.name, p.metadata) for p in value.supported_protocols),
    )


def _classic(side: ClassicSide) -> ConsumerGroupMemberMetadataValue.ClassicMemberMetadata:
    value_type = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata
    return value_type(
        session_timeout_ms=side.session_timeout_ms,
        supported_protocols=[
            value_type.ClassicProtocol(name=p.name, metadata=p.metadata) for p in side.protocols
        ],
    )


def _topics(
    assignment: Assignment,
) -> list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]:
    return [
        ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions(
            topic_id=topic_id, partitions=sorted(partitions)
        )
        for topic_id, partitions in sorted(assignment.items())
    ]


def _record(key: ConsumerKey, key_version: int, value: object | None) -> LogRecord:
    encoded = None if value is None else encode_versioned(value, 0)
    return LogRecord(encode_versioned(key, key_version), encoded)
