"""Classic consumer groups: coordinators, membership, committed offsets, administration."""

from collections.abc import Sequence

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.message import message, nullable_since, since, struct, until
from embedkafka.wire.protocol.wire_types import (
    OPERATIONS_OMITTED,
    ZERO_UUID,
    CoordinatorKey,
    GroupId,
    Int8,
    Int16,
    Int32,
    Int64,
    PartitionIndex,
    TopicId,
    TopicName,
)


@message(api=ApiKey.FIND_COORDINATOR, versions=(0, 6), flexible=3)
class FindCoordinatorRequest:
    """Ask which broker coordinates a group or a transactional id.

    v1 transactional ids.  v4 several keys at once.  v6 share groups.
    """

    key: CoordinatorKey = until(3, default="")
    key_type: Int8 = since(1, default=0)  # 0 group, 1 transaction, 2 share group
    coordinator_keys: Sequence[CoordinatorKey] = since(4, default=())


@message(api=ApiKey.FIND_COORDINATOR, versions=(0, 6), flexible=3)
class FindCoordinatorResponse:
    """The coordinator's address, per key from v4 on.

    v1 throttle time and message.
    """

    @struct
    class Coordinator:
        key: str
        node_id: Int32 = -1
        host: str = ""
        port: Int32 = -1
        error_code: Int16 = 0
        error_message: str | None = None

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = until(3, default=0)
    error_message: str | None = since(1, until=3, default=None)
    node_id: Int32 = until(3, default=0)
    host: str = until(3, default="")
    port: Int32 = until(3, default=0)
    coordinators: Sequence[Coordinator] = since(4, default=())


@message(api=ApiKey.JOIN_GROUP, versions=(0, 9), flexible=6)
class JoinGroupRequest:
    """Join a group, or join again when it rebalances.

    v1 rebalance timeout; in v0 it is the session timeout.  v4 needs a second try with the id
    from the broker.  v5 static members.  v8 reason.
    """

    @struct
    class Protocol:
        name: str
        metadata: bytes

    group_id: GroupId
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = since(1, default=-1)
    member_id: str
    group_instance_id: str | None = since(5, default=None)
    protocol_type: str
    protocols: Sequence[Protocol]
    reason: str | None = since(8, default=None)


@message(api=ApiKey.JOIN_GROUP, versions=(0, 9), flexible=6)
class JoinGroupResponse:
    """The generation a member is in; the leader gets all members and their subscriptions.

    v2 throttle time.  v5 static members.  v7 protocol type and a null protocol name.  v9
    tells a returning static leader to keep the assignment.
    """

    @struct
    class Member:
        member_id: str
        group_instance_id: str | None = since(5, default=None)
        metadata: bytes

    throttle_time_ms: Int32 = since(2, default=0)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: str | None = since(7, default=None)
    protocol_name: str | None = nullable_since(7)
    leader: str
    skip_assignment: bool = since(9, default=False)
    member_id: str
    members: Sequence[Member]


@message(api=ApiKey.SYNC_GROUP, versions=(0, 5), flexible=4)
class SyncGroupRequest:
    """Fetch this member's assignment; the leader sends those of all members.

    v3 static members.  v5 protocol, to be checked.
    """

    @struct
    class Assignment:
        member_id: str
        assignment: bytes

    group_id: GroupId
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = since(3, default=None)
    protocol_type: str | None = since(5, default=None)
    protocol_name: str | None = since(5, default=None)
    assignments: Sequence[Assignment]


@message(api=ApiKey.SYNC_GROUP, versions=(0, 5), flexible=4)
class SyncGroupResponse:
    """The assignment of this member.

    v1 throttle time.  v5 protocol.
    """

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = 0
    protocol_type: str | None = since(5, default=None)
    protocol_name: str | None = since(5, default=None)
    assignment: bytes


