"""The basic requests: versions, cluster metadata, producing, fetching, offsets of a log."""

from collections.abc import Sequence
from uuid import UUID

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.message import message, nullable_since, since, struct, tagged, until
from embedkafka.wire.protocol.wire_types import (
    MAX_INT,
    MAX_LONG,
    OPERATIONS_OMITTED,
    ZERO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    PartitionIndex,
    Records,
    SendableRecords,
    TopicId,
    TopicName,
    TransactionalId,
)


@message(api=ApiKey.API_VERSIONS, versions=(0, 4), flexible=3)
class ApiVersionsRequest:
    """Ask which APIs and versions the broker speaks; a client's first request.

    v3 names the client library.  v4 allows features whose lowest version is 0.
    """

    client_software_name: str = since(3, default="")
    client_software_version: str = since(3, default="")


@message(api=ApiKey.API_VERSIONS, versions=(0, 4), flexible=3)
class ApiVersionsResponse:
    """The APIs and versions of the broker, and the features of the cluster.

    v1 throttle time.  v3 features, as tagged fields.  The header before it is always v0, so
    that a client can read the answer to a version the broker does not know.
    """

    @struct
    class ApiVersion:
        api_key: Int16
        min_version: Int16
        max_version: Int16

    @struct
    class SupportedFeature:
        name: str
        min_version: Int16
        max_version: Int16

    @struct
    class FinalizedFeature:
        name: str
        max_version_level: Int16
        min_version_level: Int16

    error_code: Int16 = 0
    api_keys: Sequence[ApiVersion]
    throttle_time_ms: Int32 = since(1, default=0)
    supported_features: Sequence[SupportedFeature] = tagged(0, since=3, default=())
    finalized_features_epoch: Int64 = tagged(1, since=3, default=-1)
    finalized_features: Sequence[FinalizedFeature] = tagged(2, since=3, default=())
    zk_migration_ready: bool = tagged(3, since=3, default=False)


@message(api=ApiKey.METADATA, versions=(0, 13), flexible=9)
class MetadataRequest:
    """Ask for brokers, controller, and the leaders and replicas of topics.

    In v0 an empty list means all topics; from v1 it means none, and null means all.  v4 says
    whether missing topics may be created.  v8 asks for authorized operations; those of the
    cluster moved to DescribeCluster in v11.  v10 has topic ids in the format, brokers honour
    them from v12.
    """

    @struct
    class Topic:
        topic_id: TopicId = since(10, default=ZERO_UUID)
        name: TopicName | None = nullable_since(10)

    topics: Sequence[Topic] | None = nullable_since(1)
    allow_auto_topic_creation: bool = since(4, default=True)
    include_cluster_authorized_operations: bool = since(8, until=10, default=False)
    include_topic_authorized_operations: bool = since(8, default=False)


@message(api=ApiKey.METADATA, versions=(0, 13), flexible=9)
class MetadataResponse:
    """Brokers, controller, and the leaders and replicas of topics.

    v1 racks, controller, internal topics.  v2 cluster id.  v3 throttle time.  v5 offline
    replicas.  v7 leader epochs.  v8 authorized operations.  v10 topic ids.  v13 an error for
    the whole request.
    """

    @struct
    class Broker:
        node_id: Int32
        host: str
        port: Int32
        rack: str | None = since(1, default=None)

    @struct
    class Topic:
        @struct
        class Partition:
            error_code: Int16 = 0
            partition_index: PartitionIndex
            leader_id: Int32
            leader_epoch: Int32 = since(7, default=-1)
            replica_nodes: Sequence[Int32]
            isr_nodes: Sequence[Int32]
            offline_replicas: Sequence[Int32] = since(5, default=())

        error_code: Int16 = 0
        name: TopicName | None = nullable_since(12)
        topic_id: TopicId = since(10, default=ZERO_UUID)
        is_internal: bool = since(1, default=False)
        partitions: Sequence[Partition]
        topic_authorized_operations: Int32 = since(8, default=OPERATIONS_OMITTED)

    throttle_time_ms: Int32 = since(3, default=0)
    brokers: Sequence[Broker]
    cluster_id: str | None = since(2, default=None)
    controller_id: Int32 = since(1, default=-1)
    topics: Sequence[Topic]
    cluster_authorized_operations: Int32 = since(8, until=10, default=OPERATIONS_OMITTED)
    error_code: Int16 = since(13, default=0)


