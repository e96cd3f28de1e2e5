"""Consumer groups: finding the coordinator, membership, committed offsets.

The coordinator (`groups.service`) works with topic names and has no metadata. These handlers
translate topic ids and answer for topics that do not exist.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from embedkafka.broker import zookeeper_offsets
from embedkafka.broker.api_table import MEANING, Api, Need, by_handler
from embedkafka.broker.coordinator.groups.calls import (
    HeartbeatCall,
    JoinCall,
    JoinReply,
    LeaveCall,
    SyncCall,
)
from embedkafka.broker.coordinator.groups.consumer.describe import describe_consumer_error
from embedkafka.broker.coordinator.groups.consumer.heartbeat import (
    ConsumerHeartbeatCall,
    heartbeat_error,
)
from embedkafka.broker.coordinator.groups.offsets.messages import commit_response
from embedkafka.broker.dispatch import LATER
from embedkafka.broker.metadata_cache import MetadataSnapshot
from embedkafka.broker.missing_topics import create_internal_topic
from embedkafka.broker.topics.delayed import DelayedTopics
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from embedkafka.security.acl.operations import GROUP_OPERATIONS, AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import replace
from embedkafka.wire.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
)
from embedkafka.wire.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
)
from embedkafka.wire.protocol.wire_types import ZERO_UUID

if TYPE_CHECKING:
    from embedkafka.broker.authorization.checks import Checks
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_IN_ZOOKEEPER = 0
_FIRST_BATCHED = 4
_FIRST_WITH_NULL_PROTOCOL = 7
_FIRST_BY_TOPIC_ID = 10
_CREATION_WAIT_MS = 2_000


def find_coordinator(
    broker: "BrokerParts", request: FindCoordinatorRequest, context: "RequestContext"
) -> object:
    """The broker that leads the key's partition of the internal topic.

    Behaviour: the first request creates the internal topic and waits for its leaders. Kafka answers
    COORDINATOR_NOT_AVAILABLE and lets the client retry; waiting serves the client sooner.
    Versions:  v4 several keys at once.
    Left out:  share groups answer INVALID_REQUEST.
    """
    topic = {_GROUP: GROUP_METADATA_TOPIC, _TRANSACTION: TRANSACTION_STATE_TOPIC}.get(
        request.key_type
    )

    @context.answering
    def reply(late: frozenset[str]) -> None:
        context.reply(_coordinators(broker, request, context, topic))

    if topic is None or topic in broker.metadata.snapshot.topics:
        reply(frozenset())
        return LATER
    create_internal_topic(broker, topic)
    broker.topic_purgatory.try_complete_else_watch(
        DelayedTopics(
            timeout_ms=_CREATION_WAIT_MS,
            topics=(topic,),
            metadata=broker.metadata,
            what="its leaders",
            is_done=lambda snapshot, topic: snapshot.has_leaders(topic, 1),
            reply=reply,
        ),
        (topic,),
    )
    return LATER


def _coordinators(
    broker: "BrokerParts",
    request: FindCoordinatorRequest,
    context: "RequestContext",
    topic: str | None,
) -> FindCoordinatorResponse:
    if context.version >= _FIRST_BATCHED:
        return FindCoordinatorResponse(
            coordinators=[
                _coordinator(broker, key, request.key_type, topic, context.listener)
                for key in request.coordinator_keys
            ]
        )
    found = _coordinator(broker, request.key, request.key_type, topic, context.listener)
    error = ErrorCode(found.error_code)
    return FindCoordinatorResponse(
        error_code=error,
        error_message=error.message if error else "NONE",  # Kafka's words for success, until v3
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _coordinator(
    broker: "BrokerParts", key: str, kind: int, topic: str | None, listener: str
) -> FindCoordinatorResponse.Coordinator:
    def failed(error: ErrorCode, message: str) -> FindCoordinatorResponse.Coordinator:
        return FindCoordinatorResponse.Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message
        )

    if topic is None:  # a share group, or a kind that no release knows
        invalid = ErrorCode.INVALID_REQUEST
        return failed(invalid, "" if kind == _SHARE else invalid.message)
    snapshot = broker.metadata.snapshot
    service = broker.groups if topic == GROUP_METADATA_TOPIC else broker.txns
    info = snapshot.find_partition(topic, service.coordinator.partition_for(key))
    endpoint = info and snapshot.find_endpoint(info.leader, listener)
    if info is None or not endpoint:
        unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return failed(unavailable, unavailable.message)
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=info.leader, host=endpoint.host, port=endpoint.port, error_message=""
    )


def join_group(
    broker: "BrokerParts", request: JoinGroupRequest, context: "RequestContext"
) -> object:
    """Joins or rejoins a group; answers when the rebalance has collected its members."""
    answers_null = context.version >= _FIRST_WITH_NULL_PROTOCOL
    broker.groups.submit(
        JoinCall(
            request=request,
            client_id=context.client_id,
            client_host=context.client_host,
            version=context.version,
            reply=context.reply if answers_null else partial(_without_null, context.reply),
        )
    )
    return LATER


def _without_null(reply: JoinReply, response: JoinGroupResponse) -> None:
    if response.protocol_name is None:
        response = replace(response, protocol_name="")
    reply(response)


def sync_group(
    broker: "BrokerParts", request: SyncGroupRequest, context: "RequestContext"
) -> object:
    """Takes the leader's assignment and answers every member with its part."""
    call = SyncCall(request=request, version=context.version, reply=context.reply)
    broker.groups.submit(call)
    return LATER