@message(api=ApiKey.HEARTBEAT, versions=(0, 4), flexible=4)
class HeartbeatRequest:
    """Say that a member is alive.

    v3 static members.
    """

    group_id: GroupId
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = since(3, default=None)


@message(api=ApiKey.HEARTBEAT, versions=(0, 4), flexible=4)
class HeartbeatResponse:
    """Whether the member is still in, or must join again.

    v1 throttle time.
    """

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = 0


@message(api=ApiKey.LEAVE_GROUP, versions=(0, 5), flexible=4)
class LeaveGroupRequest:
    """Leave a group; from v3 several members at once.

    v5 reason.
    """

    @struct
    class Member:
        member_id: str
        group_instance_id: str | None = None
        reason: str | None = since(5, default=None)

    group_id: GroupId
    member_id: str = until(2, default="")
    members: Sequence[Member] = since(3, default=())


@message(api=ApiKey.LEAVE_GROUP, versions=(0, 5), flexible=4)
class LeaveGroupResponse:
    """Whether each member has left.

    v1 throttle time.  v3 members.
    """

    @struct
    class Member:
        member_id: str
        group_instance_id: str | None
        error_code: Int16 = 0

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = 0
    members: Sequence[Member] = since(3, default=())


@message(api=ApiKey.OFFSET_COMMIT, versions=(0, 10), flexible=8)
class OffsetCommitRequest:
    """Commit offsets of a group.

    v1 generation and member, and a timestamp that only v1 has.  v2 to v4 a retention time.
    v6 leader epoch.  v7 static members.  v9 members of consumer groups (KIP-848).  v10 has
    topic ids for names.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            committed_offset: Int64
            committed_leader_epoch: Int32 = since(6, default=-1)
            commit_timestamp: Int64 = since(1, until=1, default=-1)
            committed_metadata: str | None

        name: TopicName = until(9, default="")
        topic_id: TopicId = since(10, default=ZERO_UUID)
        partitions: Sequence[Partition]

    group_id: GroupId
    generation_id_or_member_epoch: Int32 = since(1, default=-1)
    member_id: str = since(1, default="")
    group_instance_id: str | None = since(7, default=None)
    retention_time_ms: Int64 = since(2, until=4, default=-1)
    topics: Sequence[Topic]


@message(api=ApiKey.OFFSET_COMMIT, versions=(0, 10), flexible=8)
class OffsetCommitResponse:
    """Whether each offset was committed.

    v3 throttle time.  v10 has topic ids for names.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            error_code: Int16 = 0

        name: TopicName = until(9, default="")
        topic_id: TopicId = since(10, default=ZERO_UUID)
        partitions: Sequence[Partition]

    throttle_time_ms: Int32 = since(3, default=0)
    topics: Sequence[Topic]


@message(api=ApiKey.OFFSET_FETCH, versions=(0, 10), flexible=6)
class OffsetFetchRequest:
    """Ask for committed offsets of a group; from v8 of several groups.

    v1 reads from Kafka rather than ZooKeeper.  v2 null is all topics.  v7 waits for open
    transactions.  v9 member and epoch (KIP-848).  v10 has topic ids for names.
    """

    @struct
    class Group:
        @struct
        class Topic:
            name: TopicName = until(9, default="")
            topic_id: TopicId = since(10, default=ZERO_UUID)
            partition_indexes: Sequence[PartitionIndex]

        group_id: GroupId
        member_id: str | None = since(9, default=None)
        member_epoch: Int32 = since(9, default=-1)
        topics: Sequence[Topic] | None

    group_id: GroupId = until(7, default="")
    topics: Sequence[Group.Topic] | None = until(7, default=(), nullable_since=2)
    groups: Sequence[Group] = since(8, default=())
    require_stable: bool = since(7, default=False)


