"""A client's first questions: API versions, brokers, topics and leaders."""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from embedkafka.broker.api_table import SERVED, Api, by_handler
from embedkafka.broker.apis.features import FEATURES
from embedkafka.broker.dispatch import LATER
from embedkafka.broker.metadata_cache import MetadataSnapshot, PartitionInfo
from embedkafka.broker.missing_topics import auto_create_topics
from embedkafka.broker.topics.rules import is_valid_topic_name
from embedkafka.runtime.ids import NO_LEADER
from embedkafka.runtime.topic_names import INTERNAL_TOPICS
from embedkafka.security.acl.operations import (
    CLUSTER_NAME,
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    AclOperation,
    ResourceType,
)
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.client_software import (
    UNKNOWN_SOFTWARE,
    ClientSoftware,
    has_valid_software,
)
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import replace
from embedkafka.wire.protocol.messages.core import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from embedkafka.wire.protocol.wire_types import OPERATIONS_OMITTED, ZERO_UUID

if TYPE_CHECKING:
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

_FIRST_WITH_NULL_FOR_ALL = 1
_FIRST_BY_TOPIC_ID = 12
_FIRST_WITH_LISTENER_ERRORS = 6
_FIRST_WITH_LEVEL_0 = 4


def api_versions(
    broker: "BrokerParts", request: ApiVersionsRequest, context: "RequestContext"
) -> ApiVersionsResponse:
    """The APIs that clients may use, from the handler table, and the cluster's features.

    Versions: v3 refuses a client whose name or version is not a plain word (INVALID_REQUEST), and
    has features, but only v4 can carry those whose lowest level is 0.
    """
    named = (request.client_software_name, request.client_software_version)
    if not has_valid_software(context.version, *named):
        return _api_versions(ErrorCode.INVALID_REQUEST)
    context.software = ClientSoftware(*named) if all(named) else UNKNOWN_SOFTWARE
    return replace(
        _api_versions(ErrorCode.NONE, at_controller=context.is_control_plane),
        supported_features=[
            ApiVersionsResponse.SupportedFeature(
                name=name, min_version=feature.lowest, max_version=feature.highest
            )
            for name, feature in FEATURES.items()
            if feature.lowest > 0 or context.version >= _FIRST_WITH_LEVEL_0
        ],
        finalized_features=[
            ApiVersionsResponse.FinalizedFeature(
                name=name, min_version_level=feature.level, max_version_level=feature.level
            )
            for name, feature in FEATURES.items()
            if feature.level > 0
        ],
        finalized_features_epoch=broker.registration.features_epoch,
    )


def _api_versions(error: ErrorCode, *, at_controller: bool = False) -> ApiVersionsResponse:
    rows = [] if error else sorted(SERVED.items())
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=key, min_version=api.versions[0], max_version=api.versions[1]
            )
            for key, api in rows
            if api.is_served(control_plane=at_controller)
        ],
    )


def metadata(broker: "BrokerParts", request: MetadataRequest, context: "RequestContext") -> object:
    """Brokers, controller, and the requested topics.

    Behaviour: a missing topic is created if request and broker allow it; this answer still says
    UNKNOWN_TOPIC_OR_PARTITION, and the client asks again. A broker that has just started answers
    after the controller's first full update: from a list without brokers librdkafka would conclude
    that there are none, and never ask again.
    Versions:  v0 an empty list means all topics; v12 topics by id.
    """
    refusal = _refused_metadata(request, context.version)
    if refusal is not None:
        return refusal
    return once_informed(broker, context, lambda: _metadata(broker, request, context))


def _refused_metadata(request: MetadataRequest, version: int) -> MetadataResponse | None:
    """Before v12 a topic has a name, no id; since then, one or the other."""
    topics = request.topics or ()
    if version < _FIRST_BY_TOPIC_ID:
        bad = any(topic.name is None or topic.topic_id != ZERO_UUID for topic in topics)
        error = ErrorCode.INVALID_REQUEST
    else:
        bad = any(topic.name is None and topic.topic_id == ZERO_UUID for topic in topics)
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    if not bad:
        return None
    return MetadataResponse(
        error_code=error,
        brokers=[],
        cluster_id=None,
        controller_id=NO_LEADER,
        topics=[
            MetadataResponse.Topic(
                error_code=error,
                name=topic.name or "",
                topic_id=topic.topic_id,
                is_internal=False,
                partitions=[],
            )
            for topic in topics
        ],
    )


