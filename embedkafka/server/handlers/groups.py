"""Consumer groups: finding the coordinator, membership, committed offsets.

The coordinator (`group.service`) works with topic names and has no metadata. These handlers
translate topic ids and answer for topics that do not exist.
"""

import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from embedkafka.group.consumer.describe import describe_consumer_error
from embedkafka.group.consumer.heartbeat import heartbeat_error
from embedkafka.group.offsets.messages import commit_response
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.message import replace
from embedkafka.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
)
from embedkafka.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
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
from embedkafka.protocol.wire_types import ZERO_UUID
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from embedkafka.security.acl.operations import GROUP_OPERATIONS, AclOperation, ResourceType
from embedkafka.server import zookeeper_offsets
from embedkafka.server.dispatch import LATER
from embedkafka.server.metadata_cache import MetadataSnapshot
from embedkafka.server.topics.delayed import DelayedTopics

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker
    from embedkafka.server.dispatch import RequestContext

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_IN_ZOOKEEPER = 0
_FIRST_BATCHED = 4
_FIRST_BY_TOPIC_ID = 10
_CREATION_WAIT_MS = 2_000


def find_coordinator(
    broker: "Broker", request: FindCoordinatorRequest, context: "RequestContext"
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
    broker.create_internal_topic(topic)
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
    broker: "Broker",
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
    broker: "Broker", key: str, kind: int, topic: str | None, listener: str
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


def join_group(broker: "Broker", request: JoinGroupRequest, context: "RequestContext") -> object:
    """Joins or rejoins a group; answers when the rebalance has collected its members."""
    broker.groups.join_group(
        request, context.client_id, context.client_host, context.version, context.reply
    )
    return LATER


def sync_group(broker: "Broker", request: SyncGroupRequest, context: "RequestContext") -> object:
    """Takes the leader's assignment and answers every member with its part."""
    broker.groups.sync_group(request, context.version, context.reply)
    return LATER


def heartbeat(broker: "Broker", request: HeartbeatRequest, context: "RequestContext") -> object:
    """Keeps a member alive and signals rebalances."""
    broker.groups.heartbeat(request, context.reply)
    return LATER


def leave_group(broker: "Broker", request: LeaveGroupRequest, context: "RequestContext") -> object:
    """Removes members at once instead of after their session timeout."""
    broker.groups.leave_group(request, context.version, context.reply)
    return LATER


def consumer_group_heartbeat(
    broker: "Broker", request: ConsumerGroupHeartbeatRequest, context: "RequestContext"
) -> object:
    """Joins, stays in or leaves a group whose coordinator assigns partitions (KIP-848)."""
    if not _has_consumer_groups(broker):
        return heartbeat_error(ErrorCode.UNSUPPORTED_VERSION)
    broker.groups.consumer_group_heartbeat(
        request,
        context.client_id,
        context.client_host,
        context.version,
        context.reply,
        None if context.checks is None else partial(context.may_describe, ResourceType.TOPIC),
    )
    return LATER


def consumer_group_describe(
    broker: "Broker", request: ConsumerGroupDescribeRequest, context: "RequestContext"
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


def _has_consumer_groups(broker: "Broker") -> bool:
    return "consumer" in broker.config.broker.items("group.coordinator.rebalance.protocols")


def offset_commit(
    broker: "Broker", request: OffsetCommitRequest, context: "RequestContext"
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


def _commit_to_zookeeper(broker: "Broker", request: OffsetCommitRequest) -> OffsetCommitResponse:
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


def offset_fetch(
    broker: "Broker", request: OffsetFetchRequest, context: "RequestContext"
) -> object:
    """Committed offsets, for one group or (v8) several; v0 from ZooKeeper, v10 by topic id."""
    if context.version == _IN_ZOOKEEPER:
        return _fetch_from_zookeeper(broker, request)
    if context.version < _FIRST_BY_TOPIC_ID:
        broker.groups.offset_fetch(request, context.version, context.reply)
        return LATER
    snapshot = broker.metadata.snapshot
    groups = [_with_names(group, snapshot) for group in request.groups]

    @context.answering
    def reply(response: OffsetFetchResponse) -> None:
        context.reply(
            replace(response, groups=[_with_ids(group, snapshot) for group in response.groups])
        )

    broker.groups.offset_fetch(replace(request, groups=groups), context.version, reply)
    return LATER


def _fetch_from_zookeeper(broker: "Broker", request: OffsetFetchRequest) -> OffsetFetchResponse:
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
    broker: "Broker", request: OffsetDeleteRequest, context: "RequestContext"
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


def list_groups(broker: "Broker", request: ListGroupsRequest, context: "RequestContext") -> object:
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
    broker: "Broker", request: DescribeGroupsRequest, context: "RequestContext"
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
    broker: "Broker", request: DeleteGroupsRequest, context: "RequestContext"
) -> object:
    """Deletes groups that have no members, with their offsets."""
    broker.groups.delete_groups(request, context.reply)
    return LATER
