"""Requests between the controller and brokers; clients never send them.

Kafka 4 no longer has such requests; these are the versions of Kafka 0.8 to 3.9.
"""

from collections.abc import Sequence
from typing import Final

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.message import message, since, struct, tagged, until
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

INCREMENTAL: Final = 1
FULL: Final = 2
"""Types of LeaderAndIsr and UpdateMetadata: some changes, or the full state (KIP-516, KIP-866)."""


@message(api=ApiKey.LEADER_AND_ISR, versions=(0, 7), flexible=4)
class LeaderAndIsrRequest:
    """Controller to broker: lead these partitions, follow those.

    v1 new partitions.  v2 broker epoch, and partitions grouped by topic.  v3 replicas being
    added and removed.  v5 topic ids, and whether this is the full state or a change.  v6 recovery
    after unclean election.  v7 KRaft migration.
    """

    @struct
    class TopicState:
        @struct
        class PartitionState:
            topic_name: TopicName = until(1, default="")
            partition_index: PartitionIndex
            controller_epoch: Int32
            leader: Int32
            leader_epoch: Int32
            isr: Sequence[Int32]
            partition_epoch: Int32
            replicas: Sequence[Int32]
            adding_replicas: Sequence[Int32] = since(3, default=())
            removing_replicas: Sequence[Int32] = since(3, default=())
            is_new: bool = since(1, default=False)
            leader_recovery_state: Int8 = since(6, default=0)

        topic_name: TopicName
        topic_id: TopicId = since(5, default=ZERO_UUID)
        partition_states: Sequence[PartitionState]

    @struct
    class LiveLeader:
        broker_id: Int32
        host_name: str
        port: Int32

    controller_id: Int32
    is_kraft_controller: bool = since(7, default=False)
    controller_epoch: Int32
    broker_epoch: Int64 = since(2, default=-1)
    type: Int8 = since(5, default=0)  # 0 unknown, INCREMENTAL or FULL
    ungrouped_partition_states: Sequence[TopicState.PartitionState] = until(1, default=())
    topic_states: Sequence[TopicState] = since(2, default=())
    live_leaders: Sequence[LiveLeader]


@message(api=ApiKey.LEADER_AND_ISR, versions=(0, 7), flexible=4)
class LeaderAndIsrResponse:
    """The result for each partition; by topic id from v5 on."""

    @struct
    class Topic:
        @struct
        class PartitionError:
            topic_name: TopicName = until(4, default="")
            partition_index: PartitionIndex
            error_code: Int16 = 0

        topic_id: TopicId
        partition_errors: Sequence[PartitionError]

    error_code: Int16 = 0
    partition_errors: Sequence[Topic.PartitionError] = until(4, default=())
    topics: Sequence[Topic] = since(5, default=())


@message(api=ApiKey.STOP_REPLICA, versions=(0, 4), flexible=2)
class StopReplicaRequest:
    """Controller to broker: stop serving replicas, and perhaps delete them.

    v1 broker epoch, and partitions grouped by topic.  v3 leader epoch, and deletion per
    partition.  v4 KRaft migration.
    """

    @struct
    class Partition:
        topic_name: TopicName
        partition_index: PartitionIndex

    @struct
    class Topic:
        name: TopicName
        partition_indexes: Sequence[PartitionIndex]

    @struct
    class TopicState:
        @struct
        class PartitionState:
            partition_index: PartitionIndex
            leader_epoch: Int32 = -1
            delete_partition: bool

        topic_name: TopicName
        partition_states: Sequence[PartitionState]

    controller_id: Int32
    is_kraft_controller: bool = since(4, default=False)
    controller_epoch: Int32
    broker_epoch: Int64 = since(1, default=-1)
    delete_partitions: bool = until(2, default=False)
    ungrouped_partitions: Sequence[Partition] = until(0, default=())
    topics: Sequence[Topic] = since(1, until=2, default=())
    topic_states: Sequence[TopicState] = since(3, default=())


@message(api=ApiKey.STOP_REPLICA, versions=(0, 4), flexible=2)
class StopReplicaResponse:
    """The result for each replica."""

    @struct
    class PartitionError:
        topic_name: TopicName
        partition_index: PartitionIndex
        error_code: Int16 = 0

    error_code: Int16 = 0
    partition_errors: Sequence[PartitionError]


@message(api=ApiKey.UPDATE_METADATA, versions=(0, 8), flexible=6)
class UpdateMetadataRequest:
    """Controller to broker: the metadata of brokers and partitions.

    v1 several endpoints.  v2 racks.  v3 listener names.  v4 offline replicas.  v5 broker
    epoch, and partitions grouped by topic.  v7 topic ids.  v8 KRaft migration.
    """

    @struct
    class TopicState:
        @struct
        class PartitionState:
            topic_name: TopicName = until(4, default="")
            partition_index: PartitionIndex
            controller_epoch: Int32
            leader: Int32
            leader_epoch: Int32
            isr: Sequence[Int32]
            zk_version: Int32
            replicas: Sequence[Int32]
            offline_replicas: Sequence[Int32] = since(4, default=())

        topic_name: TopicName
        topic_id: TopicId = since(7, default=ZERO_UUID)
        partition_states: Sequence[PartitionState]

    @struct
    class Broker:
        @struct
        class Endpoint:
            port: Int32
            host: str
            listener: str = since(3, default="")
            security_protocol: Int16

        id: Int32
        v0_host: str = until(0, default="")
        v0_port: Int32 = until(0, default=0)
        endpoints: Sequence[Endpoint] = since(1, default=())
        rack: str | None = since(2, default=None)

    controller_id: Int32
    is_kraft_controller: bool = since(8, default=False)
    type: Int8 = tagged(0, since=8, default=0)  # 0 unknown, INCREMENTAL or FULL
    controller_epoch: Int32
    broker_epoch: Int64 = since(5, default=-1)
    ungrouped_partition_states: Sequence[TopicState.PartitionState] = until(4, default=())
    topic_states: Sequence[TopicState] = since(5, default=())
    live_brokers: Sequence[Broker]


@message(api=ApiKey.UPDATE_METADATA, versions=(0, 8), flexible=6)
class UpdateMetadataResponse:
    """Whether the broker applied the update."""

    error_code: Int16 = 0


@message(api=ApiKey.CONTROLLED_SHUTDOWN, versions=(0, 3), flexible=3)
class ControlledShutdownRequest:
    """Broker to controller: move my leaders away, I am about to stop.

    v0 has a request header without a client id.  v2 broker epoch.
    """

    broker_id: Int32
    broker_epoch: Int64 = since(2, default=-1)


@message(api=ApiKey.CONTROLLED_SHUTDOWN, versions=(0, 3), flexible=3)
class ControlledShutdownResponse:
    """The partitions the broker still leads."""

    @struct
    class Partition:
        topic_name: TopicName
        partition_index: PartitionIndex

    error_code: Int16 = 0
    remaining_partitions: Sequence[Partition]
