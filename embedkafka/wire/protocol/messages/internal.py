"""Records of Kafka's internal topics, and the opaque bytes of consumers in a group.

None of these is a request.  Each is stored after its version, see `codec.encode_versioned`.  For
keys of `__consumer_offsets` the version is the kind of record, so every kind of key has another.
"""

from collections.abc import Sequence
from uuid import UUID

from embedkafka.wire.protocol.message import message, since, struct, tagged
from embedkafka.wire.protocol.wire_types import ZERO_UUID, Int8, Int16, Int32, Int64


@message(versions=(0, 3))
class ConsumerProtocolSubscription:
    """A consumer's subscription in JoinGroup.

    v1 partitions it owns, for cooperative rebalancing.  v2 their generation.  v3 rack.
    """

    @struct
    class TopicPartition:
        topic: str
        partitions: Sequence[Int32]

    topics: Sequence[str]
    user_data: bytes | None = None
    owned_partitions: Sequence[TopicPartition] = since(1, default=())
    generation_id: Int32 = since(2, default=-1)
    rack_id: str | None = since(3, default=None)


@message(versions=(0, 3))
class ConsumerProtocolAssignment:
    """A consumer's partitions, from SyncGroup.  All versions are the same."""

    @struct
    class TopicPartition:
        topic: str
        partitions: Sequence[Int32]

    assigned_partitions: Sequence[TopicPartition]
    user_data: bytes | None = None


@message(versions=(0, 1))
class OffsetCommitKey:
    """A partition's offset in a group, classic or not; Kafka writes key version 1."""

    group: str
    topic: str
    partition: Int32


@message(versions=(0, 4), flexible=4)
class OffsetCommitValue:
    """A committed offset.

    v1 has an expiry time, and is still used for offsets with one.  v3 leader epoch.  v4 topic
    id.
    """

    offset: Int64
    leader_epoch: Int32 = since(3, default=-1)
    metadata: str
    commit_timestamp: Int64
    expire_timestamp: Int64 = since(1, until=1, default=-1)
    topic_id: UUID = tagged(0, since=4, default=ZERO_UUID)


@message(versions=(2, 2))
class GroupMetadataKey:
    """A classic group."""

    group: str


@message(versions=(0, 4), flexible=4)
class GroupMetadataValue:
    """A classic group after a rebalance.

    v1 rebalance timeouts.  v2 when the state changed last.  v3 static members.
    """

    @struct
    class Member:
        member_id: str
        group_instance_id: str | None = since(3, default=None)
        client_id: str
        client_host: str
        rebalance_timeout: Int32 = since(1, default=-1)
        session_timeout: Int32
        subscription: bytes
        assignment: bytes

    protocol_type: str
    generation: Int32
    protocol: str | None
    leader: str | None
    current_state_timestamp: Int64 = since(2, default=-1)
    members: Sequence[Member]


@message(versions=(3, 3))
class ConsumerGroupMetadataKey:
    """A consumer group (KIP-848)."""

    group_id: str


@message(versions=(0, 0), flexible=0)
class ConsumerGroupMetadataValue:
    """The group's epoch, and a hash of the topics it depends on."""

    epoch: Int32
    metadata_hash: Int64 = tagged(0, since=0, default=0)


@message(versions=(4, 4))
class ConsumerGroupPartitionMetadataKey:
    """The topics a group depends on, up to Kafka 4.0."""

    group_id: str


@message(versions=(0, 0), flexible=0)
class ConsumerGroupPartitionMetadataValue:
    """Sizes and racks of the topics; Kafka 4.1 has a hash instead."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition: Int32
            racks: Sequence[str]

        topic_id: UUID
        topic_name: str
        num_partitions: Int32
        partition_metadata: Sequence[Partition]

    topics: Sequence[Topic]


@message(versions=(5, 5))
class ConsumerGroupMemberMetadataKey:
    """A member's description."""

    group_id: str
    member_id: str


@message(versions=(0, 0), flexible=0)
class ConsumerGroupMemberMetadataValue:
    """The member's identity and subscription."""

    @struct
    class ClassicMemberMetadata:
        """Set for members that still speak the classic protocol."""

        @struct
        class ClassicProtocol:
            name: str
            metadata: bytes

        session_timeout_ms: Int32
        supported_protocols: Sequence[ClassicProtocol]

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: Sequence[str]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None
    # Kafka's generator does not treat the declared null as the default: Kafka writes null, and a
    # record without the field is one of a classic member without protocols.
    classic_member_metadata: ClassicMemberMetadata | None = tagged(
        0,
        since=0,
        default=ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=()),
    )


@message(versions=(6, 6))
class ConsumerGroupTargetAssignmentMetadataKey:
    """The assignment a group is moving to."""

    group_id: str


@message(versions=(0, 0), flexible=0)
class ConsumerGroupTargetAssignmentMetadataValue:
    """The epoch it was made for, and when it was made."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, since=0, default=0)


@message(versions=(7, 7))
class ConsumerGroupTargetAssignmentMemberKey:
    """One member's part of the assignment."""

    group_id: str
    member_id: str


@message(versions=(0, 0), flexible=0)
class ConsumerGroupTargetAssignmentMemberValue:
    """The partitions the member shall get."""

    @struct
    class TopicPartition:
        topic_id: UUID
        partitions: Sequence[Int32]

    topic_partitions: Sequence[TopicPartition]


@message(versions=(8, 8))
class ConsumerGroupCurrentMemberAssignmentKey:
    """A member's current assignment."""

    group_id: str
    member_id: str


@message(versions=(0, 0), flexible=0)
class ConsumerGroupCurrentMemberAssignmentValue:
    """The member's epoch, its partitions, and those it must give up first."""

    @struct
    class TopicPartitions:
        topic_id: UUID
        partitions: Sequence[Int32]
        assignment_epochs: Sequence[Int32] | None = tagged(0, since=0, default=None)

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Sequence[TopicPartitions]
    partitions_pending_revocation: Sequence[TopicPartitions]


@message(versions=(16, 16))
class ConsumerGroupRegularExpressionKey:
    """A regular expression that a member subscribes to."""

    group_id: str
    regular_expression: str


@message(versions=(0, 0), flexible=0)
class ConsumerGroupRegularExpressionValue:
    """The topics it matched, as of a version of the cluster's metadata."""

    topics: Sequence[str]
    version: Int64
    timestamp: Int64


@message(versions=(0, 0))
class TransactionLogKey:
    """A transactional id in `__transaction_state`."""

    transactional_id: str


@message(versions=(0, 1), flexible=1)
class TransactionLogValue:
    """The state of its transaction.

    v1 producer ids before and after the one in use, and the transaction version (KIP-890).
    """

    @struct
    class Topic:
        topic: str
        partition_ids: Sequence[Int32]

    producer_id: Int64
    previous_producer_id: Int64 = tagged(0, since=1, default=-1)
    next_producer_id: Int64 = tagged(1, since=1, default=-1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = tagged(3, since=1, default=-1)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: Sequence[Topic] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = tagged(2, since=1, default=0)
