"""Idempotent and transactional producers, transaction markers, and their administration."""

from collections.abc import Sequence

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.message import message, since, struct, until
from embedkafka.wire.protocol.wire_types import (
    GroupId,
    Int8,
    Int16,
    Int32,
    Int64,
    PartitionIndex,
    TopicName,
    TransactionalId,
)


@message(api=ApiKey.INIT_PRODUCER_ID, versions=(0, 6), flexible=2)
class InitProducerIdRequest:
    """Get a producer id and epoch; with a transactional id, fence older producers.

    v3 asks for a new epoch of an existing id.  v6 two-phase commit (KIP-939).
    """

    transactional_id: TransactionalId | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)
    enable2_pc: bool = since(6, default=False)
    keep_prepared_txn: bool = since(6, default=False)


@message(api=ApiKey.INIT_PRODUCER_ID, versions=(0, 6), flexible=2)
class InitProducerIdResponse:
    """The producer id and epoch to use.

    v6 the prepared transaction that was kept.
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1
    ongoing_txn_producer_id: Int64 = since(6, default=-1)
    ongoing_txn_producer_epoch: Int16 = since(6, default=-1)


@message(api=ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5), flexible=3)
class AddPartitionsToTxnRequest:
    """Add partitions to the open transaction.

    v4 several transactions at once, or only check that partitions are in; brokers send it to
    the coordinator, clients stay at v3.
    """

    @struct
    class Transaction:
        @struct
        class Topic:
            name: TopicName
            partitions: Sequence[PartitionIndex]

        transactional_id: TransactionalId
        producer_id: Int64
        producer_epoch: Int16
        verify_only: bool = False
        topics: Sequence[Topic]

    transactions: Sequence[Transaction] = since(4, default=())
    v3_and_below_transactional_id: TransactionalId = until(3, default="")
    v3_and_below_producer_id: Int64 = until(3, default=0)
    v3_and_below_producer_epoch: Int16 = until(3, default=0)
    v3_and_below_topics: Sequence[Transaction.Topic] = until(3, default=())


@message(api=ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5), flexible=3)
class AddPartitionsToTxnResponse:
    """Whether each partition is in the transaction.

    v4 by transaction, and an error for the whole request.
    """

    @struct
    class Transaction:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: PartitionIndex
                partition_error_code: Int16 = 0

            name: TopicName
            results_by_partition: Sequence[Partition]

        transactional_id: TransactionalId
        topic_results: Sequence[Topic]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(4, default=0)
    results_by_transaction: Sequence[Transaction] = since(4, default=())
    results_by_topic_v3_and_below: Sequence[Transaction.Topic] = until(3, default=())


@message(api=ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4), flexible=3)
class AddOffsetsToTxnRequest:
    """Add the offsets of a group to the open transaction."""

    transactional_id: TransactionalId
    producer_id: Int64
    producer_epoch: Int16
    group_id: GroupId


@message(api=ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4), flexible=3)
class AddOffsetsToTxnResponse:
    """Whether the offsets may be committed now."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


@message(api=ApiKey.TXN_OFFSET_COMMIT, versions=(0, 5), flexible=3)
class TxnOffsetCommitRequest:
    """Commit offsets of a group with the transaction.

    v2 leader epoch.  v3 generation and member, to fence zombies (KIP-447).  v5 adds the group
    to the transaction itself (KIP-890).
    """

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            committed_offset: Int64
            committed_leader_epoch: Int32 = since(2, default=-1)
            committed_metadata: str | None

        name: TopicName
        partitions: Sequence[Partition]

    transactional_id: TransactionalId
    group_id: GroupId
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = since(3, default=-1)
    member_id: str = since(3, default="")
    group_instance_id: str | None = since(3, default=None)
    topics: Sequence[Topic]


@message(api=ApiKey.TXN_OFFSET_COMMIT, versions=(0, 5), flexible=3)
class TxnOffsetCommitResponse:
    """Whether each offset will be committed."""

    @struct
    class Topic:
        @struct
        class Partition:
            partition_index: PartitionIndex
            error_code: Int16 = 0

        name: TopicName
        partitions: Sequence[Partition]

    throttle_time_ms: Int32 = 0
    topics: Sequence[Topic]