def heartbeat(
    broker: "BrokerParts", request: HeartbeatRequest, context: "RequestContext"
) -> object:
    """Keeps a member alive and signals rebalances."""
    broker.groups.submit(HeartbeatCall(request=request, reply=context.reply))
    return LATER


def leave_group(
    broker: "BrokerParts", request: LeaveGroupRequest, context: "RequestContext"
) -> object:
    """Removes members at once instead of after their session timeout."""
    call = LeaveCall(request=request, version=context.version, reply=context.reply)
    broker.groups.submit(call)
    return LATER


def consumer_group_heartbeat(
    broker: "BrokerParts", request: ConsumerGroupHeartbeatRequest, context: "RequestContext"
) -> object:
    """Joins, stays in or leaves a group whose coordinator assigns partitions (KIP-848)."""
    if not _has_consumer_groups(broker):
        return heartbeat_error(ErrorCode.UNSUPPORTED_VERSION)
    asks = context.checks is not None
    broker.groups.consumer_group_heartbeat(
        ConsumerHeartbeatCall(
            request=request,
            client_id=context.client_id,
            client_host=context.client_host,
            version=context.version,
            reply=context.reply,
            may_see=partial(context.may_describe, ResourceType.TOPIC) if asks else None,
        )
    )
    return LATER


def consumer_group_describe(
    broker: "BrokerParts", request: ConsumerGroupDescribeRequest, context: "RequestContext"
) -> object:
    """Epochs, members and assignments of consumer groups."""
    if not _has_consumer_groups(broker):
        return ConsumerGroupDescribeResponse(
            groups=[
                describe_consumer_error(group_id, ErrorCode.UNSUPPORTED_VERSION)
                for group_id in request.group_ids
            ]
        )

    @context.answering
    def reply(response: ConsumerGroupDescribeResponse) -> None:
        groups = [
            group if _may_see_topics(context, group) else _with_hidden_topics(group)
            for group in response.groups
        ]
        if request.include_authorized_operations:
            groups = [_with_operations(context, group) for group in groups]
        context.reply(replace(response, groups=groups))

    broker.groups.consumer_group_describe(request, reply)
    return LATER


def _may_see_topics(context: "RequestContext", group: ConsumerGroupDescribeResponse.Group) -> bool:
    if context.checks is None:
        return True
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    names.update(name for member in group.members for name in member.subscribed_topic_names)
    describe = AclOperation.DESCRIBE
    return all(context.may(describe, ResourceType.TOPIC, name) for name in sorted(names))


def _with_hidden_topics(
    group: ConsumerGroupDescribeResponse.Group,
) -> ConsumerGroupDescribeResponse.Group:
    return describe_consumer_error(
        group.group_id,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "The group has described topic(s) that the client is not authorized to describe.",
    )


def _with_operations(context: "RequestContext", group: Any) -> Any:  # Any: of either description
    if group.error_code:
        return group
    operations = GROUP_OPERATIONS
    if context.checks is not None:
        operations = context.checks.operations(ResourceType.GROUP, group.group_id)
    return replace(group, authorized_operations=operations)


def _has_consumer_groups(broker: "BrokerParts") -> bool:
    return "consumer" in broker.config.broker.items("group.coordinator.rebalance.protocols")


