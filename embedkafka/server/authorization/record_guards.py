"""Who may write, read and delete records, and look up their offsets."""

from embedkafka.log.log import FetchIsolation
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.message import replace
from embedkafka.protocol.messages.core import (
    FetchRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
)
from embedkafka.protocol.messages.topics import DeleteRecordsRequest, DeleteRecordsResponse
from embedkafka.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.server.authorization.checks import Checks, Narrowed, Refused
from embedkafka.server.handlers.transactional_writes import is_transactional
from embedkafka.server.topics.rules import is_valid_topic_name

_TOPIC = ResourceType.TOPIC
_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def produce(check: Checks, request: ProduceRequest) -> object:
    """Transactional batches without a transactional id are refused by the handler."""
    transactional_id = request.transactional_id
    if (
        transactional_id is not None
        and _is_transactional(request)
        and not check.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        nothing = replace(request, topic_data=())
        failed = [_not_produced(topic, code) for topic in request.topic_data]
        return Narrowed(nothing, lambda response: replace(response, responses=failed))
    allowed, refused = check.split(
        AclOperation.WRITE,
        _TOPIC,
        request.topic_data,
        lambda topic: check.topic_name(topic.name, topic.topic_id),
    )
    if not refused:
        return request

    def amend(response: ProduceResponse) -> ProduceResponse:
        failed = [_not_produced(topic, _FAILED) for topic in refused]
        return replace(response, responses=[*response.responses, *failed])

    return Narrowed(replace(request, topic_data=allowed), amend)


def _is_transactional(request: ProduceRequest) -> bool:
    return any(
        partition.records is not None and is_transactional(partition.records)
        for topic in request.topic_data
        for partition in topic.partition_data
    )


def _not_produced(topic: ProduceRequest.Topic, code: ErrorCode) -> ProduceResponse.Topic:
    return ProduceResponse.Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            ProduceResponse.Topic.Partition(index=partition.index, error_code=code, base_offset=-1)
            for partition in topic.partition_data
        ],
    )


def fetch(check: Checks, request: FetchRequest) -> object:
    """The handler asks, for only it knows the partitions of the session."""
    return request


def list_offsets(check: Checks, request: ListOffsetsRequest) -> object:
    allowed, refused = check.split(
        AclOperation.DESCRIBE, _TOPIC, request.topics, lambda topic: topic.name
    )
    if not refused or (allowed and not FetchIsolation.is_known(request.isolation_level)):
        return request  # the handler refuses an unknown isolation level for all of them
    _Topic = ListOffsetsResponse.Topic
    failed = [
        _Topic(
            name=topic.name,
            partitions=[
                _Topic.Partition(partition_index=p.partition_index, error_code=_FAILED)
                for p in topic.partitions
            ],
        )
        for topic in refused
    ]
    return Narrowed(
        replace(request, topics=allowed),
        lambda response: replace(response, topics=[*response.topics, *failed]),
    )


def offset_for_leader_epoch(check: Checks, request: OffsetForLeaderEpochRequest) -> object:
    if check.may_cluster(AclOperation.CLUSTER_ACTION, quiet=True):
        return request
    allowed, refused = check.split(
        AclOperation.DESCRIBE, _TOPIC, request.topics, lambda topic: topic.topic
    )
    _Topic = OffsetForLeaderEpochResponse.Topic
    failed = [
        _Topic(
            topic=topic.topic,
            partitions=[
                _Topic.Partition(partition=p.partition, error_code=_FAILED)
                for p in topic.partitions
            ],
        )
        for topic in refused
    ]
    return Narrowed(
        replace(request, topics=allowed),
        lambda response: replace(response, topics=[*response.topics, *failed]),
    )


def delete_records(check: Checks, request: DeleteRecordsRequest) -> object:
    allowed, refused = check.split(
        AclOperation.DELETE, _TOPIC, request.topics, lambda topic: topic.name
    )
    _Topic = DeleteRecordsResponse.Topic
    indexes: dict[str, dict[int, None]] = {}
    for topic in refused:
        asked = indexes.setdefault(topic.name, {})
        asked.update(dict.fromkeys(p.partition_index for p in topic.partitions))
    failed = [
        _Topic(
            name=name,
            partitions=[
                _Topic.Partition(partition_index=index, low_watermark=-1, error_code=_FAILED)
                for index in asked
            ],
        )
        for name, asked in indexes.items()
    ]
    if not allowed:
        return Refused(DeleteRecordsResponse(topics=failed))
    return Narrowed(
        replace(request, topics=allowed),
        lambda response: replace(response, topics=[*response.topics, *failed]),
    )


def describe_producers(check: Checks, request: DescribeProducersRequest) -> object:
    """Names that no topic can have are left to the handler to refuse."""
    allowed, refused = check.split(
        AclOperation.READ,
        _TOPIC,
        request.topics,
        lambda topic: topic.name if is_valid_topic_name(topic.name) else None,
    )
    _Topic = DescribeProducersResponse.Topic
    failed = [
        _Topic(
            name=topic.name,
            partitions=[
                _Topic.Partition(
                    partition_index=index,
                    error_code=_FAILED,
                    error_message=_FAILED.message,
                    active_producers=[],
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in refused
    ]
    return Narrowed(
        replace(request, topics=allowed),
        lambda response: replace(response, topics=[*response.topics, *failed]),
    )