@message(api=ApiKey.PRODUCE, versions=(0, 13), flexible=9)
class ProduceRequest:
    """Append batches to partitions.

    v0 and v1 carry message format 0, v2 format 1, v3 and later format 2 and a transactional
    id.  v7 allows zstd.  v12 adds the partitions to the transaction itself (KIP-890).  v13 has
    topic ids for names.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            index: PartitionIndex
            records: Records | None

        name: TopicName = until(12, default="")
        topic_id: TopicId = since(13, default=ZERO_UUID)
        partition_data: Sequence[Partition]

    transactional_id: TransactionalId | None = since(3, default=None)
    acks: Int16  # -1 all in-sync replicas, 0 no answer, 1 the leader only
    timeout_ms: Int32
    topic_data: Sequence[Topic]


@message(api=ApiKey.PRODUCE, versions=(0, 13), flexible=9)
class ProduceResponse:
    """The offset of the batches, per partition; not sent for acks=0.

    v1 throttle time.  v2 log append time.  v5 log start offset.  v8 the refused records with
    reasons.  v10 the new leader, after NOT_LEADER_OR_FOLLOWER.  v13 has topic ids for
    names.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class RecordError:
                batch_index: Int32
                batch_index_error_message: str | None = None

            @struct
            class LeaderIdAndEpoch:
                leader_id: Int32 = -1
                leader_epoch: Int32 = -1

            index: PartitionIndex
            error_code: Int16 = 0
            base_offset: Int64 = -1
            log_append_time_ms: Int64 = since(2, default=-1)
            log_start_offset: Int64 = since(5, default=-1)
            record_errors: Sequence[RecordError] = since(8, default=())
            error_message: str | None = since(8, default=None)
            current_leader: LeaderIdAndEpoch = tagged(0, since=10, default=LeaderIdAndEpoch())

        name: TopicName = until(12, default="")
        topic_id: TopicId = since(13, default=ZERO_UUID)
        partition_responses: Sequence[Partition]

    @struct
    class NodeEndpoint:
        node_id: Int32
        host: str
        port: Int32
        rack: str | None = None

    responses: Sequence[Topic]
    throttle_time_ms: Int32 = since(1, default=0)
    node_endpoints: Sequence[NodeEndpoint] = tagged(0, since=10, default=())


@message(api=ApiKey.FETCH, versions=(0, 18), flexible=12)
class FetchRequest:
    """Read batches from partitions, as a consumer or as a follower.

    v3 limits the whole answer.  v4 isolation level.  v5 the follower's log start.  v7 fetch
    sessions.  v9 leader epoch for fencing.  v10 allows zstd.  v11 the consumer's rack.  v12
    the epoch fetched last, to find divergence.  v13 has topic ids for names.  v15 the
    replica's broker epoch, tagged.  v17 directory id.  v18 the follower's high watermark.
    """

    @struct
    class ReplicaState:
        replica_id: Int32 = -1
        replica_epoch: Int64 = -1

    @struct
    class Topic:
        @struct
        class Partition:
            partition: PartitionIndex
            current_leader_epoch: Int32 = since(9, default=-1)
            fetch_offset: Int64
            last_fetched_epoch: Int32 = since(12, default=-1)
            log_start_offset: Int64 = since(5, default=-1)
            partition_max_bytes: Int32
            replica_directory_id: UUID = tagged(0, since=17, default=ZERO_UUID)
            high_watermark: Int64 = tagged(1, since=18, default=MAX_LONG)

        topic: TopicName = until(12, default="")
        topic_id: TopicId = since(13, default=ZERO_UUID)
        partitions: Sequence[Partition]

    @struct
    class ForgottenTopic:
        topic: TopicName = until(12, default="")
        topic_id: TopicId = since(13, default=ZERO_UUID)
        partitions: Sequence[PartitionIndex]

    cluster_id: str | None = tagged(0, since=12, default=None)
    replica_id: Int32 = until(14, default=-1)  # -1 for consumers
    replica_state: ReplicaState = tagged(1, since=15, default=ReplicaState())
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = since(3, default=MAX_INT)
    isolation_level: Int8 = since(4, default=0)  # 0 read uncommitted, 1 read committed
    session_id: Int32 = since(7, default=0)
    session_epoch: Int32 = since(7, default=-1)
    topics: Sequence[Topic]
    forgotten_topics_data: Sequence[ForgottenTopic] = since(7, default=())
    rack_id: str = since(11, default="")