def offset_commit(
    broker: "BrokerParts", request: OffsetCommitRequest, context: "RequestContext"
) -> object:
    """Commits offsets of existing partitions; each other partition answers its own error.

    Versions: v0 keeps them in ZooKeeper; v10 topics by id.
    """
    snapshot = broker.metadata.snapshot
    by_id = context.version >= _FIRST_BY_TOPIC_ID
    known: list[OffsetCommitRequest.Topic] = []
    refused: list[OffsetCommitResponse.Topic] = []
    for topic in request.topics:
        name = snapshot.topic_names.get(topic.topic_id, "") if by_id else topic.name
        there = snapshot.topics.get(name, {})
        missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id and not name else _UNKNOWN
        good = [p for p in topic.partitions if p.partition_index in there]
        bad = [p for p in topic.partitions if p.partition_index not in there]
        if good:
            known.append(replace(topic, name=name, partitions=good))
        if bad or name not in snapshot.topics:
            refused.append(
                OffsetCommitResponse.Topic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponse.Topic.Partition(
                            partition_index=p.partition_index, error_code=missing
                        )
                        for p in bad
                    ],
                )
            )

    @context.answering
    def reply(response: OffsetCommitResponse) -> None:
        topics = _merged(response.topics, refused) if refused else response.topics
        context.reply(replace(response, topics=topics))

    if context.version == _IN_ZOOKEEPER:
        reply(_commit_to_zookeeper(broker, replace(request, topics=known)))
    elif known:
        broker.groups.offset_commit(replace(request, topics=known), context.version, reply)
    else:
        context.reply(OffsetCommitResponse(topics=refused))
    return LATER


_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _commit_to_zookeeper(
    broker: "BrokerParts", request: OffsetCommitRequest
) -> OffsetCommitResponse:
    errors = zookeeper_offsets.commit_offsets(
        broker.zk,
        request.group_id,
        request.topics,
        max_metadata_size=broker.config.broker.integer("offset.metadata.max.bytes"),
    )
    return commit_response(request, errors)


def _merged(
    committed: Sequence[OffsetCommitResponse.Topic], refused: list[OffsetCommitResponse.Topic]
) -> list[OffsetCommitResponse.Topic]:
    """One entry per topic, with the refused partitions first, as in Kafka."""
    merged: dict[object, OffsetCommitResponse.Topic] = {}
    for topic in (*refused, *committed):
        key = topic.name if topic.topic_id == ZERO_UUID else topic.topic_id
        if key in merged:
            partitions = [*merged[key].partitions, *topic.partitions]
            topic = replace(merged[key], partitions=partitions)
        merged[key] = topic
    return list(merged.values())


_Complete = Callable[[OffsetFetchResponse], OffsetFetchResponse]


def offset_fetch(
    broker: "BrokerParts", request: OffsetFetchRequest, context: "RequestContext"
) -> object:
    """Committed offsets, for one group or (v8) several; v0 from ZooKeeper, v10 by topic id."""
    complete: _Complete | None = None
    if context.checks is not None:
        request, complete = _visible_offsets(context.checks, request)

    @context.answering
    def reply_with(response: OffsetFetchResponse) -> None:
        context.reply(response if complete is None else complete(response))

    if context.version == _IN_ZOOKEEPER:
        reply_with(_fetch_from_zookeeper(broker, request))
        return LATER
    if context.version < _FIRST_BY_TOPIC_ID:
        broker.groups.offset_fetch(request, context.version, reply_with)
        return LATER
    snapshot = broker.metadata.snapshot
    groups = [_with_names(group, snapshot) for group in request.groups]

    @context.answering
    def reply(response: OffsetFetchResponse) -> None:
        reply_with(
            replace(response, groups=[_with_ids(group, snapshot) for group in response.groups])
        )

    broker.groups.offset_fetch(replace(request, groups=groups), context.version, reply)
    return LATER


def _visible_offsets(
    checks: "Checks", request: OffsetFetchRequest
) -> tuple[OffsetFetchRequest, _Complete]:
    """The request for topics that the client may see, and what completes its answer.

    Topics that it may not see are refused, or left out if it has asked for all.
    """
    from embedkafka.wire.protocol.refusals import refusal  # only with an authorizer

    is_for_groups = bool(request.groups)
    asked = [_visible(checks, one) for one in (request.groups or (request,))]
    failed: dict[str, Any] = {}  # Any: one group's answer, likewise below
    for one, hidden in asked:
        if hidden is not None:
            only = replace(request, groups=[hidden]) if is_for_groups else hidden
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused = refusal(only, code, checks.context.version, everywhere=True)
            failed[one.group_id] = refused.groups[0] if is_for_groups else refused

    def complete(found: Any, one: Any) -> Any:
        if found.error_code:
            return found
        topics = found.topics
        if one.topics is None:
            topics = [topic for topic in topics if _may_see(checks, topic)]
        hidden = failed[one.group_id].topics if one.group_id in failed else ()
        return replace(found, topics=[*topics, *hidden])

    if not is_for_groups:
        ((narrowed, _),) = asked
        return narrowed, lambda response: complete(response, narrowed)
    groups = {one.group_id: one for one, _ in asked}
    return replace(request, groups=list(groups.values())), lambda response: replace(
        response, groups=[complete(found, groups[found.group_id]) for found in response.groups]
    )


