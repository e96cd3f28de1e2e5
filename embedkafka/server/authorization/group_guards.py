"""Who may join, see and delete groups, and commit and read their offsets."""

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.message import replace
from embedkafka.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from embedkafka.protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.server.authorization.checks import REFUSED_WITH, Checks, Narrowed, Refused

_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_READ, _DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_FIRST_BATCHED = 4
_FIRST_WITH_GROUPS = 8
_FIRST_WITH_GROUP_ERROR = 2

_FIRST_WITHOUT_PROTOCOL = 7
_FIRST_WITH_PROTOCOL_TO_SYNC = 5

_KEYS = {0: _GROUP, 1: ResourceType.TRANSACTIONAL_ID}
_SHARE_KEY, _FIRST_WITH_SHARE_KEYS = 2, 6


def find_coordinator(check: Checks, request: FindCoordinatorRequest) -> object:
    if request.key_type == _SHARE_KEY and check.context.version >= _FIRST_WITH_SHARE_KEYS:
        return _share_coordinator(check, request)
    kind = _KEYS.get(request.key_type)
    if kind is None:
        return request
    code = REFUSED_WITH[kind]
    if check.context.version < _FIRST_BATCHED:
        if check.may(_DESCRIBE, kind, request.key):
            return request
        return Refused(
            FindCoordinatorResponse(
                error_code=code, error_message=code.message, node_id=-1, host="", port=-1
            )
        )
    allowed, refused = check.split(_DESCRIBE, kind, request.coordinator_keys, lambda key: key)
    if not refused:
        return request
    failed = [
        FindCoordinatorResponse.Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=code, error_message=""
        )
        for key in refused
    ]
    if not allowed:
        return Refused(FindCoordinatorResponse(coordinators=failed))
    return Narrowed(
        replace(request, coordinator_keys=allowed),
        lambda response: replace(response, coordinators=[*response.coordinators, *failed]),
    )


def _share_coordinator(check: Checks, request: FindCoordinatorRequest) -> object:
    """Only brokers may ask for those that keep the state of share groups."""
    if check.may_cluster(AclOperation.CLUSTER_ACTION):
        return request
    code = REFUSED_WITH[ResourceType.CLUSTER]
    failed = [
        FindCoordinatorResponse.Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=code, error_message=code.message
        )
        for key in request.coordinator_keys
    ]
    return Refused(FindCoordinatorResponse(coordinators=failed))


def join_group(check: Checks, request: JoinGroupRequest) -> object:
    if check.may(_READ, _GROUP, request.group_id):
        return request
    return Refused(
        JoinGroupResponse(
            error_code=_FAILED,
            protocol_name=None if check.context.version >= _FIRST_WITHOUT_PROTOCOL else "",
            leader="",
            member_id="",
            members=[],
        )
    )


def sync_group(check: Checks, request: SyncGroupRequest) -> object:
    """Kafka first looks whether the protocol is there, which the handler refuses otherwise."""
    is_bare = request.protocol_type is None or request.protocol_name is None
    if is_bare and check.context.version >= _FIRST_WITH_PROTOCOL_TO_SYNC:
        return request
    if check.may(_READ, _GROUP, request.group_id):
        return request
    return Refused(SyncGroupResponse(error_code=_FAILED, assignment=b""))


def heartbeat(check: Checks, request: HeartbeatRequest) -> object:
    if check.may(_READ, _GROUP, request.group_id):
        return request
    return Refused(HeartbeatResponse(error_code=_FAILED))


def leave_group(check: Checks, request: LeaveGroupRequest) -> object:
    if check.may(_READ, _GROUP, request.group_id):
        return request
    return Refused(LeaveGroupResponse(error_code=_FAILED))


def consumer_group_heartbeat(check: Checks, request: ConsumerGroupHeartbeatRequest) -> object:
    """A member may subscribe only to topics that it may describe."""

    def refused(code: ErrorCode) -> Refused:
        return Refused(
            ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=0, heartbeat_interval_ms=0)
        )

    if not check.may(_READ, _GROUP, request.group_id):
        return refused(_FAILED)
    _, hidden = check.split(
        _DESCRIBE, _TOPIC, request.subscribed_topic_names or (), lambda name: name
    )
    return refused(_TOPIC_FAILED) if hidden else request