@message(api=ApiKey.FETCH, versions=(0, 18), flexible=12)
class FetchResponse:
    """Batches, per partition, with the offsets that followers and consumers need.

    v1 throttle time.  v4 last stable offset and aborted transactions.  v5 log start.  v7
    fetch sessions.  v11 a better replica to read from.  v12 the point of divergence and the
    leader.  v13 has topic ids for names.  v16 addresses of new leaders.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class EpochEndOffset:
                epoch: Int32 = -1
                end_offset: Int64 = -1

            @struct
            class LeaderIdAndEpoch:
                leader_id: Int32 = -1
                leader_epoch: Int32 = -1

            @struct
            class SnapshotId:
                end_offset: Int64 = -1
                epoch: Int32 = -1

            @struct
            class AbortedTransaction:
                producer_id: Int64
                first_offset: Int64

            partition_index: PartitionIndex
            error_code: Int16 = 0
            high_watermark: Int64 = -1
            last_stable_offset: Int64 = since(4, default=-1)
            log_start_offset: Int64 = since(5, default=-1)
            diverging_epoch: EpochEndOffset = tagged(0, since=12, default=EpochEndOffset())
            current_leader: LeaderIdAndEpoch = tagged(1, since=12, default=LeaderIdAndEpoch())
            snapshot_id: SnapshotId = tagged(2, since=12, default=SnapshotId())
            # Null when the client reads uncommitted records.
            aborted_transactions: Sequence[AbortedTransaction] | None = since(4, default=())
            preferred_read_replica: Int32 = since(11, default=-1)
            records: SendableRecords | None = b""

        topic: TopicName = until(12, default="")
        topic_id: TopicId = since(13, default=ZERO_UUID)
        partitions: Sequence[Partition]

    @struct
    class NodeEndpoint:
        node_id: Int32
        host: str
        port: Int32
        rack: str | None = None

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = since(7, default=0)
    session_id: Int32 = since(7, default=0)
    responses: Sequence[Topic]
    node_endpoints: Sequence[NodeEndpoint] = tagged(0, since=16, default=())


@message(api=ApiKey.LIST_OFFSETS, versions=(0, 11), flexible=6)
class ListOffsetsRequest:
    """Ask for the offset of a timestamp, or for the earliest or latest one.

    v0 asked for several offsets of segments.  v2 isolation level.  v4 leader epoch for
    fencing.  v7 knows the offset of the highest timestamp; v8, v9 and v11 those of tiered
    storage, for which v10 has a timeout.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            current_leader_epoch: Int32 = since(4, default=-1)
            timestamp: Int64  # -1 latest, -2 earliest, -3 of the highest timestamp
            max_num_offsets: Int32 = until(0, default=1)

        name: TopicName
        partitions: Sequence[Partition]

    replica_id: Int32  # -1 for consumers
    isolation_level: Int8 = since(2, default=0)  # 0 read uncommitted, 1 read committed
    topics: Sequence[Topic]
    timeout_ms: Int32 = since(10, default=0)


