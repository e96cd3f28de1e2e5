"""Where single fields do not tell what a request needs, or Kafka tells more than an error."""

from typing import Any, Final

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.message import replace
from embedkafka.protocol.refusals import refusal
from embedkafka.runtime.topic_names import CLUSTER_METADATA_TOPIC
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.server.authorization.checks import Checks, Narrowed
from embedkafka.server.authorization.needs import Need, meaning
from embedkafka.server.handlers.transactional_writes import is_transactional
from embedkafka.txn.service import FIRST_SENT_BY_BROKERS

Message = Any  # Any: a request or a response of any API

_SHARE_KEY, _FIRST_WITH_SHARE_KEYS = 2, 6
_FIRST_BATCHED: Final = 4
_OF_CLUSTER: Final = frozenset({4, 16})
"""Config resources that are the cluster to an ACL: brokers and client metrics, and loggers."""
_LOGGER: Final = 8


def has_transactions(check: Checks, produce: Message) -> bool:
    return any(
        partition.records is not None and is_transactional(partition.records)
        for topic in produce.topic_data
        for partition in topic.partition_data
    )


def is_from_broker(check: Checks, request: Message) -> bool:
    return check.context.version >= FIRST_SENT_BY_BROKERS


def is_from_producer(check: Checks, request: Message) -> bool:
    return not is_from_broker(check, request)


def is_share_key(check: Checks, find_coordinator: Message) -> bool:
    return (
        find_coordinator.key_type == _SHARE_KEY and check.context.version >= _FIRST_WITH_SHARE_KEYS
    )


def meaning_before_v4(check: Checks, need: Need) -> str:
    return meaning(check, need) if check.context.version < _FIRST_BATCHED else ""


def is_of_cluster(check: Checks, config_resource: Message) -> bool:
    return config_resource.resource_type in _OF_CLUSTER


def is_of_logger(check: Checks, config_resource: Message) -> bool:
    return bool(config_resource.resource_type == _LOGGER)


def meaning_to_describe(check: Checks, need: Need) -> str | None:
    return meaning(check, need) if need.operation is AclOperation.DESCRIBE_CONFIGS else None


def is_no_metadata_log(check: Checks, topic: Message) -> bool:
    return bool(topic.name != CLUSTER_METADATA_TOPIC)


def is_not_forwarded(check: Checks, request: Message) -> bool:
    """A broker that passes a client's request on has asked for the client already."""
    is_forwarded = check.broker.is_forwarded(check.context.client_id)
    return not (is_forwarded and check.may_cluster(AclOperation.CLUSTER_ACTION, quiet=True))


def not_deleted(check: Checks, delete_topics: Message) -> Message:
    """By name, a topic that does not exist is unknown only to those who may describe it."""
    response = refusal(
        delete_topics,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        check.context.version,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED.message,
    )
    snapshot = check.broker.metadata.snapshot

    def shown(topic: Message) -> Message:
        name = snapshot.topic_names[topic.topic_id] if topic.name is None else topic.name
        if not check.may_see_topic(name):
            return topic
        if name in snapshot.topics:
            return replace(topic, name=name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return replace(topic, name=name, error_code=code, error_message=code.message)

    return replace(response, responses=[shown(topic) for topic in response.responses])


def offset_fetch(check: Checks, request: Message) -> object:
    """Of each group those topics that the client may see, and all of them if it asks for all."""
    is_for_groups = bool(request.groups)
    asked = [_visible(check, one) for one in (request.groups if is_for_groups else (request,))]
    failed: dict[str, Message] = {}
    for one, hidden in asked:
        if hidden:
            only = replace(request, groups=[hidden]) if is_for_groups else hidden
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused = refusal(only, code, check.context.version, everywhere=True)
            failed[one.group_id] = refused.groups[0] if is_for_groups else refused

    def complete(found: Message, group: Message) -> Message:
        if found.error_code:
            return found
        topics = found.topics
        if group.topics is None:
            topics = [topic for topic in topics if _may_see(check, topic)]
        hidden = failed[group.group_id].topics if group.group_id in failed else ()
        return replace(found, topics=[*topics, *hidden])

    if not is_for_groups:
        ((one, _),) = asked
        return Narrowed(one, lambda response: complete(response, one))
    groups = {one.group_id: one for one, _ in asked}
    return Narrowed(
        replace(request, groups=list(groups.values())),
        lambda response: replace(
            response, groups=[complete(found, groups[found.group_id]) for found in response.groups]
        ),
    )


def _visible(check: Checks, one: Message) -> tuple[Message, Message | None]:
    """What is asked about one group, and the part of it that the client may not see."""
    if one.topics is None:
        return one, None
    allowed, hidden = check.split(
        AclOperation.DESCRIBE, ResourceType.TOPIC, one.topics, check.topic_name
    )
    return replace(one, topics=allowed), replace(one, topics=hidden) if hidden else None


def _may_see(check: Checks, topic: Message) -> bool:
    name = check.topic_name(topic)
    return name is None or check.may_see_topic(name)
