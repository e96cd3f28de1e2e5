"""Who may see, create, grow and delete topics."""

from collections import Counter
from collections.abc import Iterable, Sequence
from uuid import UUID

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.message import replace
from embedkafka.protocol.messages.core import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from embedkafka.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from embedkafka.protocol.wire_types import ZERO_UUID
from embedkafka.runtime.topic_names import CLUSTER_METADATA_TOPIC
from embedkafka.security.acl.acls import CLUSTER_NAME
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.server.authorization.checks import Checks, Narrowed, Refused
from embedkafka.server.handlers.metadata import is_elsewhere

_TOPIC = ResourceType.TOPIC
_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_FIRST_WITH_NULL_FOR_ALL = 1
_FIRST_BY_ID = 12


def metadata(check: Checks, request: MetadataRequest) -> object:
    wants_all = request.topics is None or (
        not request.topics and check.context.version < _FIRST_WITH_NULL_FOR_ALL
    )
    if wants_all:
        return Narrowed(request, lambda response: _all_visible(check, request, response))
    topics = request.topics or ()
    by_id = [topic for topic in topics if topic.topic_id != ZERO_UUID]
    unnamed = any(topic.name is None for topic in topics)
    if (by_id or unnamed) and check.context.version < _FIRST_BY_ID:
        return request  # the handler refuses it from anyone
    allowed, hidden = check.split(
        AclOperation.DESCRIBE, _TOPIC, by_id or topics, lambda topic: _name(check, topic)
    )
    creatable = allowed
    refused: Sequence[MetadataRequest.Topic] = ()
    if request.allow_auto_topic_creation and not check.may_cluster(AclOperation.CREATE, quiet=True):
        may_create = check.broker.config.broker.flag("auto.create.topics.enable")
        known = check.broker.metadata.snapshot.topics
        creatable, refused = check.split(
            AclOperation.CREATE,
            _TOPIC,
            allowed,
            lambda topic: topic.name if may_create and topic.name not in known else None,
        )
    asked = {(topic.name, topic.topic_id): topic for topic in [*refused, *hidden]}
    failed = [_hidden(topic) for topic in asked.values()]

    def amend(response: MetadataResponse) -> MetadataResponse:
        shown = _with_operations(check, request, response)
        return replace(shown, topics=[*shown.topics, *failed])

    return Narrowed(replace(request, topics=creatable), amend)


def _name(check: Checks, topic: MetadataRequest.Topic) -> str | None:
    is_named = topic.name is not None and topic.topic_id == ZERO_UUID
    return topic.name if is_named else _find_name(check, topic.topic_id)


def _find_name(check: Checks, topic_id: UUID) -> str | None:
    return check.broker.metadata.snapshot.topic_names.get(topic_id)


def _hidden(topic: MetadataRequest.Topic) -> MetadataResponse.Topic:
    """What a client may not see: of a name no id, of an id no name."""
    by_name = topic.topic_id == ZERO_UUID
    return MetadataResponse.Topic(
        error_code=_FAILED,
        name=topic.name if by_name else None,
        topic_id=ZERO_UUID if by_name else topic.topic_id,
        partitions=[],
    )


def _all_visible(
    check: Checks, request: MetadataRequest, response: MetadataResponse
) -> MetadataResponse:
    visible = [
        topic
        for topic in response.topics
        if check.may(AclOperation.DESCRIBE, _TOPIC, topic.name or "", quiet=True)
    ]
    return _with_operations(check, request, replace(response, topics=visible))


def _with_operations(
    check: Checks, request: MetadataRequest, response: MetadataResponse
) -> MetadataResponse:
    if request.include_topic_authorized_operations:
        topics = [
            replace(topic, topic_authorized_operations=check.operations(_TOPIC, topic.name))
            if topic.name
            else topic
            for topic in response.topics
        ]
        response = replace(response, topics=topics)
    if request.include_cluster_authorized_operations:
        response = replace(response, cluster_authorized_operations=_on_cluster(check))
    return response


def _on_cluster(check: Checks) -> int:
    if not check.may_cluster(AclOperation.DESCRIBE):
        return 0
    return check.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def describe_cluster(check: Checks, request: DescribeClusterRequest) -> object:
    if not request.include_cluster_authorized_operations:
        return request

    def amend(response: DescribeClusterResponse) -> DescribeClusterResponse:
        if response.error_code:
            return response
        return replace(response, cluster_authorized_operations=_on_cluster(check))

    return Narrowed(request, amend)