def _visible(checks: "Checks", one: Any) -> tuple[Any, Any]:  # Any: what is asked about a group
    """The part of it that the client may see, and the other one, if there is one."""
    if one.topics is None:
        return one, None
    allowed, hidden = checks.split(
        AclOperation.DESCRIBE, ResourceType.TOPIC, one.topics, checks.topic_name
    )
    return replace(one, topics=allowed), replace(one, topics=hidden) if hidden else None


def _may_see(checks: "Checks", topic: OffsetFetchResponse.Group.Topic) -> bool:
    name = checks.topic_name(topic)
    return name is None or checks.may_describe(ResourceType.TOPIC, name)


def _fetch_from_zookeeper(
    broker: "BrokerParts", request: OffsetFetchRequest
) -> OffsetFetchResponse:
    snapshot = broker.metadata.snapshot
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponse.Group.Topic(
                name=topic.name,
                partitions=[
                    zookeeper_offsets.fetch_offset(
                        broker.zk, request.group_id, TopicPartition(topic.name, index), snapshot
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )


def _with_names(
    group: OffsetFetchRequest.Group, snapshot: MetadataSnapshot
) -> OffsetFetchRequest.Group:
    if group.topics is None:
        return group
    return replace(
        group,
        topics=[
            replace(topic, name=snapshot.topic_names.get(topic.topic_id, ""))
            for topic in group.topics
        ],
    )


def _with_ids(
    group: OffsetFetchResponse.Group, snapshot: MetadataSnapshot
) -> OffsetFetchResponse.Group:
    def topic_id(topic: OffsetFetchResponse.Group.Topic) -> uuid.UUID:
        return snapshot.topic_ids.get(topic.name, topic.topic_id)

    def partitions(
        topic: OffsetFetchResponse.Group.Topic,
    ) -> Sequence[OffsetFetchResponse.Group.Topic.Partition]:
        if topic.name:
            return topic.partitions
        return [replace(p, error_code=ErrorCode.UNKNOWN_TOPIC_ID) for p in topic.partitions]

    return replace(
        group,
        topics=[
            replace(topic, topic_id=topic_id(topic), partitions=partitions(topic))
            for topic in group.topics
        ],
    )


def offset_delete(
    broker: "BrokerParts", request: OffsetDeleteRequest, context: "RequestContext"
) -> object:
    """Deletes committed offsets of topics that the group does not subscribe to.

    Behaviour: a partition that does not exist answers UNKNOWN_TOPIC_OR_PARTITION.
    """
    there = broker.metadata.snapshot.topics
    known: list[OffsetDeleteRequest.Topic] = []
    refused: list[OffsetDeleteResponse.Topic] = []
    for topic in request.topics:
        good = [p for p in topic.partitions if p.partition_index in there.get(topic.name, {})]
        bad = [p.partition_index for p in topic.partitions if p not in good]
        if good:
            known.append(replace(topic, partitions=good))
        if bad or topic.name not in there:
            refused.append(_missing(topic.name, bad))

    @context.answering
    def reply(response: OffsetDeleteResponse) -> None:
        if refused and response.error_code == ErrorCode.NONE:
            merged: dict[str, list[OffsetDeleteResponse.Topic.Partition]] = {}
            for topic in (*refused, *response.topics):
                merged.setdefault(topic.name, []).extend(topic.partitions)
            topics = [OffsetDeleteResponse.Topic(name=n, partitions=p) for n, p in merged.items()]
            response = replace(response, topics=topics)
        context.reply(response)

    broker.groups.offset_delete(replace(request, topics=known), reply)
    return LATER


def _missing(topic: str, partitions: Iterable[int]) -> OffsetDeleteResponse.Topic:
    return OffsetDeleteResponse.Topic(
        name=topic,
        partitions=[
            OffsetDeleteResponse.Topic.Partition(partition_index=index, error_code=_UNKNOWN)
            for index in partitions
        ],
    )


def list_groups(
    broker: "BrokerParts", request: ListGroupsRequest, context: "RequestContext"
) -> object:
    """Groups coordinated by this broker, filtered by state (v4) and type (v5)."""
    if context.may_cluster(AclOperation.DESCRIBE, quiet=True):
        broker.groups.list_groups(request, context.reply)
        return LATER

    @context.answering
    def reply(response: ListGroupsResponse) -> None:
        visible = [
            group
            for group in response.groups
            if context.may_describe(ResourceType.GROUP, group.group_id)
        ]
        context.reply(replace(response, groups=visible))

    broker.groups.list_groups(request, reply)
    return LATER


def describe_groups(
    broker: "BrokerParts", request: DescribeGroupsRequest, context: "RequestContext"
) -> object:
    """Members and assignments of groups."""

    @context.answering
    def reply(response: DescribeGroupsResponse) -> None:
        if request.include_authorized_operations:
            groups = [_with_operations(context, group) for group in response.groups]
            response = replace(response, groups=groups)
        context.reply(response)

    broker.groups.describe_groups(request, context.version, reply)
    return LATER


def delete_groups(
    broker: "BrokerParts", request: DeleteGroupsRequest, context: "RequestContext"
) -> object:
    """Deletes groups that have no members, with their offsets."""
    broker.groups.delete_groups(request, context.reply)
    return LATER


def _is_alone(check: "Checks", request: object) -> bool:
    return check.context.version < _FIRST_BATCHED


def _is_batched(check: "Checks", key: object) -> bool:
    return not _is_alone(check, key)


def _to_find(resource: ResourceType, remark: str) -> Sequence[Need]:
    """Only versions for one key say what the error code means."""
    describe = Need(AclOperation.DESCRIBE, resource, remark)
    return [
        describe._replace(when=_is_alone, says=MEANING),
        describe._replace(when=_is_batched, says=""),
    ]


_READ_GROUP: Final = Need(AclOperation.READ, ResourceType.GROUP)
_READ_TOPIC: Final = Need(AclOperation.READ, ResourceType.TOPIC)
_DESCRIBE_GROUP: Final = Need(AclOperation.DESCRIBE, ResourceType.GROUP)
_DELETE_GROUP: Final = Need(AclOperation.DELETE, ResourceType.GROUP)

APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.FIND_COORDINATOR: Api(
        find_coordinator,
        [
            *_to_find(ResourceType.GROUP, "for groups"),
            *_to_find(ResourceType.TRANSACTIONAL_ID, "for transactions"),
        ],
    ),
    ApiKey.JOIN_GROUP: Api(join_group, [_READ_GROUP]),
    ApiKey.SYNC_GROUP: Api(sync_group, [_READ_GROUP]),
    ApiKey.HEARTBEAT: Api(heartbeat, [_READ_GROUP]),
    ApiKey.LEAVE_GROUP: Api(leave_group, [_READ_GROUP]),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Api(
        consumer_group_heartbeat,
        [
            _READ_GROUP,
            Need(
                AclOperation.DESCRIBE,
                ResourceType.TOPIC,
                "for topics by name; an expression finds the visible ones only",
                over="subscribed_topic_names",
                fails_all=True,
            ),
        ],
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Api(
        consumer_group_describe,
        [
            _DESCRIBE_GROUP,
            by_handler(
                AclOperation.DESCRIBE, ResourceType.TOPIC, "for topics that its members use"
            ),
        ],
        refused_first=True,
    ),
    ApiKey.OFFSET_COMMIT: Api(offset_commit, [_READ_GROUP, _READ_TOPIC], merges=True),
    ApiKey.OFFSET_FETCH: Api(
        offset_fetch,
        [
            _DESCRIBE_GROUP,
            by_handler(
                AclOperation.DESCRIBE,
                ResourceType.TOPIC,
                "a request for all topics gets the visible ones",
            ),
        ],
    ),
    ApiKey.OFFSET_DELETE: Api(offset_delete, [_DELETE_GROUP, _READ_TOPIC]),
    ApiKey.LIST_GROUPS: Api(
        list_groups,
        [
            by_handler(AclOperation.DESCRIBE, ResourceType.CLUSTER, "for all groups"),
            by_handler(
                AclOperation.DESCRIBE, ResourceType.GROUP, "what is not allowed is left out"
            ),
        ],
    ),
    ApiKey.DESCRIBE_GROUPS: Api(describe_groups, [_DESCRIBE_GROUP], refused_first=True),
    ApiKey.DELETE_GROUPS: Api(delete_groups, [_DELETE_GROUP], merges=True),
}