@message(api=ApiKey.END_TXN, versions=(0, 5), flexible=3)
class EndTxnRequest:
    """Commit or abort the open transaction.

    v5 moves to a new epoch (KIP-890).
    """

    transactional_id: TransactionalId
    producer_id: Int64
    producer_epoch: Int16
    committed: bool


@message(api=ApiKey.END_TXN, versions=(0, 5), flexible=3)
class EndTxnResponse:
    """Whether the transaction will end this way.

    v5 the epoch to use from now on.
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = since(5, default=-1)
    producer_epoch: Int16 = since(5, default=-1)


@message(api=ApiKey.WRITE_TXN_MARKERS, versions=(0, 2), flexible=1)
class WriteTxnMarkersRequest:
    """Coordinator to leaders: write commit or abort markers.

    v2 the transaction version, so that leaders can check epochs (KIP-1228).
    """

    @struct
    class Marker:
        @struct
        class Topic:
            name: TopicName
            partition_indexes: Sequence[PartitionIndex]

        producer_id: Int64
        producer_epoch: Int16
        transaction_result: bool  # True for commit
        topics: Sequence[Topic]
        coordinator_epoch: Int32
        transaction_version: Int8 = since(2, default=0)

    markers: Sequence[Marker]


@message(api=ApiKey.WRITE_TXN_MARKERS, versions=(0, 2), flexible=1)
class WriteTxnMarkersResponse:
    """Whether each marker was written."""

    @struct
    class Marker:
        @struct
        class Topic:
            @struct
            class Partition:
                partition_index: PartitionIndex
                error_code: Int16 = 0

            name: TopicName
            partitions: Sequence[Partition]

        producer_id: Int64
        topics: Sequence[Topic]

    markers: Sequence[Marker]


@message(api=ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), flexible=0)
class DescribeProducersRequest:
    """Ask leaders which producers wrote to partitions."""

    @struct
    class Topic:
        name: TopicName
        partition_indexes: Sequence[PartitionIndex]

    topics: Sequence[Topic]


@message(api=ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), flexible=0)
class DescribeProducersResponse:
    """Producers of each partition: epoch, last sequence, open transaction."""

    @struct
    class Topic:
        @struct
        class Partition:
            @struct
            class Producer:
                producer_id: Int64
                producer_epoch: Int32
                last_sequence: Int32 = -1
                last_timestamp: Int64 = -1
                coordinator_epoch: Int32
                current_txn_start_offset: Int64 = -1

            partition_index: PartitionIndex
            error_code: Int16 = 0
            error_message: str | None = None
            active_producers: Sequence[Producer]

        name: TopicName
        partitions: Sequence[Partition]

    throttle_time_ms: Int32 = 0
    topics: Sequence[Topic]


@message(api=ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), flexible=0)
class DescribeTransactionsRequest:
    """Ask the coordinator for the state of transactional ids."""

    transactional_ids: Sequence[TransactionalId]


@message(api=ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), flexible=0)
class DescribeTransactionsResponse:
    """State, timing and partitions of transactions."""

    @struct
    class Transaction:
        @struct
        class Topic:
            topic: TopicName
            partitions: Sequence[PartitionIndex]

        error_code: Int16 = 0
        transactional_id: TransactionalId
        transaction_state: str
        transaction_timeout_ms: Int32
        transaction_start_time_ms: Int64
        producer_id: Int64
        producer_epoch: Int16
        topics: Sequence[Topic]

    throttle_time_ms: Int32 = 0
    transaction_states: Sequence[Transaction]


@message(api=ApiKey.LIST_TRANSACTIONS, versions=(0, 2), flexible=0)
class ListTransactionsRequest:
    """Ask for the transactional ids on this coordinator.

    v1 only those running for longer than a duration.  v2 only those matching a pattern.
    """

    state_filters: Sequence[str]
    producer_id_filters: Sequence[Int64]
    duration_filter: Int64 = since(1, default=-1)
    transactional_id_pattern: str | None = since(2, default=None)


@message(api=ApiKey.LIST_TRANSACTIONS, versions=(0, 2), flexible=0)
class ListTransactionsResponse:
    """Transactional ids and their states."""

    @struct
    class Transaction:
        transactional_id: TransactionalId
        producer_id: Int64
        transaction_state: str

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: Sequence[str]
    transaction_states: Sequence[Transaction]
