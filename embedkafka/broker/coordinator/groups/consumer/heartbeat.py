"""The ConsumerGroupHeartbeat request: its meaning, its checks and its answers.

Everything here looks at the request and at most one member; nothing changes.
"""

from collections.abc import Callable, Sequence
from typing import Final

from embedkafka.broker.coordinator.groups.consumer.assignment import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    Assignment,
    ConsumerMember,
    assignment_of,
    is_subset,
)
from embedkafka.broker.coordinator.groups.consumer.group import ConsumerGroup
from embedkafka.broker.coordinator.re2 import InvalidExpression, compile_re2
from embedkafka.runtime.values import dataclass, replace
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_FIRST_WITH_OWN_MEMBER_IDS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatCall:
    """A ConsumerGroupHeartbeat request, with its client and version."""

    request: ConsumerGroupHeartbeatRequest
    client_id: str
    client_host: str
    version: int
    reply: Callable[[ConsumerGroupHeartbeatResponse], None]
    may_see: Callable[[str], bool] | None = None
    """Whether the client may describe a topic; None where there is no authorizer."""

    @property
    def group_id(self) -> str:
        return self.request.group_id

    def refusal(self, error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
        return heartbeat_error(error)

    @property
    def owned(self) -> Assignment | None:
        topics = self.request.topic_partitions
        if topics is None:
            return None
        return assignment_of((topic.topic_id, topic.partitions) for topic in topics)

    @property
    def is_joining(self) -> bool:
        return self.request.member_epoch == JOINING_EPOCH

    @property
    def is_leaving(self) -> bool:
        return self.request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH)

    @property
    def has_subscription(self) -> bool:
        request = self.request
        return (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )

    @property
    def is_full(self) -> bool:
        """Whether the member sends its full state: it joins, or lost an answer."""
        return self.is_joining or (
            self.request.rebalance_timeout_ms != -1
            and self.has_subscription
            and self.request.topic_partitions is not None
        )


def heartbeat_error(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=error,
        error_message=message,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )


def heartbeat_assignment(assigned: Assignment) -> ConsumerGroupHeartbeatResponse.Assignment:
    topic_type = ConsumerGroupHeartbeatResponse.Assignment.TopicPartitions
    return ConsumerGroupHeartbeatResponse.Assignment(
        topic_partitions=[
            topic_type(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(assigned.items())
        ]
    )


def refuse_invalid(heartbeat: ConsumerHeartbeatCall, assignors: Sequence[str]) -> None:
    """Refuses a malformed request, with INVALID_REQUEST unless a more exact code exists."""
    request = heartbeat.request
    epoch = request.member_epoch
    may_lack_id = heartbeat.version < _FIRST_WITH_OWN_MEMBER_IDS and epoch == JOINING_EPOCH
    complaints = [
        (_is_blank(request.group_id), "GroupId can't be empty."),
        (_is_blank(request.instance_id), "InstanceId can't be empty."),
        (_is_blank(request.rack_id), "RackId can't be empty."),
        (_is_blank(request.member_id) and not may_lack_id, "MemberId can't be empty."),
        (epoch < STATIC_LEAVING_EPOCH, "MemberEpoch is invalid."),
        (
            epoch == STATIC_LEAVING_EPOCH and request.instance_id is None,
            "InstanceId can't be null.",
        ),
    ]
    if heartbeat.is_joining:
        complaints += [
            (
                request.rebalance_timeout_ms == -1,
                "RebalanceTimeoutMs must be provided in first request.",
            ),
            (
                request.topic_partitions is None or len(request.topic_partitions) > 0,
                "TopicPartitions must be empty when (re-)joining.",
            ),
            (
                not heartbeat.has_subscription,
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when"
                " (re-)joining.",
            ),
        ]
    for is_wrong, message in complaints:
        if is_wrong:
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
    _refuse_unknown_assignor(request.server_assignor, assignors)


def _is_blank(name: str | None) -> bool:
    return name is not None and not name.strip()


def _refuse_unknown_assignor(name: str | None, assignors: Sequence[str]) -> None:
    if name is not None and name not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def refuse_bad_regex(regex: str | None) -> None:
    if not regex:
        return
    try:
        compile_re2(regex)
    except InvalidExpression as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from error


def updated_member(member: ConsumerMember, heartbeat: ConsumerHeartbeatCall) -> ConsumerMember:
    """The member as its heartbeat describes it; null means unchanged."""
    request = heartbeat.request
    changes: dict[str, object] = {
        "classic": None,
        "client_id": heartbeat.client_id,
        "client_host": heartbeat.client_host,
    }
    if request.instance_id is not None:
        changes["instance_id"] = request.instance_id
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.subscribed_topic_names is not None:
        changes["subscribed_topic_names"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        changes["subscribed_topic_regex"] = request.subscribed_topic_regex
    if request.server_assignor is not None:
        changes["server_assignor"] = request.server_assignor
    return replace(member, **changes)  # type: ignore[arg-type]  # names and types as above


def require_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        )
    return member


def require_static(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    member = group.find_static_member(instance_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {member.member_id}.",
        )
    return member


def refuse_unreleased(old: ConsumerMember, member_id: str) -> None:
    """Refuses to replace a static member that has not left for a while."""
    if not old.has_left_for_a_while():
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {old.instance_id} cannot join the group"
            f" because the instance id is owned by {old.member_id} member.",
        )


def refuse_wrong_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    """Accepts the previous epoch too: the answer with the new one may have been lost."""
    if epoch == member.member_epoch:
        return
    is_retry = epoch == member.previous_member_epoch and is_subset(owned, member.assigned)
    if epoch > member.member_epoch or not is_retry:
        comparison = "greater" if epoch > member.member_epoch else "smaller"
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {comparison} member epoch ({epoch}) than the one"
            f" known by the group coordinator ({member.member_epoch}). The member must abandon"
            " all its partitions and rejoin.",
        )
