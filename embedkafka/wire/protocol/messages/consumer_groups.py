"""Consumer groups whose coordinator assigns the partitions (KIP-848)."""

from collections.abc import Sequence

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.message import message, since, struct
from embedkafka.wire.protocol.wire_types import (
    OPERATIONS_OMITTED,
    GroupId,
    Int8,
    Int16,
    Int32,
    PartitionIndex,
    TopicId,
    TopicName,
)


@message(api=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatRequest:
    """Join, stay in and leave a group: epoch 0 joins, -1 leaves, -2 leaves for a while.

    Null means unchanged since the last heartbeat.  v1 subscribes by regular expression, and
    members make their own ids.
    """

    @struct
    class TopicPartitions:
        topic_id: TopicId
        partitions: Sequence[PartitionIndex]

    group_id: GroupId
    member_id: str
    member_epoch: Int32  # 0 joins, -1 leaves, -2 leaves for a while
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Sequence[TopicName] | None = None
    subscribed_topic_regex: str | None = since(1, default=None)
    server_assignor: str | None = None
    topic_partitions: Sequence[TopicPartitions] | None = None


@message(api=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatResponse:
    """The member's epoch, and its assignment when that has changed."""

    @struct
    class Assignment:
        @struct
        class TopicPartitions:
            topic_id: TopicId
            partitions: Sequence[PartitionIndex]

        topic_partitions: Sequence[TopicPartitions]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None


@message(api=ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), flexible=0)
class ConsumerGroupDescribeRequest:
    """Ask for state and members of groups."""

    group_ids: Sequence[GroupId]
    include_authorized_operations: bool


@message(api=ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), flexible=0)
class ConsumerGroupDescribeResponse:
    """State, members, and current and target assignments.

    v1 whether a member speaks the classic protocol.
    """

    @struct
    class Group:
        @struct
        class Member:
            @struct
            class Assignment:
                @struct
                class TopicPartitions:
                    topic_id: TopicId
                    topic_name: TopicName
                    partitions: Sequence[PartitionIndex]

                topic_partitions: Sequence[TopicPartitions]

            member_id: str
            instance_id: str | None = None
            rack_id: str | None = None
            member_epoch: Int32
            client_id: str
            client_host: str
            subscribed_topic_names: Sequence[TopicName]
            subscribed_topic_regex: str | None = None
            assignment: Assignment
            target_assignment: Assignment
            member_type: Int8 = since(1, default=-1)  # -1 unknown, 0 classic, 1 consumer

        error_code: Int16 = 0
        error_message: str | None = None
        group_id: GroupId
        group_state: str
        group_epoch: Int32
        assignment_epoch: Int32
        assignor_name: str
        members: Sequence[Member]
        authorized_operations: Int32 = OPERATIONS_OMITTED

    throttle_time_ms: Int32 = 0
    groups: Sequence[Group]
