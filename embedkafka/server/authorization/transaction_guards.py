"""Who may have a producer id, take part in transactions, and see them."""

from collections.abc import Container, Iterable, Mapping

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.message import replace
from embedkafka.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.server.authorization.checks import Checks, Narrowed, Refused
from embedkafka.txn.service import FIRST_SENT_BY_BROKERS

_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_TXN = ResourceType.TRANSACTIONAL_ID
_WRITE, _READ, _DESCRIBE = AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE
_FAILED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_CLUSTER_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def init_producer_id(check: Checks, request: InitProducerIdRequest) -> object:
    """Without a transactional id, permission to write to some topic is enough (KIP-679)."""
    code = ErrorCode.NONE
    if request.transactional_id is not None:
        if not check.may(_WRITE, _TXN, request.transactional_id):
            code = _FAILED
    elif not (check.may_some(_WRITE, _TOPIC) or check.may_cluster(AclOperation.IDEMPOTENT_WRITE)):
        code = _CLUSTER_FAILED
    return Refused(InitProducerIdResponse(error_code=code, producer_epoch=-1)) if code else request


def add_partitions_to_txn(check: Checks, request: AddPartitionsToTxnRequest) -> object:
    """One topic that the client may not write to fails the others too."""
    if check.context.version >= FIRST_SENT_BY_BROKERS:
        if check.may_cluster(AclOperation.CLUSTER_ACTION):
            return request
        return Refused(AddPartitionsToTxnResponse(error_code=_CLUSTER_FAILED))
    topics = request.v3_and_below_topics
    if not check.may(_WRITE, _TXN, request.v3_and_below_transactional_id):
        return Refused(_not_added(topics, dict.fromkeys((t.name for t in topics), _FAILED)))
    _, refused = check.split(_WRITE, _TOPIC, topics, lambda topic: topic.name)
    if not refused:
        return request
    known = check.broker.metadata.snapshot.topics
    return Refused(_not_added(topics, {topic.name: _TOPIC_FAILED for topic in refused}, known))


def _not_added(
    topics: Iterable[AddPartitionsToTxnRequest.Transaction.Topic],
    errors: Mapping[str, ErrorCode],
    known: Mapping[str, Container[int]] | None = None,
) -> AddPartitionsToTxnResponse:
    """Topics without an error were not attempted, or are not among those `known`."""

    def code(name: str, index: int) -> ErrorCode:
        if name in errors:
            return errors[name]
        if known is not None and index not in known.get(name, ()):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    _Topic = AddPartitionsToTxnResponse.Transaction.Topic
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            _Topic(
                name=topic.name,
                results_by_partition=[
                    _Topic.Partition(
                        partition_index=index, partition_error_code=code(topic.name, index)
                    )
                    for index in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def add_offsets_to_txn(check: Checks, request: AddOffsetsToTxnRequest) -> object:
    if not check.may(_WRITE, _TXN, request.transactional_id):
        return Refused(AddOffsetsToTxnResponse(error_code=_FAILED))
    if not check.may(_READ, _GROUP, request.group_id):
        return Refused(AddOffsetsToTxnResponse(error_code=_GROUP_FAILED))
    return request


def end_txn(check: Checks, request: EndTxnRequest) -> object:
    if check.may(_WRITE, _TXN, request.transactional_id):
        return request
    return Refused(EndTxnResponse(error_code=_FAILED))


def txn_offset_commit(check: Checks, request: TxnOffsetCommitRequest) -> object:
    if not check.may(_WRITE, _TXN, request.transactional_id):
        return Refused(TxnOffsetCommitResponse(topics=_uncommitted(request.topics, _FAILED)))
    if not check.may(_READ, _GROUP, request.group_id):
        return Refused(TxnOffsetCommitResponse(topics=_uncommitted(request.topics, _GROUP_FAILED)))
    allowed, refused = check.split(_READ, _TOPIC, request.topics, lambda topic: topic.name)
    if not refused:
        return request
    failed = _uncommitted(refused, _TOPIC_FAILED)
    if not allowed:
        return Refused(TxnOffsetCommitResponse(topics=failed))
    return Narrowed(
        replace(request, topics=allowed),
        lambda response: replace(response, topics=[*response.topics, *failed]),
    )


def _uncommitted(
    topics: Iterable[TxnOffsetCommitRequest.Topic], code: ErrorCode
) -> list[TxnOffsetCommitResponse.Topic]:
    _Topic = TxnOffsetCommitResponse.Topic
    return [
        _Topic(
            name=topic.name,
            partitions=[
                _Topic.Partition(partition_index=p.partition_index, error_code=code)
                for p in topic.partitions
            ],
        )
        for topic in topics
    ]


def write_txn_markers(check: Checks, request: WriteTxnMarkersRequest) -> object:
    """For brokers, and for administrators who abort a hanging transaction."""
    if check.may_cluster(AclOperation.ALTER, quiet=True) or check.may_cluster(
        AclOperation.CLUSTER_ACTION
    ):
        return request
    _Marker = WriteTxnMarkersResponse.Marker
    return Refused(
        WriteTxnMarkersResponse(
            markers=[
                _Marker(
                    producer_id=marker.producer_id,
                    topics=[
                        _Marker.Topic(
                            name=topic.name,
                            partitions=[
                                _Marker.Topic.Partition(
                                    partition_index=index, error_code=_CLUSTER_FAILED
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                        if topic.partition_indexes
                    ],
                )
                for marker in {marker.producer_id: marker for marker in request.markers}.values()
            ]
        )
    )


def describe_transactions(check: Checks, request: DescribeTransactionsRequest) -> object:
    allowed, refused = check.split(_DESCRIBE, _TXN, request.transactional_ids, lambda name: name)
    _Transaction = DescribeTransactionsResponse.Transaction
    failed = [
        _Transaction(
            error_code=_FAILED,
            transactional_id=name,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=[],
        )
        for name in refused
    ]

    def amend(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        shown = [
            replace(
                state,
                topics=[t for t in state.topics if check.may(_DESCRIBE, _TOPIC, t.topic)],
            )
            for state in response.transaction_states
        ]
        return replace(response, transaction_states=[*shown, *failed])

    return Narrowed(replace(request, transactional_ids=allowed), amend)


def list_transactions(check: Checks, request: ListTransactionsRequest) -> object:
    def amend(response: ListTransactionsResponse) -> ListTransactionsResponse:
        visible = [
            state
            for state in response.transaction_states
            if check.may(_DESCRIBE, _TXN, state.transactional_id, quiet=True)
        ]
        return replace(response, transaction_states=visible)

    return Narrowed(request, amend)