def once_informed(
    broker: "BrokerParts", context: "RequestContext", answer: Callable[[], object]
) -> object:
    """Answers after the controller's first full update.

    Before that, a broker that has just started would call every topic unknown, and librdkafka's
    producer gives up on a topic that it has seen before.
    """
    if broker.metadata.snapshot.is_informed:
        return answer()

    @context.answering
    def reply() -> None:
        context.reply(answer())

    broker.metadata.once_informed(reply)
    return LATER


def _metadata(
    broker: "BrokerParts", request: MetadataRequest, context: "RequestContext"
) -> MetadataResponse:
    snapshot = broker.metadata.snapshot
    wants_all = request.topics is None or (
        not request.topics and context.version < _FIRST_WITH_NULL_FOR_ALL
    )
    describe = _TopicDescriber(broker, snapshot, request, context)
    if wants_all:
        topics = [
            describe.known(name)
            for name in sorted(snapshot.topics)
            if context.may_describe(ResourceType.TOPIC, name)
        ]
    else:
        by_id = any(topic.topic_id != ZERO_UUID for topic in request.topics or ())
        asked = {
            topic.topic_id if by_id else topic.name: topic
            for topic in request.topics or ()
            if not by_id or topic.topic_id != ZERO_UUID
        }
        topics = list(filter(None, map(describe.requested, asked.values())))
        topics += [*describe.not_created, *describe.hidden]
        auto_create_topics(broker, describe.missing, context.client_id)
    return MetadataResponse(
        brokers=[
            MetadataResponse.Broker(
                node_id=node.id,
                host=node.endpoints[context.listener].host,
                port=node.endpoints[context.listener].port,
                rack=node.rack,
            )
            for node in snapshot.brokers.values()
            if context.listener in node.endpoints
        ],
        cluster_id=broker.registration.cluster_id,
        controller_id=snapshot.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations(context)
        if request.include_cluster_authorized_operations
        else OPERATIONS_OMITTED,
    )


def cluster_operations(context: "RequestContext") -> int:
    """What the client may do to the cluster; nothing if it may not describe it."""
    if context.checks is None:
        return CLUSTER_OPERATIONS
    may_describe = context.may_cluster(AclOperation.DESCRIBE)
    return context.checks.operations(ResourceType.CLUSTER, CLUSTER_NAME) if may_describe else 0


def _topic_operations(context: "RequestContext", name: str) -> int:
    if context.checks is None:
        return TOPIC_OPERATIONS
    return context.checks.operations(ResourceType.TOPIC, name)