@message(api=ApiKey.LIST_OFFSETS, versions=(0, 11), flexible=6)
class ListOffsetsResponse:
    """One offset and its timestamp per partition.

    v0 had several offsets.  v2 throttle time.  v4 the leader epoch of the offset.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            error_code: Int16 = 0
            old_style_offsets: Sequence[Int64] = until(0, default=())
            timestamp: Int64 = since(1, default=-1)
            offset: Int64 = since(1, default=-1)
            leader_epoch: Int32 = since(4, default=-1)

        name: TopicName
        partitions: Sequence[Partition]

    throttle_time_ms: Int32 = since(2, default=0)
    topics: Sequence[Topic]


@message(api=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(0, 4), flexible=4)
class OffsetForLeaderEpochRequest:
    """Ask where a leader epoch ended, to truncate to it or to notice lost records.

    v2 leader epoch for fencing.  v3 tells followers from consumers.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition: PartitionIndex
            current_leader_epoch: Int32 = since(2, default=-1)
            leader_epoch: Int32

        topic: TopicName
        partitions: Sequence[Partition]

    replica_id: Int32 = since(3, default=-2)  # -1 for consumers, -2 to see all
    topics: Sequence[Topic]


@message(api=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(0, 4), flexible=4)
class OffsetForLeaderEpochResponse:
    """The end of the epoch, or of the last one before it.

    v1 which epoch was found.  v2 throttle time.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            error_code: Int16 = 0
            partition: PartitionIndex
            leader_epoch: Int32 = since(1, default=-1)
            end_offset: Int64 = -1

        topic: TopicName
        partitions: Sequence[Partition]

    throttle_time_ms: Int32 = since(2, default=0)
    topics: Sequence[Topic]


@message(api=ApiKey.DESCRIBE_CLUSTER, versions=(0, 2), flexible=0)
class DescribeClusterRequest:
    """Ask for brokers, controller and cluster id.

    v1 brokers or controllers.  v2 fenced brokers too.
    """

    include_cluster_authorized_operations: bool
    endpoint_type: Int8 = since(1, default=1)  # 1 brokers, 2 controllers
    include_fenced_brokers: bool = since(2, default=False)


@message(api=ApiKey.DESCRIBE_CLUSTER, versions=(0, 2), flexible=0)
class DescribeClusterResponse:
    """Brokers, controller and cluster id.

    v1 kind of endpoint.  v2 which brokers are fenced.
    """

    @struct
    class Broker:
        broker_id: Int32
        host: str
        port: Int32
        rack: str | None = None
        is_fenced: bool = since(2, default=False)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    endpoint_type: Int8 = since(1, default=1)  # 1 brokers, 2 controllers
    cluster_id: str
    controller_id: Int32 = -1
    brokers: Sequence[Broker]
    cluster_authorized_operations: Int32 = OPERATIONS_OMITTED


@message(api=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest:
    """Ask for partitions of topics, page by page (KIP-966)."""

    @struct
    class Topic:
        name: TopicName

    @struct
    class Cursor:
        topic_name: TopicName
        partition_index: PartitionIndex

    topics: Sequence[Topic]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@message(api=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsResponse:
    """One page of partitions, and where the next one starts."""

    @struct
    class Topic:
        @struct
        class Partition:
            error_code: Int16 = 0
            partition_index: PartitionIndex
            leader_id: Int32
            leader_epoch: Int32 = -1
            replica_nodes: Sequence[Int32]
            isr_nodes: Sequence[Int32]
            eligible_leader_replicas: Sequence[Int32] | None = None
            last_known_elr: Sequence[Int32] | None = None
            offline_replicas: Sequence[Int32]

        error_code: Int16 = 0
        name: TopicName | None
        topic_id: TopicId
        is_internal: bool = False
        partitions: Sequence[Partition]
        topic_authorized_operations: Int32 = OPERATIONS_OMITTED

    @struct
    class Cursor:
        topic_name: TopicName
        partition_index: PartitionIndex

    throttle_time_ms: Int32 = 0
    topics: Sequence[Topic]
    next_cursor: Cursor | None = None
