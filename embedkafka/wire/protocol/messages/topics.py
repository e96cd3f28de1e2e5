"""Creating, growing, emptying and deleting topics; electing leaders; moving replicas."""

from collections.abc import Sequence

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.message import message, nullable_since, since, struct, tagged, until
from embedkafka.wire.protocol.wire_types import (
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    PartitionIndex,
    TopicId,
    TopicName,
)


@message(api=ApiKey.CREATE_TOPICS, versions=(0, 7), flexible=5)
class CreateTopicsRequest:
    """Create topics, by count and factor or by explicit assignment.

    v1 can validate only.  v4 lets the broker choose count and factor (-1).
    """

    @struct
    class Topic:
        @struct
        class Assignment:
            partition_index: PartitionIndex
            broker_ids: Sequence[Int32]

        @struct
        class Config:
            name: str
            value: str | None

        name: TopicName
        num_partitions: Int32
        replication_factor: Int16
        assignments: Sequence[Assignment]
        configs: Sequence[Config]

    topics: Sequence[Topic]
    timeout_ms: Int32 = 60000
    validate_only: bool = since(1, default=False)


@message(api=ApiKey.CREATE_TOPICS, versions=(0, 7), flexible=5)
class CreateTopicsResponse:
    """The result for each topic.

    v1 messages.  v2 throttle time.  v5 partitions, factor and configs of the new topic.  v7
    topic id.
    """

    @struct
    class Topic:
        @struct
        class Config:
            name: str
            value: str | None
            read_only: bool
            config_source: Int8 = -1
            is_sensitive: bool

        name: TopicName
        topic_id: TopicId = since(7, default=ZERO_UUID)
        error_code: Int16 = 0
        error_message: str | None = since(1, default=None)
        topic_config_error_code: Int16 = tagged(0, since=5, default=0)
        num_partitions: Int32 = since(5, default=-1)
        replication_factor: Int16 = since(5, default=-1)
        configs: Sequence[Config] | None = since(5, default=())

    throttle_time_ms: Int32 = since(2, default=0)
    topics: Sequence[Topic]


@message(api=ApiKey.DELETE_TOPICS, versions=(0, 6), flexible=4)
class DeleteTopicsRequest:
    """Delete topics by name; from v6 by name or id."""

    @struct
    class Topic:
        name: TopicName | None = None
        topic_id: TopicId

    topics: Sequence[Topic] = since(6, default=())
    topic_names: Sequence[TopicName] = until(5, default=())
    timeout_ms: Int32


@message(api=ApiKey.DELETE_TOPICS, versions=(0, 6), flexible=4)
class DeleteTopicsResponse:
    """The result for each topic.

    v1 throttle time.  v5 messages.  v6 topic ids.
    """

    @struct
    class Topic:
        name: TopicName | None = nullable_since(6)
        topic_id: TopicId = since(6, default=ZERO_UUID)
        error_code: Int16 = 0
        error_message: str | None = since(5, default=None)

    throttle_time_ms: Int32 = since(1, default=0)
    responses: Sequence[Topic]


@message(api=ApiKey.CREATE_PARTITIONS, versions=(0, 3), flexible=2)
class CreatePartitionsRequest:
    """Add partitions to topics, up to a count, with an assignment or without."""

    @struct
    class Topic:
        @struct
        class Assignment:
            broker_ids: Sequence[Int32]

        name: TopicName
        count: Int32
        assignments: Sequence[Assignment] | None

    topics: Sequence[Topic]
    timeout_ms: Int32
    validate_only: bool


@message(api=ApiKey.CREATE_PARTITIONS, versions=(0, 3), flexible=2)
class CreatePartitionsResponse:
    """The result for each topic."""

    @struct
    class Topic:
        name: TopicName
        error_code: Int16 = 0
        error_message: str | None = None

    throttle_time_ms: Int32 = 0
    results: Sequence[Topic]


@message(api=ApiKey.DELETE_RECORDS, versions=(0, 2), flexible=2)
class DeleteRecordsRequest:
    """Move log start offsets forward; -1 means the high watermark."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            offset: Int64  # -1 the high watermark

        name: TopicName
        partitions: Sequence[Partition]

    topics: Sequence[Topic]
    timeout_ms: Int32


@message(api=ApiKey.DELETE_RECORDS, versions=(0, 2), flexible=2)
class DeleteRecordsResponse:
    """The new start of each log."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            low_watermark: Int64 = -1
            error_code: Int16 = 0

        name: TopicName
        partitions: Sequence[Partition]

    throttle_time_ms: Int32 = 0
    topics: Sequence[Topic]