class _TopicDescriber:
    """Builds the topics of one Metadata answer, and collects those to create."""

    def __init__(
        self,
        broker: "BrokerParts",
        snapshot: MetadataSnapshot,
        request: MetadataRequest,
        context: "RequestContext",
    ) -> None:
        self.missing: list[str] = []
        self.not_created: list[MetadataResponse.Topic] = []
        """Those that the client may not create."""
        self.hidden: list[MetadataResponse.Topic] = []
        """Those that the client may not see."""
        self._snapshot = snapshot
        self._context = context
        self._may_create = request.allow_auto_topic_creation and broker.config.broker.flag(
            "auto.create.topics.enable"
        )
        self._shows_operations = request.include_topic_authorized_operations

    def requested(self, topic: MetadataRequest.Topic) -> MetadataResponse.Topic | None:
        """The topic, unless it is one of those that the client may not see or create."""
        if topic.name is None or topic.topic_id != ZERO_UUID:
            return self._by_id(topic.topic_id)
        if not self._context.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name):
            self.hidden.append(_forbidden(name=topic.name))
            return None
        if topic.name in self._snapshot.topics:
            return self.known(topic.name)
        if self._may_create and not self._is_permitted_to_create(topic.name):
            self.not_created.append(_forbidden(name=topic.name))
            return None
        if not is_valid_topic_name(topic.name):
            return self._failed(ErrorCode.INVALID_TOPIC_EXCEPTION, topic.name)
        if self._may_create:
            self.missing.append(topic.name)
        return self._failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic.name)

    def known(self, name: str) -> MetadataResponse.Topic:
        return MetadataResponse.Topic(
            name=name,
            topic_id=self._snapshot.topic_ids.get(name, ZERO_UUID),
            is_internal=name in INTERNAL_TOPICS,
            partitions=[
                self._partition(index, info)
                for index, info in sorted(self._snapshot.topics[name].items())
            ],
            topic_authorized_operations=self._operations(name),
        )

    def _is_permitted_to_create(self, name: str) -> bool:
        create = AclOperation.CREATE
        may_cluster = self._context.may_cluster(create, quiet=True)
        return may_cluster or self._context.may(create, ResourceType.TOPIC, name)

    def _operations(self, name: str) -> int:
        return (
            _topic_operations(self._context, name) if self._shows_operations else OPERATIONS_OMITTED
        )

    def _by_id(self, topic_id: uuid.UUID) -> MetadataResponse.Topic | None:
        name = self._snapshot.topic_names.get(topic_id)
        if name is None:
            return self._failed(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
        if not self._context.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            self.hidden.append(_forbidden(topic_id=topic_id))
            return None
        return self.known(name)

    def _failed(
        self, error: ErrorCode, name: str | None, topic_id: uuid.UUID = ZERO_UUID
    ) -> MetadataResponse.Topic:
        return MetadataResponse.Topic(
            error_code=error,
            name=name,
            topic_id=topic_id,
            is_internal=name in INTERNAL_TOPICS,
            partitions=[],
            topic_authorized_operations=OPERATIONS_OMITTED
            if name is None
            else self._operations(name),
        )

    def _partition(self, index: int, info: PartitionInfo) -> MetadataResponse.Topic.Partition:
        error, leader = self._leader(info)
        return MetadataResponse.Topic.Partition(
            error_code=error,
            partition_index=index,
            leader_id=leader,
            leader_epoch=info.leader_epoch,
            replica_nodes=info.replicas,
            isr_nodes=info.isr,
            offline_replicas=offline_replicas(self._snapshot, info),
        )

    def _leader(self, info: PartitionInfo) -> tuple[ErrorCode, int]:
        broker = self._snapshot.brokers.get(info.leader)
        if broker is None:
            return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
        if self._context.listener not in broker.endpoints:
            knows_listeners = self._context.version >= _FIRST_WITH_LISTENER_ERRORS
            return (
                ErrorCode.LISTENER_NOT_FOUND if knows_listeners else ErrorCode.LEADER_NOT_AVAILABLE
            ), NO_LEADER
        return ErrorCode.NONE, info.leader


def _forbidden(
    *, name: str | None = None, topic_id: uuid.UUID = ZERO_UUID
) -> MetadataResponse.Topic:
    """What the client may not see: of a name no id, of an id no name."""
    return MetadataResponse.Topic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic_id, partitions=[]
    )


def offline_replicas(snapshot: MetadataSnapshot, info: PartitionInfo) -> Sequence[int]:
    """Replicas on dead brokers or failed disks."""
    return [
        replica
        for replica in info.replicas
        if replica not in snapshot.brokers or replica in info.offline_replicas
    ]


def describe_topic_partitions(
    broker: "BrokerParts", request: DescribeTopicPartitionsRequest, context: "RequestContext"
) -> object:
    """Partitions of topics, one page at a time, in order of topic names.

    Behaviour: a page holds at most `response_partition_limit` partitions, and never more than
    `max.request.partition.size.limit`; no topics in the request means all of them.
    """
    return once_informed(broker, context, lambda: _topic_partitions(broker, request, context))


def _topic_partitions(
    broker: "BrokerParts", request: DescribeTopicPartitionsRequest, context: "RequestContext"
) -> DescribeTopicPartitionsResponse:
    snapshot = broker.metadata.snapshot
    limit = broker.config.broker.integer("max.request.partition.size.limit")
    page = _Page(snapshot, max(1, min(limit, request.response_partition_limit)), context)
    cursor = request.cursor
    named = dict.fromkeys(topic.name for topic in request.topics)
    if "" in named:
        return _refused_pages(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    if _is_elsewhere(request):
        return _refused_pages(request, ErrorCode.INVALID_REQUEST)
    hidden = [
        name for name in named if not context.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
    ]
    asked = named.keys() - hidden
    if not named:
        asked = {one for one in snapshot.topics if context.may_describe(ResourceType.TOPIC, one)}
    if cursor is not None:
        asked = {name for name in asked if name >= cursor.topic_name}
    for name in sorted(asked):
        first = cursor.partition_index if cursor and cursor.topic_name == name else 0
        if not page.add(name, first, skip_missing=not request.topics):
            break
    failed = [
        DescribeTopicPartitionsResponse.Topic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            name=name,
            topic_id=ZERO_UUID,
            partitions=[],
        )
        for name in hidden
    ]
    return DescribeTopicPartitionsResponse(
        topics=[*page.topics, *failed], next_cursor=page.next_cursor
    )


