"""Producer ids and transactions, and their descriptions.

The coordinator (`transactions.service`) has no metadata. These handlers answer for topics that do
not exist, and write the markers that coordinators send to leaders.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from embedkafka.broker.api_table import MEANING, Api, Need, Quota, by_handler
from embedkafka.broker.coordinator.decision import refusal_of
from embedkafka.broker.coordinator.transactions.metadata import EPOCH_BUMP_VERSION
from embedkafka.broker.coordinator.transactions.service import FIRST_SENT_BY_BROKERS
from embedkafka.broker.dispatch import LATER
from embedkafka.broker.log.log import AppendOrigin
from embedkafka.broker.log.producers.state import ActiveProducer
from embedkafka.broker.metadata_cache import MetadataSnapshot
from embedkafka.broker.replica.partition.partition import ACKS_ALL
from embedkafka.broker.replica.produce import PartitionResponse
from embedkafka.broker.topics.rules import check_topic_name
from embedkafka.broker.txn_verification import TransactionalWrite, support_by_version
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, INTERNAL_TOPICS
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.message import replace
from embedkafka.wire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from embedkafka.wire.records.batch import NO_SEQUENCE
from embedkafka.wire.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
)

if TYPE_CHECKING:
    from embedkafka.broker.authorization.checks import Checks
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

_FIRST_WITH_LOADING = 2


def init_producer_id(
    broker: "BrokerParts", request: InitProducerIdRequest, context: "RequestContext"
) -> object:
    """A producer id and epoch; with a transactional id, fences its older producers."""
    if request.transactional_id is None and not _may_write_somewhere(context):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    broker.txns.init_producer_id(request, context.version, context.reply)
    return LATER


def _may_write_somewhere(context: "RequestContext") -> bool:
    """Without a transactional id, permission to write to some topic is enough (KIP-679)."""
    checks = context.checks
    return (
        checks is None
        or checks.may_some(AclOperation.WRITE, ResourceType.TOPIC)
        or checks.may_cluster(AclOperation.IDEMPOTENT_WRITE)
    )


def add_partitions_to_txn(
    broker: "BrokerParts", request: AddPartitionsToTxnRequest, context: "RequestContext"
) -> object:
    """Adds partitions to the open transaction: all of them, or none.

    Versions: v4 is for brokers: several transactions, and it may only verify (KIP-890).
    """
    if context.version < FIRST_SENT_BY_BROKERS:
        refused = _refused_partitions(broker, request.v3_and_below_topics, context)
        if refused is not None:
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=refused)
        broker.txns.add_partitions_to_txn(request, context.version, context.reply)
    else:
        _add_partitions_for_brokers(broker, request, context)
    return LATER


def _add_partitions_for_brokers(
    broker: "BrokerParts", request: AddPartitionsToTxnRequest, context: "RequestContext"
) -> None:
    """Answers transactions with missing topics itself; the coordinator answers the others."""
    accepted = []
    refused = []
    for transaction in request.transactions:
        results = _refused_partitions(broker, transaction.topics)
        if results is None:
            accepted.append(transaction)
        else:
            refused.append(
                AddPartitionsToTxnResponse.Transaction(
                    transactional_id=transaction.transactional_id, topic_results=results
                )
            )

    @context.answering
    def reply(response: AddPartitionsToTxnResponse) -> None:
        results = [*response.results_by_transaction, *refused]
        context.reply(replace(response, results_by_transaction=results))

    broker.txns.add_partitions_to_txn(
        replace(request, transactions=accepted), context.version, reply
    )


def _refused_partitions(
    broker: "BrokerParts",
    topics: Sequence[AddPartitionsToTxnRequest.Transaction.Topic],
    client: "RequestContext | None" = None,
) -> list[AddPartitionsToTxnResponse.Transaction.Topic] | None:
    """The results if a partition is refused; the others are not attempted then.

    A `client` may not write to internal topics; brokers add the offsets topic for it.
    """
    forbidden = {
        topic.name
        for topic in topics
        if client is not None
        if topic.name in INTERNAL_TOPICS
        or not client.may(AclOperation.WRITE, ResourceType.TOPIC, topic.name)
    }
    _Topic = AddPartitionsToTxnResponse.Transaction.Topic
    refusals = {
        (topic.name, partition): refusal
        for topic in topics
        for partition in topic.partitions
        if (
            refusal := ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if topic.name in forbidden
            else _missing(broker, topic.name, partition)
        )
    }
    if not refusals:
        return None
    return [
        _Topic(
            name=topic.name,
            results_by_partition=[
                _Topic.Partition(
                    partition_index=partition,
                    partition_error_code=refusals.get(
                        (topic.name, partition), ErrorCode.OPERATION_NOT_ATTEMPTED
                    ),
                )
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


def _missing(broker: "BrokerParts", topic: str, partition: int) -> ErrorCode:
    found = broker.metadata.snapshot.find_partition(topic, partition)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else ErrorCode.NONE


def add_offsets_to_txn(
    broker: "BrokerParts", request: AddOffsetsToTxnRequest, context: "RequestContext"
) -> object:
    """Adds the group's offsets partition to the open transaction."""
    partition = _offsets_partition(broker, request.group_id)
    broker.txns.add_offsets_to_txn(request, partition, context.version, context.reply)
    return LATER


