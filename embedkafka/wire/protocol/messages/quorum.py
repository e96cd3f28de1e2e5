"""The quorum of controllers, as KRaft's tools ask for it."""

from collections.abc import Sequence
from uuid import UUID

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.message import message, since, struct
from embedkafka.wire.protocol.wire_types import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    PartitionIndex,
    TopicName,
    UInt16,
)


@struct
class ControllerListener:
    """Where a controller answers."""

    name: str
    host: str
    port: UInt16


@struct
class VoterState:
    """How far a controller has come in the metadata log."""

    replica_id: Int32
    replica_directory_id: UUID = since(2, default=ZERO_UUID)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = since(1, default=-1)
    last_caught_up_timestamp: Int64 = since(1, default=-1)


@message(api=ApiKey.DESCRIBE_QUORUM, versions=(0, 2), flexible=0)
class DescribeQuorumRequest:
    """Ask for leader, voters and observers of a Raft partition; there is one, the metadata log."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex

        topic_name: TopicName
        partitions: Sequence[Partition]

    topics: Sequence[Topic]


@message(api=ApiKey.DESCRIBE_QUORUM, versions=(0, 2), flexible=0)
class DescribeQuorumResponse:
    """Leader, voters and observers, and how far each of them is.

    v1 times of the last fetches.  v2 directory ids, error messages and addresses.
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            error_code: Int16 = 0
            error_message: str | None = since(2, default=None)
            leader_id: Int32
            leader_epoch: Int32
            high_watermark: Int64
            current_voters: Sequence[VoterState]
            observers: Sequence[VoterState]

        topic_name: TopicName
        partitions: Sequence[Partition]

    @struct
    class Node:
        node_id: Int32
        listeners: Sequence[ControllerListener]

    error_code: Int16 = 0
    error_message: str | None = since(2, default=None)
    topics: Sequence[Topic] = ()
    nodes: Sequence[Node] = since(2, default=())


@message(api=ApiKey.UNREGISTER_BROKER, versions=(0, 0), flexible=0)
class UnregisterBrokerRequest:
    """Forget a broker that will not come back."""

    broker_id: Int32


@message(api=ApiKey.UNREGISTER_BROKER, versions=(0, 0), flexible=0)
class UnregisterBrokerResponse:
    """Whether the broker is forgotten."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


@message(api=ApiKey.ADD_RAFT_VOTER, versions=(0, 1), flexible=0)
class AddRaftVoterRequest:
    """Add a voter to the quorum.

    v1 whether to answer only once the new voters are committed.
    """

    cluster_id: str | None
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: UUID
    listeners: Sequence[ControllerListener]
    ack_when_committed: bool = since(1, default=True)


@message(api=ApiKey.ADD_RAFT_VOTER, versions=(0, 1), flexible=0)
class AddRaftVoterResponse:
    """Whether the voter was added."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


@message(api=ApiKey.REMOVE_RAFT_VOTER, versions=(0, 0), flexible=0)
class RemoveRaftVoterRequest:
    """Remove a voter from the quorum."""

    cluster_id: str | None
    voter_id: Int32
    voter_directory_id: UUID


@message(api=ApiKey.REMOVE_RAFT_VOTER, versions=(0, 0), flexible=0)
class RemoveRaftVoterResponse:
    """Whether the voter was removed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