def describe_groups(check: Checks, request: DescribeGroupsRequest) -> object:
    allowed, refused = check.split(_DESCRIBE, _GROUP, request.groups, lambda group: group)
    failed = [
        DescribeGroupsResponse.Group(
            error_code=_FAILED,
            group_id=group,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=[],
        )
        for group in refused
    ]

    def amend(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        shown = response.groups
        if request.include_authorized_operations:
            shown = [_with_operations(check, group) for group in shown]
        return replace(response, groups=[*failed, *shown])

    return Narrowed(replace(request, groups=allowed), amend)


def _with_operations(check: Checks, group: Any) -> Any:  # Any: a group of either description
    if group.error_code:
        return group
    operations = check.operations(_GROUP, group.group_id)
    return replace(group, authorized_operations=operations)


def consumer_group_describe(check: Checks, request: ConsumerGroupDescribeRequest) -> object:
    """A group whose members use a topic that the client may not see is not described."""
    allowed, refused = check.split(_DESCRIBE, _GROUP, request.group_ids, lambda group: group)
    failed = [_undescribed(group, _FAILED, None) for group in refused]

    def amend(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        shown = [
            group if _may_see_topics(check, group) else _with_hidden_topics(group)
            for group in response.groups
        ]
        if request.include_authorized_operations:
            shown = [_with_operations(check, group) for group in shown]
        return replace(response, groups=[*failed, *shown])

    return Narrowed(replace(request, group_ids=allowed), amend)


def _may_see_topics(check: Checks, group: ConsumerGroupDescribeResponse.Group) -> bool:
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    names.update(name for member in group.members for name in member.subscribed_topic_names)
    return all(check.may(_DESCRIBE, _TOPIC, name) for name in sorted(names))


def _with_hidden_topics(
    group: ConsumerGroupDescribeResponse.Group,
) -> ConsumerGroupDescribeResponse.Group:
    message = "The group has described topic(s) that the client is not authorized to describe."
    return _undescribed(group.group_id, _TOPIC_FAILED, message)


def _undescribed(
    group_id: str, code: ErrorCode, message: str | None
) -> ConsumerGroupDescribeResponse.Group:
    return ConsumerGroupDescribeResponse.Group(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def list_groups(check: Checks, request: ListGroupsRequest) -> object:
    if check.may_cluster(_DESCRIBE, quiet=True):
        return request

    def amend(response: ListGroupsResponse) -> ListGroupsResponse:
        visible = [
            group
            for group in response.groups
            if check.may(_DESCRIBE, _GROUP, group.group_id, quiet=True)
        ]
        return replace(response, groups=visible)

    return Narrowed(request, amend)


def delete_groups(check: Checks, request: DeleteGroupsRequest) -> object:
    allowed, refused = check.split(
        AclOperation.DELETE, _GROUP, request.groups_names, lambda group: group
    )
    failed = [
        DeleteGroupsResponse.Group(group_id=group, error_code=_FAILED)
        for group in dict.fromkeys(refused)
    ]
    return Narrowed(
        replace(request, groups_names=allowed),
        lambda response: replace(response, results=[*response.results, *failed]),
    )


def offset_commit(check: Checks, request: OffsetCommitRequest) -> object:
    if not check.may(_READ, _GROUP, request.group_id):
        return Refused(OffsetCommitResponse(topics=_uncommitted(request.topics, _FAILED)))
    allowed, refused = check.split(
        _READ, _TOPIC, request.topics, lambda topic: check.topic_name(topic.name, topic.topic_id)
    )
    if not refused:
        return request
    failed = _merged(_uncommitted(refused, _TOPIC_FAILED))
    if not allowed:
        return Refused(OffsetCommitResponse(topics=failed))
    return Narrowed(
        replace(request, topics=allowed),
        lambda response: replace(response, topics=[*response.topics, *failed]),
    )


def _uncommitted(
    topics: Iterable[OffsetCommitRequest.Topic], code: ErrorCode
) -> list[OffsetCommitResponse.Topic]:
    _Topic = OffsetCommitResponse.Topic
    return [
        _Topic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                _Topic.Partition(partition_index=p.partition_index, error_code=code)
                for p in topic.partitions
            ],
        )
        for topic in topics
    ]


def _merged(topics: Iterable[OffsetCommitResponse.Topic]) -> list[OffsetCommitResponse.Topic]:
    """One answer for each topic, which the request may have twice."""
    merged: dict[tuple[str, UUID], OffsetCommitResponse.Topic] = {}
    for topic in topics:
        key = (topic.name, topic.topic_id)
        before = merged[key].partitions if key in merged else ()
        merged[key] = replace(topic, partitions=[*before, *topic.partitions])
    return list(merged.values())


_FetchedTopic = OffsetFetchResponse.Group.Topic


def offset_fetch(check: Checks, request: OffsetFetchRequest) -> object:
    if check.context.version >= _FIRST_WITH_GROUPS:
        return _groups_fetched(check, request)
    if not check.may(_DESCRIBE, _GROUP, request.group_id):
        if check.context.version >= _FIRST_WITH_GROUP_ERROR:
            return Refused(OffsetFetchResponse(error_code=_FAILED))
        return Refused(OffsetFetchResponse(topics=_unfetched(request.topics or (), _FAILED)))
    topics, complete = _topics_fetched(check, request.topics)
    return Narrowed(
        replace(request, topics=topics),
        lambda response: (
            response if response.error_code else replace(response, topics=complete(response.topics))
        ),
    )


def _groups_fetched(check: Checks, request: OffsetFetchRequest) -> object:
    asked: list[OffsetFetchRequest.Group] = []
    completes: dict[str, Callable[[Any], list[_FetchedTopic]]] = {}  # Any: the group's topics
    failed: list[OffsetFetchResponse.Group] = []
    for group in request.groups:
        if check.may(_DESCRIBE, _GROUP, group.group_id):
            topics, completes[group.group_id] = _topics_fetched(check, group.topics)
            asked.append(replace(group, topics=topics))
        else:
            failed.append(
                OffsetFetchResponse.Group(group_id=group.group_id, topics=[], error_code=_FAILED)
            )

    def amend(response: OffsetFetchResponse) -> OffsetFetchResponse:
        groups = [
            group
            if group.error_code
            else replace(group, topics=completes[group.group_id](group.topics))
            for group in response.groups
        ]
        return replace(response, groups=[*groups, *failed])

    return Narrowed(replace(request, groups=asked), amend)


def _topics_fetched(
    check: Checks, topics: Iterable[OffsetFetchRequest.Group.Topic] | None
) -> tuple[Any, Callable[[Any], list[_FetchedTopic]]]:  # Any: topics asked for, and answered
    """The topics to ask for (None: all), and what completes the answer."""
    if topics is None:

        def only_visible(found: Iterable[_FetchedTopic]) -> list[_FetchedTopic]:
            return [
                topic
                for topic in found
                if (name := check.topic_name(topic.name, topic.topic_id)) is None
                or check.may(_DESCRIBE, _TOPIC, name, quiet=True)
            ]

        return None, only_visible
    allowed, hidden = check.split(
        _DESCRIBE, _TOPIC, topics, lambda topic: check.topic_name(topic.name, topic.topic_id)
    )
    failed = _unfetched(hidden, _TOPIC_FAILED)
    return allowed, lambda found: [*found, *failed]


def _unfetched(
    topics: Iterable[OffsetFetchRequest.Group.Topic], code: ErrorCode
) -> list[_FetchedTopic]:
    return [
        _FetchedTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                _FetchedTopic.Partition(
                    partition_index=index, committed_offset=-1, metadata="", error_code=code
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in topics
    ]


def offset_delete(check: Checks, request: OffsetDeleteRequest) -> object:
    if not check.may(AclOperation.DELETE, _GROUP, request.group_id):
        return Refused(OffsetDeleteResponse(error_code=_FAILED, topics=[]))
    allowed, refused = check.split(_READ, _TOPIC, request.topics, lambda topic: topic.name)
    _Topic = OffsetDeleteResponse.Topic
    failed = [
        _Topic(
            name=topic.name,
            partitions=[
                _Topic.Partition(partition_index=p.partition_index, error_code=_TOPIC_FAILED)
                for p in topic.partitions
            ],
        )
        for topic in refused
    ]
    return Narrowed(
        replace(request, topics=allowed),
        lambda response: (
            response
            if response.error_code
            else replace(response, topics=[*response.topics, *failed])
        ),
    )