def end_txn(broker: "BrokerParts", request: EndTxnRequest, context: "RequestContext") -> object:
    """Commits or aborts; answers when the decision is stored, before the markers are written."""
    broker.txns.end_txn(request, context.version, context.reply)
    return LATER


def txn_offset_commit(
    broker: "BrokerParts", request: TxnOffsetCommitRequest, context: "RequestContext"
) -> object:
    """Holds offsets until the transaction ends; missing topics answer their own error.

    Behaviour: first asks the transaction's coordinator whether the offsets are part of it.
    Versions:  v4 knows TRANSACTION_ABORTABLE; v5 adds the offsets to the transaction (KIP-890).
    """
    known, missing = _split(broker.metadata.snapshot, request.topics)
    unknown = _commit_errors(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    @context.answering
    def reply(response: TxnOffsetCommitResponse) -> None:
        topics = _merged([*response.topics, *unknown]) if unknown else response.topics
        context.reply(replace(response, topics=topics))

    @context.answering
    def commit(errors: Mapping[TopicPartition, ErrorCode]) -> None:
        if not errors:
            broker.groups.txn_offset_commit(replace(request, topics=known), context.version, reply)
            return
        (error,) = errors.values()
        shown = _commit_error(error, context.version)
        reply(TxnOffsetCommitResponse(topics=_commit_errors(known, shown)))

    if known and request.group_id:
        broker.find_txn_verification().verify(
            _offsets_write(broker, request, context.version), commit
        )
    elif known or not unknown:
        commit({})
    else:
        reply(TxnOffsetCommitResponse(topics=[]))
    return LATER


_CommitTopic = TxnOffsetCommitRequest.Topic


def _split(
    snapshot: MetadataSnapshot, topics: Iterable[_CommitTopic]
) -> tuple[list[_CommitTopic], list[_CommitTopic]]:
    """The topics with their partitions that exist, and with those that do not."""

    def only(topic: _CommitTopic, *, existing: bool) -> _CommitTopic:
        return replace(
            topic,
            partitions=[
                partition
                for partition in topic.partitions
                if (snapshot.find_partition(topic.name, partition.partition_index) is not None)
                is existing
            ],
        )

    known = [only(topic, existing=True) for topic in topics]
    missing = [only(topic, existing=False) for topic in topics]
    return (
        [topic for topic in known if topic.partitions],
        [topic for topic in missing if topic.partitions or topic.name not in snapshot.topics],
    )


def _merged(
    topics: Iterable[TxnOffsetCommitResponse.Topic],
) -> list[TxnOffsetCommitResponse.Topic]:
    """One entry for each topic."""
    by_name: dict[str, list[TxnOffsetCommitResponse.Topic.Partition]] = {}
    for topic in topics:
        by_name.setdefault(topic.name, []).extend(topic.partitions)
    return [
        TxnOffsetCommitResponse.Topic(name=name, partitions=partitions)
        for name, partitions in by_name.items()
    ]


def _offsets_write(
    broker: "BrokerParts", request: TxnOffsetCommitRequest, version: int
) -> TransactionalWrite:
    partition = _offsets_partition(broker, request.group_id)
    return TransactionalWrite(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        sequences={partition: NO_SEQUENCE},
        support=support_by_version(version, abortable=4, epoch_bumps=5),
    )


def _offsets_partition(broker: "BrokerParts", group_id: str) -> TopicPartition:
    return TopicPartition(GROUP_METADATA_TOPIC, broker.groups.coordinator.partition_for(group_id))


def _commit_error(error: ErrorCode, version: int) -> ErrorCode:
    """The error of a verification as a producer understands it from a group's coordinator.

    It retries COORDINATOR_LOAD_IN_PROGRESS without looking for another coordinator, but does not
    expect that error before v2.
    """
    if error is ErrorCode.NETWORK_EXCEPTION:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _FIRST_WITH_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return refusal_of(error)


def _commit_errors(
    topics: Iterable[TxnOffsetCommitRequest.Topic], error: ErrorCode
) -> list[TxnOffsetCommitResponse.Topic]:
    _Topic = TxnOffsetCommitResponse.Topic
    return [
        _Topic(
            name=topic.name,
            partitions=[
                _Topic.Partition(partition_index=partition.partition_index, error_code=error)
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


def write_txn_markers(
    broker: "BrokerParts", request: WriteTxnMarkersRequest, context: "RequestContext"
) -> object:
    """Ends transactions in partitions led here; answers when the replicas have the markers.

    Versions: v2 marks producers with a new epoch for every transaction (KIP-1228).
    """
    bad = next((n for n, each in enumerate(request.markers) if _is_bad(broker, each)), None)
    if bad is not None:
        for marker in request.markers[:bad]:
            _write_marker(broker, marker, context, _unheard)
        failed = {marker.producer_id: _failed_marker(marker) for marker in request.markers}
        return WriteTxnMarkersResponse(markers=list(failed.values()))
    answers: dict[int, WriteTxnMarkersResponse.Marker] = {}

    def note(index: int, answer: WriteTxnMarkersResponse.Marker) -> None:
        answers[index] = answer
        if len(answers) == len(request.markers):
            ordered = [answers[index] for index in range(len(request.markers))]
            context.reply(WriteTxnMarkersResponse(markers=_by_producer(ordered)))

    if not request.markers:
        context.reply(WriteTxnMarkersResponse(markers=[]))
    for index, marker in enumerate(request.markers):
        _write_marker(broker, marker, context, partial(note, index))
    return LATER


def _by_producer(
    markers: Iterable[WriteTxnMarkersResponse.Marker],
) -> list[WriteTxnMarkersResponse.Marker]:
    """One entry for each producer with partitions, and in it one for each topic."""
    _Marker = WriteTxnMarkersResponse.Marker
    producers: dict[int, dict[str, dict[int, WriteTxnMarkersResponse.Marker.Topic.Partition]]] = {}
    for marker in markers:
        for topic in marker.topics:
            topics = producers.setdefault(marker.producer_id, {})
            partitions = topics.setdefault(topic.name, {})
            partitions.update((each.partition_index, each) for each in topic.partitions)
    return [
        _Marker(
            producer_id=producer_id,
            topics=[
                _Marker.Topic(name=name, partitions=list(partitions.values()))
                for name, partitions in topics.items()
            ],
        )
        for producer_id, topics in producers.items()
    ]


def _write_marker(
    broker: "BrokerParts",
    marker: WriteTxnMarkersRequest.Marker,
    context: "RequestContext",
    reply: Callable[[WriteTxnMarkersResponse.Marker], None],
) -> None:
    batch = build_end_transaction_marker(
        EndTransactionMarker(
            control_type=ControlType.COMMIT if marker.transaction_result else ControlType.ABORT,
            coordinator_epoch=marker.coordinator_epoch,
        ),
        # As a client's clock has it, like the records that the marker follows.
        timestamp=broker.clock.now_ms() - (broker.clock.shift_ms() or 0),
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )
    partitions = [
        TopicPartition(topic.name, partition)
        for topic in marker.topics
        for partition in topic.partition_indexes
    ]

    @context.answering
    def on_done(results: Mapping[TopicPartition, PartitionResponse]) -> None:
        _complete_offsets(broker, marker, results)
        reply(_marker_answer(marker, results))

    broker.replicas.writes.append_records(
        timeout_ms=broker.config.broker.integer("request.timeout.ms"),
        required_acks=ACKS_ALL,
        entries={partition: memoryview(bytearray(batch)) for partition in partitions},
        on_done=on_done,
        origin=AppendOrigin.BUMPING_COORDINATOR
        if marker.transaction_version >= EPOCH_BUMP_VERSION
        else AppendOrigin.COORDINATOR,
        internal_topics_allowed=True,
    )


def _complete_offsets(
    broker: "BrokerParts",
    marker: WriteTxnMarkersRequest.Marker,
    results: Mapping[TopicPartition, PartitionResponse],
) -> None:
    """Commits or drops the offsets that waited for this transaction."""
    for (topic, partition), result in results.items():
        if topic == GROUP_METADATA_TOPIC and result.error is ErrorCode.NONE:
            broker.groups.on_transaction_completed(
                partition, marker.producer_id, committed=marker.transaction_result
            )


def _is_bad(broker: "BrokerParts", marker: WriteTxnMarkersRequest.Marker) -> bool:
    """Kafka fails at a marker without a producer, if it has a partition to write it to."""
    snapshot = broker.metadata.snapshot
    return (marker.producer_id < 0 or marker.producer_epoch < 0) and any(
        snapshot.find_partition(topic.name, partition) is not None
        for topic in marker.topics
        for partition in topic.partition_indexes
    )


def _unheard(answer: WriteTxnMarkersResponse.Marker) -> None:
    """A later marker of the request has failed, and with it the whole answer."""


def _failed_marker(marker: WriteTxnMarkersRequest.Marker) -> WriteTxnMarkersResponse.Marker:
    """Kafka answers the last one of each producer."""
    return _shaped_marker(marker, lambda partition: ErrorCode.UNKNOWN_SERVER_ERROR)


def _marker_answer(
    marker: WriteTxnMarkersRequest.Marker, results: Mapping[TopicPartition, PartitionResponse]
) -> WriteTxnMarkersResponse.Marker:
    return _shaped_marker(marker, lambda partition: results[partition].error)


def _shaped_marker(
    marker: WriteTxnMarkersRequest.Marker, error_of: Callable[[TopicPartition], ErrorCode]
) -> WriteTxnMarkersResponse.Marker:
    _Topic = WriteTxnMarkersResponse.Marker.Topic
    return WriteTxnMarkersResponse.Marker(
        producer_id=marker.producer_id,
        topics=[
            _Topic(
                name=topic.name,
                partitions=[
                    _Topic.Partition(
                        partition_index=partition,
                        error_code=error_of(TopicPartition(topic.name, partition)),
                    )
                    for partition in topic.partition_indexes
                ],
            )
            for topic in marker.topics
            if topic.partition_indexes
        ],
    )


def describe_producers(
    broker: "BrokerParts", request: DescribeProducersRequest, context: "RequestContext"
) -> DescribeProducersResponse:
    """Producers that wrote to partitions hosted here, with their open transactions.

    Behaviour: any replica answers; `kafka-transactions.sh find-hanging --broker-id` needs that.
    """
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.Topic(
                name=topic.name,
                partitions=[
                    _producers(broker, TopicPartition(topic.name, partition))
                    for partition in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _producers(
    broker: "BrokerParts", topic_partition: TopicPartition
) -> DescribeProducersResponse.Topic.Partition:
    _Partition = DescribeProducersResponse.Topic.Partition
    try:
        check_topic_name(topic_partition.topic)
        log = broker.replicas.hosted.require(topic_partition).require_log()
    except ApiError as error:
        return _Partition(
            partition_index=topic_partition.partition,
            error_code=error.code,
            error_message=_producers_message(broker, topic_partition.topic, error),
            active_producers=[],
        )
    return _Partition(
        partition_index=topic_partition.partition,
        active_producers=[
            _Partition.Producer(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_txn_start_offset,
            )
            for producer in _by_id(log.active_producers())
        ],
    )


def _producers_message(broker: "BrokerParts", topic: str, error: ApiError) -> str | None:
    """Kafka explains an illegal or a missing topic, but no other error."""
    if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
        return error.message
    return None if topic in broker.metadata.snapshot.topics else error.code.message


def _by_id(producers: Iterable[ActiveProducer]) -> list[ActiveProducer]:
    return sorted(producers, key=lambda producer: producer.producer_id)


def describe_transactions(
    broker: "BrokerParts", request: DescribeTransactionsRequest, context: "RequestContext"
) -> object:
    """The state, timing and partitions of transactional ids coordinated here."""
    if context.checks is None:
        broker.txns.describe_transactions(request, context.reply)
        return LATER

    @context.answering
    def reply(response: DescribeTransactionsResponse) -> None:
        shown = [
            replace(
                state, topics=[one for one in state.topics if _may_describe(context, one.topic)]
            )
            for state in response.transaction_states
        ]
        context.reply(replace(response, transaction_states=shown))

    broker.txns.describe_transactions(request, reply)
    return LATER


def _may_describe(context: "RequestContext", topic: str) -> bool:
    return context.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)


def list_transactions(
    broker: "BrokerParts", request: ListTransactionsRequest, context: "RequestContext"
) -> object:
    """Transactional ids coordinated here, filtered by state, producer, duration (v1), name (v2)."""
    if context.checks is None:
        broker.txns.list_transactions(request, context.reply)
        return LATER

    @context.answering
    def reply(response: ListTransactionsResponse) -> None:
        visible = [
            state
            for state in response.transaction_states
            if context.may_describe(ResourceType.TRANSACTIONAL_ID, state.transactional_id)
        ]
        context.reply(replace(response, transaction_states=visible))

    broker.txns.list_transactions(request, reply)
    return LATER


def _is_from_broker(check: "Checks", request: AddPartitionsToTxnRequest) -> bool:
    return check.context.version >= FIRST_SENT_BY_BROKERS


def _is_from_producer(check: "Checks", request: AddPartitionsToTxnRequest) -> bool:
    return not _is_from_broker(check, request)


_WRITE_TXN: Final = Need(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
_READ_GROUP: Final = Need(AclOperation.READ, ResourceType.GROUP)
_READ_TOPIC: Final = Need(AclOperation.READ, ResourceType.TOPIC)

APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.INIT_PRODUCER_ID: Api(
        init_producer_id,
        [
            _WRITE_TXN._replace(remark="with a transactional id"),
            by_handler(
                AclOperation.WRITE,
                ResourceType.TOPIC,
                "of any name, without a transactional id",
            ),
            by_handler(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "does as well"),
        ],
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Api(
        add_partitions_to_txn,
        [
            Need(
                AclOperation.CLUSTER_ACTION,
                ResourceType.CLUSTER,
                "from v4 on, which brokers send",
                when=_is_from_broker,
            ),
            _WRITE_TXN._replace(when=_is_from_producer),
            by_handler(AclOperation.WRITE, ResourceType.TOPIC),
        ],
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Api(add_offsets_to_txn, [_WRITE_TXN, _READ_GROUP]),
    ApiKey.END_TXN: Api(end_txn, [_WRITE_TXN]),
    ApiKey.TXN_OFFSET_COMMIT: Api(txn_offset_commit, [_WRITE_TXN, _READ_GROUP, _READ_TOPIC]),
    ApiKey.WRITE_TXN_MARKERS: Api(
        write_txn_markers,
        [
            Need(
                AclOperation.CLUSTER_ACTION,
                ResourceType.CLUSTER,
                "or the other one",
                on_cluster=AclOperation.ALTER,
            )
        ],
        quota=Quota.NONE,
    ),
    ApiKey.DESCRIBE_PRODUCERS: Api(describe_producers, [_READ_TOPIC._replace(says=MEANING)]),
    ApiKey.DESCRIBE_TRANSACTIONS: Api(
        describe_transactions,
        [
            Need(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
            by_handler(
                AclOperation.DESCRIBE, ResourceType.TOPIC, "what is not allowed is left out"
            ),
        ],
    ),
    ApiKey.LIST_TRANSACTIONS: Api(
        list_transactions,
        [
            by_handler(
                AclOperation.DESCRIBE,
                ResourceType.TRANSACTIONAL_ID,
                "what is not allowed is left out",
            )
        ],
    ),
}