@message(api=ApiKey.OFFSET_FETCH, versions=(0, 10), flexible=6)
class OffsetFetchResponse:
    """Committed offsets; -1 where there is none.

    v2 an error for the whole group.  v3 throttle time.  v5 leader epoch.  v8 several groups.
    v10 has topic ids for names.
    """

    @struct
    class Group:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: PartitionIndex
                committed_offset: Int64 = -1
                committed_leader_epoch: Int32 = since(5, default=-1)
                metadata: str | None = ""
                error_code: Int16 = 0

            name: TopicName = until(9, default="")
            topic_id: TopicId = since(10, default=ZERO_UUID)
            partitions: Sequence[Partition]

        group_id: GroupId
        topics: Sequence[Topic]
        error_code: Int16 = 0

    throttle_time_ms: Int32 = since(3, default=0)
    topics: Sequence[Group.Topic] = until(7, default=())
    error_code: Int16 = since(2, until=7, default=0)
    groups: Sequence[Group] = since(8, default=())


@message(api=ApiKey.OFFSET_DELETE, versions=(0, 0))
class OffsetDeleteRequest:
    """Forget committed offsets of partitions that the group does not read."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex

        name: TopicName
        partitions: Sequence[Partition]

    group_id: GroupId
    topics: Sequence[Topic]


@message(api=ApiKey.OFFSET_DELETE, versions=(0, 0))
class OffsetDeleteResponse:
    """Whether each offset was forgotten."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            error_code: Int16 = 0

        name: TopicName
        partitions: Sequence[Partition]

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Sequence[Topic]


@message(api=ApiKey.LIST_GROUPS, versions=(0, 5), flexible=3)
class ListGroupsRequest:
    """Ask for the groups that this broker coordinates.

    v4 filter by state.  v5 filter by type.
    """

    states_filter: Sequence[str] = since(4, default=())
    types_filter: Sequence[str] = since(5, default=())


@message(api=ApiKey.LIST_GROUPS, versions=(0, 5), flexible=3)
class ListGroupsResponse:
    """Groups on this broker.

    v1 throttle time.  v4 state.  v5 type.
    """

    @struct
    class Group:
        group_id: GroupId
        protocol_type: str
        group_state: str = since(4, default="")
        group_type: str = since(5, default="")

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = 0
    groups: Sequence[Group]


@message(api=ApiKey.DESCRIBE_GROUPS, versions=(0, 6), flexible=5)
class DescribeGroupsRequest:
    """Ask for state and members of groups.

    v3 asks for authorized operations.
    """

    groups: Sequence[GroupId]
    include_authorized_operations: bool = since(3, default=False)


@message(api=ApiKey.DESCRIBE_GROUPS, versions=(0, 6), flexible=5)
class DescribeGroupsResponse:
    """State, protocol and members of groups.

    v1 throttle time.  v3 authorized operations.  v4 static members.  v6 answers
    GROUP_ID_NOT_FOUND, with a message, where older versions call an unknown group dead.
    """

    @struct
    class Group:
        @struct
        class Member:
            member_id: str
            group_instance_id: str | None = since(4, default=None)
            client_id: str
            client_host: str
            member_metadata: bytes
            member_assignment: bytes

        error_code: Int16 = 0
        error_message: str | None = since(6, default=None)
        group_id: GroupId
        group_state: str
        protocol_type: str
        protocol_data: str
        members: Sequence[Member]
        authorized_operations: Int32 = since(3, default=OPERATIONS_OMITTED)

    throttle_time_ms: Int32 = since(1, default=0)
    groups: Sequence[Group]


@message(api=ApiKey.DELETE_GROUPS, versions=(0, 2), flexible=2)
class DeleteGroupsRequest:
    """Delete groups without members, with their offsets."""

    groups_names: Sequence[GroupId]


@message(api=ApiKey.DELETE_GROUPS, versions=(0, 2), flexible=2)
class DeleteGroupsResponse:
    """Whether each group was deleted."""

    @struct
    class Group:
        group_id: GroupId
        error_code: Int16 = 0

    throttle_time_ms: Int32 = 0
    results: Sequence[Group]
