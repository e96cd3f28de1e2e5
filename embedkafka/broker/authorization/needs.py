"""What a client needs for a request, found by what the request's fields name.

A request is refused as a whole, or without the entries of a list that the client may not use:
these are refused beside the handler's answer to the others.

Not here: which API needs what (the rows in `apis`); what a client may do (`checks`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from embedkafka.broker.api_table import Api, Message, Need
from embedkafka.broker.authorization.checks import REFUSED_WITH, Checks
from embedkafka.security.acl.authorizer import AclAuthorizer
from embedkafka.security.acl.operations import CLUSTER_NAME, AclOperation, ResourceType
from embedkafka.wire.protocol.entities import fields_in, find_list
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import replace
from embedkafka.wire.protocol.refusals import joined, merged, refusal
from embedkafka.wire.protocol.wire_types import Array, Entity

if TYPE_CHECKING:
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

_NO_ACK: Final = 0
_ENTITIES: Final = {
    ResourceType.TOPIC: Entity.TOPIC_NAME,
    ResourceType.GROUP: Entity.GROUP_ID,
    ResourceType.TRANSACTIONAL_ID: Entity.TRANSACTIONAL_ID,
}
_NAMED: Final = {
    resource: frozenset({entity, Entity.TOPIC_ID} if entity is Entity.TOPIC_NAME else {entity})
    for resource, entity in _ENTITIES.items()
}


def permissions(need: Need) -> Sequence[tuple[AclOperation, ResourceType, str]]:
    """Every operation, what it is on, and when."""
    own = (need.operation, need.resource, need.remark)
    if need.on_cluster is None:
        return [own]
    return [(need.on_cluster, ResourceType.CLUSTER, need.remark), own]


def permitted(
    authorizer: AclAuthorizer,
    broker: "BrokerParts",
    api: Api,
    request: Message,
    context: "RequestContext",
) -> Message | None:
    """What the client may do of a request; None if that is nothing, which it has been told."""
    context.checks = check = Checks(authorizer, broker, context)
    failed: list[Message] = []
    for need in api.needs:
        if need.is_asked_by_handler or _does_as_well(check, need):
            continue
        name = need.over or _find_list(check, need, request)
        if name is None:
            if _is_met(check, need, request):
                continue
            answer = _refusal(check, api, need, request)
            break
        allowed, refused = _split(check, need, request, name)
        if not refused:
            continue
        if need.fails_all:
            answer = _refusal(check, api, need, request)
            break
        failed.append(_refusal(check, api, need, replace(request, **{name: refused}), in_part=True))
        request = replace(request, **{name: allowed})
        if not allowed:
            answer = _joined(failed[0], failed[1:], api)
            break
    else:
        if failed:
            context.amend = lambda response: _joined(response, failed, api)
        return request
    if getattr(request, "acks", None) == _NO_ACK:
        context.close_connection("a request without an answer was not allowed")
    else:
        context.reply(answer)
    return None


def _does_as_well(check: Checks, need: Need) -> bool:
    return need.on_cluster is not None and check.may_cluster(need.on_cluster, quiet=True)


def _is_met(check: Checks, need: Need, request: Message) -> bool:
    """Whether the client has what a request needs as a whole."""
    if need.when is not None and not need.when(check, request):
        return True
    name = _name(check, need, request)
    return name is None or check.may(need.operation, need.resource, name)


def _split(
    check: Checks, need: Need, request: Message, name: str
) -> tuple[Sequence[Message], Sequence[Message]]:
    """The entries of a list that the client may use, and the others."""

    def name_of(entry: Message) -> str | None:
        if need.when is not None and not need.when(check, entry):
            return None
        if isinstance(entry, str):
            return entry
        return _name(check, need, entry)

    return check.split(need.operation, need.resource, getattr(request, name) or (), name_of)


def _name(check: Checks, need: Need, struct: Message) -> str | None:
    """The resource that a struct names; None if it names none, or there is none."""
    if need.resource is ResourceType.CLUSTER:
        return CLUSTER_NAME
    topic_id = None
    for field in fields_in(type(struct), check.context.version):
        if field.entity is None or isinstance(field.type, Array):
            continue
        entity, value = field.entity_in(struct), getattr(struct, field.name)
        if entity is Entity.TOPIC_ID:
            topic_id = value
        elif entity is _ENTITIES[need.resource] and value is not None:
            return str(value)
    if need.resource is ResourceType.TOPIC and topic_id is not None:
        return check.broker.metadata.snapshot.topic_names.get(topic_id)
    return None


def _find_list(check: Checks, need: Need, request: Message) -> str | None:
    """The request's list whose entries name what is needed; None if the request itself does."""
    if need.resource is ResourceType.CLUSTER:
        return None
    return find_list(request, check.context.version, _NAMED[need.resource])


def _refusal(
    check: Checks, api: Api, need: Need, request: Message, *, in_part: bool = False
) -> Message:
    if api.refuse is not None:
        return api.refuse(check, request)
    code, context = REFUSED_WITH[need.resource], check.context
    message = need.says and need.says.format(
        api=context.api_key.name,
        connection=context.connection_id,
        operation=need.operation.name,
        meaning=code.message,
    )
    response = refusal(request, code, context.version, message, in_part=in_part)
    return merged(response) if api.merges else response


def _joined(response: Message, failed: Sequence[Message], api: Api) -> Message:
    """The answer to what was permitted, with the refusals of the rest, unless all of it failed."""
    if getattr(response, "error_code", ErrorCode.NONE):
        return response
    for one in failed:
        response = joined(response, one, refused_first=api.refused_first)
    return response
