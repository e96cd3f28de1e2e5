"""Creates, grows and deletes topics."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from embedkafka.broker.api_table import Api, Need, PartitionChange, by_handler
from embedkafka.broker.dispatch import LATER
from embedkafka.broker.metadata_cache import MetadataSnapshot
from embedkafka.broker.settings.view import topic_entries
from embedkafka.broker.topics.admin import NewTopic
from embedkafka.broker.topics.delayed import DelayedTopics
from embedkafka.broker.topics.rules import DEFAULT, check_request_size, is_valid_topic_name
from embedkafka.runtime.topic_names import CLUSTER_METADATA_TOPIC
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.message import replace
from embedkafka.wire.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from embedkafka.zk.store import WatchEvent

if TYPE_CHECKING:
    from embedkafka.broker.authorization.checks import Checks
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

_FIRST_WITH_DISABLED = 3
_DELETE_BY_ID = 6


def create_topics(
    broker: "BrokerParts", request: CreateTopicsRequest, context: "RequestContext"
) -> object:
    """Creates topics and answers when they have leaders.

    Behaviour: each topic succeeds or fails alone, except that a request for more than 10,000
    partitions creates none. A topic without leaders within `timeout_ms` answers REQUEST_TIMED_OUT,
    although its creation continues; without any time, it is not even created.
    """
    if request.timeout_ms <= 0:
        return CreateTopicsResponse(
            topics=[
                _timed_out_topic(name)
                for name in dict.fromkeys(topic.name for topic in request.topics)
            ]
        )
    results: dict[str, CreateTopicsResponse.Topic] = {}
    waits_for: dict[str, int] = {}
    repeated = {name for name, n in Counter(t.name for t in request.topics).items() if n > 1}
    excess = _excess(broker, [topic for topic in request.topics if topic.name not in repeated])
    for topic in sorted(request.topics, key=lambda topic: topic.name in repeated):
        try:
            if topic.name in repeated:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if topic.name == CLUSTER_METADATA_TOPIC:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"Creation of internal topic {topic.name} is prohibited.",
                )
            if excess is not None:
                raise excess
            planned = _plan(broker, topic)
            if not request.validate_only:
                broker.topics.create(planned)
                waits_for[topic.name] = len(planned.assignment)
            results[topic.name] = _created(broker, planned, context)
        except ApiError as error:
            results[topic.name] = CreateTopicsResponse.Topic(
                name=topic.name, error_code=error.code, error_message=error.message or None
            )

    @context.answering
    def reply(late: frozenset[str]) -> None:
        timed_out = {name: _timed_out_topic(name) for name in late}
        context.reply(CreateTopicsResponse(topics=list((results | timed_out).values())))

    def is_done(snapshot: MetadataSnapshot, name: str) -> bool:
        return snapshot.has_leaders(name, waits_for[name])

    _wait(broker, waits_for, request.timeout_ms, "its leaders", is_done, reply)
    return LATER


def _excess(broker: "BrokerParts", topics: Sequence[CreateTopicsRequest.Topic]) -> ApiError | None:
    """Why the whole request is refused, regardless of its single topics."""
    default = broker.config.broker.integer("num.partitions")

    def size(topic: CreateTopicsRequest.Topic) -> tuple[int, int]:
        count = default if topic.num_partitions == DEFAULT else topic.num_partitions
        return len(topic.assignments) or count, len(topic.configs)

    try:
        check_request_size(map(size, topics))
    except ApiError as error:
        return error
    return None


def _plan(broker: "BrokerParts", topic: CreateTopicsRequest.Topic) -> NewTopic:
    return broker.topics.plan_topic(
        topic.name,
        partitions=topic.num_partitions,
        replication=topic.replication_factor,
        assignment=[(a.partition_index, a.broker_ids) for a in topic.assignments],
        config={config.name: config.value for config in topic.configs},
        broker_config=broker.config.broker,
    )


def _created(
    broker: "BrokerParts", topic: NewTopic, context: "RequestContext"
) -> CreateTopicsResponse.Topic:
    """Shows settings only to those who may describe them."""
    describe = AclOperation.DESCRIBE_CONFIGS
    if not context.may(describe, ResourceType.TOPIC, topic.name, quiet=True):
        return CreateTopicsResponse.Topic(
            name=topic.name,
            topic_id=topic.topic_id,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    return CreateTopicsResponse.Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        num_partitions=len(topic.assignment),
        replication_factor=topic.replication_factor,
        configs=[
            CreateTopicsResponse.Topic.Config(
                name=entry.name,
                value=topic.config.get(entry.name, entry.value),  # as the client wrote it
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in topic_entries(topic.config, broker.config)
        ],
    )


def _timed_out_topic(name: str) -> CreateTopicsResponse.Topic:
    return CreateTopicsResponse.Topic(name=name, error_code=ErrorCode.REQUEST_TIMED_OUT)


def create_partitions(
    broker: "BrokerParts", request: CreatePartitionsRequest, context: "RequestContext"
) -> object:
    """Adds partitions, up to 10,000 per request, and answers when they have leaders."""
    if request.timeout_ms <= 0:
        late = ErrorCode.REQUEST_TIMED_OUT
        names = dict.fromkeys(topic.name for topic in request.topics)
        return CreatePartitionsResponse(
            results=[CreatePartitionsResponse.Topic(name=name, error_code=late) for name in names]
        )
    errors: dict[str, tuple[ErrorCode, str | None]] = {}
    waits_for: dict[str, int] = {}
    added = 0
    repeated = {name for name, n in Counter(t.name for t in request.topics).items() if n > 1}
    for topic in request.topics:
        try:
            if topic.name in repeated:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            assignments = topic.assignments
            planned = broker.topics.plan_partitions(
                topic.name,
                count=topic.count,
                assignments=None
                if assignments is None
                else [assignment.broker_ids for assignment in assignments],
                before=added,
            )
            added += planned.added
            if not request.validate_only:
                broker.topics.create_partitions(planned.topic)
                waits_for[topic.name] = topic.count
            errors[topic.name] = (ErrorCode.NONE, None)
        except ApiError as error:
            missing = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            errors[topic.name] = (error.code, None if missing else error.message)

    @context.answering
    def reply(late: frozenset[str]) -> None:
        timed_out = dict.fromkeys(late, (ErrorCode.REQUEST_TIMED_OUT, None))
        context.reply(
            CreatePartitionsResponse(
                results=[
                    CreatePartitionsResponse.Topic(
                        name=name, error_code=code, error_message=message
                    )
                    for name, (code, message) in (errors | timed_out).items()
                ]
            )
        )

    def is_done(snapshot: MetadataSnapshot, name: str) -> bool:
        return snapshot.has_leaders(name, waits_for[name])

    _wait(broker, waits_for, request.timeout_ms, "its leaders", is_done, reply)
    return LATER


def delete_topics(
    broker: "BrokerParts", request: DeleteTopicsRequest, context: "RequestContext"
) -> object:
    """Deletes topics and answers when their names are free again.

    Behaviour: a dead broker drops its replicas when it returns; as on KRaft, the name is free
    before that.
    Versions:  v3 has an error for disabled deletion; v6 by name or id, not both.
    """
    by_id = context.version >= _DELETE_BY_ID
    asked = (
        request.topics
        if by_id
        else [
            DeleteTopicsRequest.Topic(name=name, topic_id=ZERO_UUID) for name in request.topic_names
        ]
    )
    checked = list(_deletable(asked, broker.metadata.snapshot))
    if request.timeout_ms <= 0 and any(refusal is None for _, refusal in checked):
        return DeleteTopicsResponse(responses=[_timed_out_deletion(topic) for topic in asked])
    results: list[DeleteTopicsResponse.Topic] = []
    doomed: dict[str, int] = {}
    deletions = _Deletions(broker)
    for topic, refusal in checked:
        result = (
            _delete(broker, topic, deletions, context.version)
            if refusal is None
            else _not_deleted(topic, ApiError(ErrorCode.INVALID_REQUEST, refusal))
        )
        results.append(result)
        if result.error_code == ErrorCode.NONE and result.name is not None:
            doomed[result.name] = len(results) - 1

    @context.answering
    def reply(late: frozenset[str]) -> None:
        for name in late:
            results[doomed[name]] = DeleteTopicsResponse.Topic(
                name=name, error_code=ErrorCode.REQUEST_TIMED_OUT
            )
        context.reply(DeleteTopicsResponse(responses=results))

    _wait(broker, doomed, request.timeout_ms, "its deletion", deletions.is_done, reply)
    return LATER


def _timed_out_deletion(topic: DeleteTopicsRequest.Topic) -> DeleteTopicsResponse.Topic:
    return DeleteTopicsResponse.Topic(
        name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.REQUEST_TIMED_OUT
    )


def _deletable(
    asked: Sequence[DeleteTopicsRequest.Topic], snapshot: MetadataSnapshot
) -> Iterator[tuple[DeleteTopicsRequest.Topic, str | None]]:
    """Every topic once, with the reason to refuse it if there is one."""
    times = Counter((topic.name, topic.topic_id) for topic in asked)
    named = {snapshot.topic_ids.get(topic.name): topic for topic in asked if topic.name is not None}
    by_id = {topic.topic_id for topic in asked if topic.name is None}
    for topic in asked:
        name, topic_id = topic.name, topic.topic_id
        if name is not None and topic_id != ZERO_UUID:
            yield topic, "You may not specify both topic name and topic id."
        elif name is None and topic_id == ZERO_UUID:
            yield topic, "Neither topic name nor id were specified."
        elif (count := times.pop((name, topic_id), 0)) > 1:
            yield topic, f"Duplicate topic {'id' if name is None else 'name'}."
        elif name is not None and snapshot.topic_ids.get(name) in by_id:
            found = replace(topic, topic_id=snapshot.topic_ids[name])
            yield found, "The provided topic name maps to an ID that was already supplied."
        elif count and topic_id not in named:
            yield topic, None


class _Deletions:
    """Follows topics to the end of their deletion, which reaches the store last."""

    def __init__(self, broker: "BrokerParts") -> None:
        self._broker = broker
        self._unfinished: set[str] = set()

    def begin(self, topic: str) -> None:
        """Requests the deletion; raises ApiError if there is no such topic."""
        self._broker.topics.delete(topic)
        self._unfinished.add(topic)
        self._watch(topic)

    def is_done(self, snapshot: MetadataSnapshot, topic: str) -> bool:
        return topic not in self._unfinished and topic not in snapshot.topics

    def _watch(self, topic: str) -> None:
        def on_change(event: WatchEvent) -> None:
            self._watch(topic)
            self._broker.topic_purgatory.check_and_complete(topic)

        if topic in self._unfinished and not self._broker.zk.watch_topic_deletion(topic, on_change):
            self._unfinished.discard(topic)


def _delete(
    broker: "BrokerParts", topic: DeleteTopicsRequest.Topic, deletions: _Deletions, version: int
) -> DeleteTopicsResponse.Topic:
    snapshot = broker.metadata.snapshot
    name, topic_id = topic.name, topic.topic_id
    try:
        if name is None:
            name = snapshot.topic_names.get(topic_id)
            if name is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "")
        topic_id = snapshot.topic_ids.get(name, topic_id)
        if not broker.config.broker.flag("delete.topic.enable"):
            known = version >= _FIRST_WITH_DISABLED
            code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
            raise ApiError(code, "Topic deletion is disabled.")
        deletions.begin(name)
    except ApiError as error:
        return _not_deleted(topic, error)
    return DeleteTopicsResponse.Topic(name=name, topic_id=topic_id)


def _not_deleted(topic: DeleteTopicsRequest.Topic, error: ApiError) -> DeleteTopicsResponse.Topic:
    return DeleteTopicsResponse.Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=error.code,
        error_message=error.message or error.code.message,
    )


def _wait(
    broker: "BrokerParts",
    topics: Mapping[str, int],
    timeout_ms: int,
    what: str,
    is_done: Callable[[MetadataSnapshot, str], bool],
    reply: Callable[[frozenset[str]], None],
) -> None:
    """Replies at once if there is nothing to wait for, else when all is done or time is up."""
    if not topics:
        reply(frozenset())
        return
    operation = DelayedTopics(
        timeout_ms=timeout_ms,
        topics=tuple(topics),
        metadata=broker.metadata,
        what=what,
        is_done=is_done,
        reply=reply,
    )
    broker.topic_purgatory.try_complete_else_watch(operation, tuple(topics))


def _is_no_metadata_log(check: "Checks", topic: CreateTopicsRequest.Topic) -> bool:
    return topic.name != CLUSTER_METADATA_TOPIC


def _deletion_refused(check: "Checks", request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """By name, a topic that does not exist is unknown only to those who may describe it."""
    from embedkafka.wire.protocol.refusals import refusal  # only with an authorizer

    code, snapshot = ErrorCode.TOPIC_AUTHORIZATION_FAILED, check.broker.metadata.snapshot
    response: DeleteTopicsResponse = refusal(request, code, check.context.version, code.message)

    def shown(topic: DeleteTopicsResponse.Topic) -> DeleteTopicsResponse.Topic:
        name = snapshot.topic_names[topic.topic_id] if topic.name is None else topic.name
        if not check.may_describe(ResourceType.TOPIC, name):
            return topic
        if name in snapshot.topics:
            return replace(topic, name=name)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return replace(topic, name=name, error_code=unknown, error_message=unknown.message)

    return replace(response, responses=list(map(shown, response.responses)))


def _created_partitions(broker: "BrokerParts", topic: CreateTopicsRequest.Topic) -> int:
    if topic.name in broker.metadata.snapshot.topics or not is_valid_topic_name(topic.name):
        return 0
    if not topic.assignments and topic.num_partitions == DEFAULT:
        return broker.config.broker.integer("num.partitions")
    return len(topic.assignments) or max(0, topic.num_partitions)


def _added_partitions(broker: "BrokerParts", topic: CreatePartitionsRequest.Topic) -> int:
    known = broker.metadata.snapshot.topics.get(topic.name)
    return 0 if known is None else max(0, topic.count - len(known))


def _deleted_partitions(broker: "BrokerParts", topic: DeleteTopicsRequest.Topic | str) -> int:
    snapshot = broker.metadata.snapshot
    name = topic if isinstance(topic, str) else topic.name
    if name is None:
        assert not isinstance(topic, str)
        name = snapshot.topic_names.get(topic.topic_id, "")
    return len(snapshot.topics.get(name, ()))


APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.CREATE_TOPICS: Api(
        create_topics,
        [
            Need(
                AclOperation.CREATE,
                ResourceType.TOPIC,
                "or the other one",
                on_cluster=AclOperation.CREATE,
                when=_is_no_metadata_log,
                says="Authorization failed.",
            ),
            by_handler(
                AclOperation.DESCRIBE_CONFIGS,
                ResourceType.TOPIC,
                "to see the settings in the answer",
            ),
        ],
        merges=True,
        quota=PartitionChange(6, _created_partitions),
    ),
    ApiKey.DELETE_TOPICS: Api(
        delete_topics,
        [
            Need(
                AclOperation.DELETE,
                ResourceType.TOPIC,
                "or the other one",
                on_cluster=AclOperation.DELETE,
            ),
            by_handler(
                AclOperation.DESCRIBE,
                ResourceType.TOPIC,
                "to learn that a topic does not exist, or its name",
            ),
        ],
        refuse=_deletion_refused,
        quota=PartitionChange(5, _deleted_partitions),
    ),
    ApiKey.CREATE_PARTITIONS: Api(
        create_partitions,
        [Need(AclOperation.ALTER, ResourceType.TOPIC)],
        merges=True,
        quota=PartitionChange(3, _added_partitions),
    ),
}