def describe_topic_partitions(check: Checks, request: DescribeTopicPartitionsRequest) -> object:
    _Topic = DescribeTopicPartitionsRequest.Topic
    failed: list[DescribeTopicPartitionsResponse.Topic] = []
    if is_elsewhere(request):
        return request  # the handler refuses it from anyone
    if request.topics:
        allowed, hidden = check.split(
            AclOperation.DESCRIBE, _TOPIC, request.topics, lambda topic: topic.name
        )
        failed = [
            DescribeTopicPartitionsResponse.Topic(
                error_code=_FAILED, name=name, topic_id=ZERO_UUID, partitions=[]
            )
            for name in dict.fromkeys(topic.name for topic in hidden)
        ]
    else:
        allowed = [
            _Topic(name=name)
            for name in sorted(check.broker.metadata.snapshot.topics)
            if check.may(AclOperation.DESCRIBE, _TOPIC, name, quiet=True)
        ]
    narrowed = _from_cursor(request, allowed)
    if not narrowed.topics:
        return Refused(DescribeTopicPartitionsResponse(topics=failed))

    def amend(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        shown = [
            replace(topic, topic_authorized_operations=check.operations(_TOPIC, topic.name))
            if topic.name and topic.error_code != ErrorCode.UNKNOWN_SERVER_ERROR
            else topic
            for topic in response.topics
        ]
        return replace(response, topics=[*shown, *failed])

    return Narrowed(narrowed, amend)


def _from_cursor(
    request: DescribeTopicPartitionsRequest, visible: Sequence[DescribeTopicPartitionsRequest.Topic]
) -> DescribeTopicPartitionsRequest:
    """The same request for the visible topics; its cursor may stand at one that is not."""
    cursor = request.cursor
    if cursor is None or cursor.topic_name in {topic.name for topic in visible}:
        return replace(request, topics=visible)
    ahead = [topic for topic in visible if topic.name > cursor.topic_name]
    return replace(request, topics=ahead, cursor=None)


def create_topics(check: Checks, request: CreateTopicsRequest) -> object:
    allowed = request.topics
    refused: Sequence[CreateTopicsRequest.Topic] = ()
    if not check.may_cluster(AclOperation.CREATE, quiet=True):
        wrong = {CLUSTER_METADATA_TOPIC, *_repeated(topic.name for topic in request.topics)}
        allowed, refused = check.split(
            AclOperation.CREATE,
            _TOPIC,
            request.topics,
            lambda topic: None if topic.name in wrong else topic.name,
        )
    failed = [
        CreateTopicsResponse.Topic(
            name=topic.name, error_code=_FAILED, error_message="Authorization failed."
        )
        for topic in refused
    ]

    def amend(response: CreateTopicsResponse) -> CreateTopicsResponse:
        shown = [_without_secret_configs(check, topic) for topic in response.topics]
        return replace(response, topics=[*shown, *failed])

    return Narrowed(replace(request, topics=allowed), amend)


def _without_secret_configs(
    check: Checks, topic: CreateTopicsResponse.Topic
) -> CreateTopicsResponse.Topic:
    """The answer shows settings only to those who may describe them."""
    if topic.error_code or check.may(AclOperation.DESCRIBE_CONFIGS, _TOPIC, topic.name, quiet=True):
        return topic
    return replace(
        topic,
        topic_config_error_code=_FAILED,
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
    )


def _repeated(names: Iterable[str | None]) -> set[str]:
    """Names that a request has twice, which the handler refuses from anyone."""
    return {name for name, times in Counter(names).items() if times > 1 and name is not None}


def delete_topics(check: Checks, request: DeleteTopicsRequest) -> object:
    """What is wrong in itself, such as a topic named twice, is left to the handler to refuse."""
    if request.timeout_ms <= 0 or check.may_cluster(AclOperation.DELETE, quiet=True):
        return request
    wrong = _repeated(request.topic_names)
    names, failed_names = check.split(
        AclOperation.DELETE,
        _TOPIC,
        request.topic_names,
        lambda name: None if name in wrong else name,
    )
    times = Counter((topic.name, topic.topic_id) for topic in request.topics)

    def name_of(topic: DeleteTopicsRequest.Topic) -> str | None:
        if times[topic.name, topic.topic_id] > 1:
            return None
        if topic.name is None:
            return _find_name(check, topic.topic_id)
        return topic.name if topic.topic_id == ZERO_UUID else None

    topics, failed_topics = check.split(AclOperation.DELETE, _TOPIC, request.topics, name_of)
    failed = [_not_deleted(check, name, ZERO_UUID) for name in failed_names]
    failed += [_not_deleted(check, topic.name, topic.topic_id) for topic in failed_topics]
    return Narrowed(
        replace(request, topic_names=names, topics=topics),
        lambda response: replace(response, responses=[*response.responses, *failed]),
    )


def _not_deleted(check: Checks, name: str | None, topic_id: UUID) -> DeleteTopicsResponse.Topic:
    """By name, a topic that does not exist is unknown only to those who may describe it."""
    snapshot, code = check.broker.metadata.snapshot, _FAILED
    shown = snapshot.topic_names[topic_id] if name is None else name
    visible = check.may(AclOperation.DESCRIBE, _TOPIC, shown, quiet=True)
    if visible and shown not in snapshot.topics:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DeleteTopicsResponse.Topic(
        name=name if name is not None or not visible else shown,
        topic_id=topic_id,
        error_code=code,
        error_message=code.message,
    )


def create_partitions(check: Checks, request: CreatePartitionsRequest) -> object:
    wrong = _repeated(topic.name for topic in request.topics)
    allowed, refused = check.split(
        AclOperation.ALTER,
        _TOPIC,
        request.topics,
        lambda topic: None if topic.name in wrong else topic.name,
    )
    failed = [
        CreatePartitionsResponse.Topic(name=topic.name, error_code=_FAILED) for topic in refused
    ]
    return Narrowed(
        replace(request, topics=allowed),
        lambda response: replace(response, results=[*response.results, *failed]),
    )