def _is_elsewhere(request: DescribeTopicPartitionsRequest) -> bool:
    """Whether the cursor is at a partition or a topic where no page of this request begins."""
    cursor, named = request.cursor, {topic.name for topic in request.topics}
    return cursor is not None and (
        cursor.partition_index < 0 or bool(named and cursor.topic_name not in named)
    )


def _refused_pages(
    request: DescribeTopicPartitionsRequest, error: ErrorCode
) -> DescribeTopicPartitionsResponse:
    """Answers a nameless topic, and a cursor with a negative partition or an unrequested topic."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponse.Topic(
                error_code=error,
                name=topic.name,
                topic_id=ZERO_UUID,
                is_internal=False,
                partitions=[],
            )
            for topic in request.topics
        ]
    )


class _Page:
    """Fills one answer of DescribeTopicPartitions."""

    def __init__(self, snapshot: MetadataSnapshot, room: int, context: "RequestContext") -> None:
        self.topics: list[DescribeTopicPartitionsResponse.Topic] = []
        self.next_cursor: DescribeTopicPartitionsResponse.Cursor | None = None
        self._snapshot = snapshot
        self._room = room
        self._context = context

    def add(self, name: str, first: int, *, skip_missing: bool) -> bool:
        """Adds the partitions of one topic that fit; False when the page is full."""
        partitions = self._snapshot.topics.get(name)
        if self._room == 0 and not (partitions is None and skip_missing):
            self._stop_at(name, first)
            return False
        if partitions is None:
            if not skip_missing:
                self.topics.append(self._missing(name))
            return True
        ahead = [(index, info) for index, info in sorted(partitions.items()) if index >= first]
        self.topics.append(self._topic(name, islice(ahead, self._room)))
        if len(ahead) > self._room:
            self._stop_at(name, ahead[self._room][0])
            return False
        self._room -= len(ahead)
        return True

    def _stop_at(self, name: str, partition: int) -> None:
        self.next_cursor = DescribeTopicPartitionsResponse.Cursor(
            topic_name=name, partition_index=partition
        )

    def _missing(self, name: str) -> DescribeTopicPartitionsResponse.Topic:
        valid = is_valid_topic_name(name)
        return DescribeTopicPartitionsResponse.Topic(
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if valid
            else ErrorCode.INVALID_TOPIC_EXCEPTION,
            name=name,
            topic_id=ZERO_UUID,
            is_internal=name in INTERNAL_TOPICS,
            partitions=[],
            topic_authorized_operations=_topic_operations(self._context, name),
        )

    def _topic(
        self, name: str, partitions: Iterable[tuple[int, PartitionInfo]]
    ) -> DescribeTopicPartitionsResponse.Topic:
        return DescribeTopicPartitionsResponse.Topic(
            name=name,
            topic_id=self._snapshot.topic_ids.get(name, ZERO_UUID),
            is_internal=name in INTERNAL_TOPICS,
            partitions=[self._partition(index, info) for index, info in partitions],
            topic_authorized_operations=_topic_operations(self._context, name),
        )

    def _partition(
        self, index: int, info: PartitionInfo
    ) -> DescribeTopicPartitionsResponse.Topic.Partition:
        led = info.leader in self._snapshot.brokers
        return DescribeTopicPartitionsResponse.Topic.Partition(
            error_code=ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=info.leader if led else NO_LEADER,
            leader_epoch=info.leader_epoch,
            replica_nodes=info.replicas,
            isr_nodes=info.isr,
            # The Java client reads these without a null check.
            eligible_leader_replicas=(),
            last_known_elr=(),
            offline_replicas=offline_replicas(self._snapshot, info),
        )


FOR_OPERATIONS: Final = by_handler(
    AclOperation.DESCRIBE,
    ResourceType.CLUSTER,
    "for the authorized operations of the cluster",
)
_VISIBLE: Final = by_handler(
    AclOperation.DESCRIBE, ResourceType.TOPIC, "a list of all topics has the visible ones"
)

APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.API_VERSIONS: Api(api_versions),
    ApiKey.METADATA: Api(
        metadata,
        [
            _VISIBLE,
            by_handler(
                AclOperation.CREATE,
                ResourceType.CLUSTER,
                "or CREATE of the topic, to create a missing one",
            ),
            by_handler(AclOperation.CREATE, ResourceType.TOPIC, "as above"),
            FOR_OPERATIONS,
        ],
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Api(describe_topic_partitions, [_VISIBLE]),
}