@message(api=ApiKey.ELECT_LEADERS, versions=(0, 2), flexible=2)
class ElectLeadersRequest:
    """Elect leaders for the given partitions, or for all (null).

    v1 preferred or unclean election; v0 is always preferred.
    """

    @struct
    class Topic:
        topic: TopicName
        partitions: Sequence[PartitionIndex]

    election_type: Int8 = since(1, default=0)  # 0 preferred, 1 unclean
    topic_partitions: Sequence[Topic] | None
    timeout_ms: Int32 = 60000


@message(api=ApiKey.ELECT_LEADERS, versions=(0, 2), flexible=2)
class ElectLeadersResponse:
    """The result for each partition.

    v1 an error for the whole request.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_id: PartitionIndex
            error_code: Int16 = 0
            error_message: str | None = None

        topic: TopicName
        partition_result: Sequence[Partition]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(1, default=0)
    replica_election_results: Sequence[Topic]


@message(api=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsRequest:
    """Give partitions new replicas, or (null) cancel the current move.

    v1 may forbid a change of the replication factor.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            replicas: Sequence[Int32] | None = None  # null cancels

        name: TopicName
        partitions: Sequence[Partition]

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: bool = since(1, default=True)
    topics: Sequence[Topic]


@message(api=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsResponse:
    """Whether each move has started."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            error_code: Int16 = 0
            error_message: str | None = None

        name: TopicName
        partitions: Sequence[Partition]

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: bool = since(1, default=True)
    error_code: Int16 = 0
    error_message: str | None = None
    responses: Sequence[Topic]


@message(api=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest:
    """Ask for current moves, of the given partitions or of all (null)."""

    @struct
    class Topic:
        name: TopicName
        partition_indexes: Sequence[PartitionIndex]

    timeout_ms: Int32 = 60000
    topics: Sequence[Topic] | None = None


@message(api=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse:
    """Partitions being reassigned, with the replicas to add and remove."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            replicas: Sequence[Int32]
            adding_replicas: Sequence[Int32]
            removing_replicas: Sequence[Int32]

        name: TopicName
        partitions: Sequence[Partition]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    topics: Sequence[Topic]


@message(api=ApiKey.DESCRIBE_LOG_DIRS, versions=(0, 5), flexible=2)
class DescribeLogDirsRequest:
    """Ask for the contents of the broker's log directories."""

    @struct
    class Topic:
        topic: TopicName
        partitions: Sequence[PartitionIndex]

    topics: Sequence[Topic] | None


@message(api=ApiKey.DESCRIBE_LOG_DIRS, versions=(0, 5), flexible=2)
class DescribeLogDirsResponse:
    """Log directories with their partitions and sizes.

    v3 an error for the whole request.  v4 size of the volume.  v5 cordoned directories.
    """

    @struct
    class LogDir:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: PartitionIndex
                partition_size: Int64
                offset_lag: Int64
                is_future_key: bool

            name: TopicName
            partitions: Sequence[Partition]

        error_code: Int16 = 0
        log_dir: str
        topics: Sequence[Topic]
        total_bytes: Int64 = since(4, default=-1)
        usable_bytes: Int64 = since(4, default=-1)
        is_cordoned: bool = since(5, default=False)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3, default=0)
    results: Sequence[LogDir]


@message(api=ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(0, 2), flexible=2)
class AlterReplicaLogDirsRequest:
    """Move replicas to another log directory of the same broker."""

    @struct
    class LogDir:
        @struct
        class Topic:
            name: TopicName
            partitions: Sequence[PartitionIndex]

        path: str
        topics: Sequence[Topic]

    dirs: Sequence[LogDir]


@message(api=ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(0, 2), flexible=2)
class AlterReplicaLogDirsResponse:
    """Whether each move has started."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            error_code: Int16 = 0

        topic_name: TopicName
        partitions: Sequence[Partition]

    throttle_time_ms: Int32 = 0
    results: Sequence[Topic]
