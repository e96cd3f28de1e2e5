"""What a client needs for a request, found by what the request's fields name.

A request is refused as a whole, or without the entries of a list that the client may not use:
these are refused beside the handler's answer to the others.

Not here: which API needs what (`table`); what a client may do (`checks`).
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.message import Field, replace, schema_of
from embedkafka.protocol.refusals import joined, merged, refusal
from embedkafka.protocol.wire_types import Array, Entity, Struct
from embedkafka.runtime.values import NamedTuple
from embedkafka.security.acl.operations import CLUSTER_NAME, AclOperation, ResourceType
from embedkafka.server.authorization.checks import REFUSED_WITH, Checks, Narrowed, Refused

Message = Any  # Any: a request or a response of any API

_ENTITIES: Final = {
    ResourceType.TOPIC: Entity.TOPIC_NAME,
    ResourceType.GROUP: Entity.GROUP_ID,
    ResourceType.TRANSACTIONAL_ID: Entity.TRANSACTIONAL_ID,
}
_NAMED: Final = {
    resource: frozenset({entity, Entity.TOPIC_ID} if entity is Entity.TOPIC_NAME else {entity})
    for resource, entity in _ENTITIES.items()
}


def reason(check: Checks, need: "Need") -> str:
    """Why, in the words of Kafka's controller."""
    context = check.context
    asked = f"{context.api_key.name} of {context.connection_id}"
    return f"Request {asked} needs {need.operation.name} permission."


def meaning(check: Checks, need: "Need") -> str:
    """What the error code means."""
    return REFUSED_WITH[need.resource].message


class Need(NamedTuple):
    """One permission, and when it is needed."""

    operation: AclOperation
    resource: ResourceType
    remark: str = ""
    on_cluster: AclOperation | None = None
    """An operation on the cluster that does as well."""
    over: str | None = None
    """The list whose entries are about the resource; by default, what names one first."""
    when: Callable[[Checks, Message], bool] | None = None
    """Whether the request, or an entry of the list, needs it."""
    fails_all: bool = False
    """Whether one entry that is refused fails all of them."""
    says: Callable[[Checks, "Need"], str | None] | None = None
    """The message of the refusal."""
    asked_by_handler: bool = False

    @property
    def permissions(self) -> Sequence[tuple[AclOperation, ResourceType, str]]:
        """Every operation, what it is on, and when."""
        own = (self.operation, self.resource, self.remark)
        if self.on_cluster is None:
            return [own]
        return [(self.on_cluster, ResourceType.CLUSTER, self.remark), own]


class Rule(NamedTuple):
    """All that an API needs, and how Kafka tells who has not got it."""

    needs: tuple[Need, ...]
    refused_first: bool = False
    """Whether refused entries come before those that the handler has answered."""
    merges: bool = False
    """Whether refused entries that name the same are one."""
    refuse: Callable[[Checks, Message], Message] | None = None
    """Answers a request with nothing but refused entries, where Kafka tells more."""
    then: Callable[[Checks, Message], object] | None = None
    """Asks for what is not known from single fields, once all needs are met."""


def outcome(check: Checks, request: Message, rule: Rule) -> object:
    """The request if all of it is permitted; else `Narrowed` to what is, or `Refused`."""
    failed: list[Message] = []
    for need in rule.needs:
        if need.asked_by_handler or _does_as_well(check, need):
            continue
        name = need.over or _find_list(check, need, request)
        if name is None:
            if not _is_met(check, need, request):
                return Refused(_refusal(check, rule, need, request))
            continue
        allowed, refused = _split(check, need, request, name)
        if not refused:
            continue
        if need.fails_all:
            return Refused(_refusal(check, rule, need, request))
        failed.append(
            _refusal(check, rule, need, replace(request, **{name: refused}), in_part=True)
        )
        request = replace(request, **{name: allowed})
        if not allowed:
            return Refused(_joined(failed[0], failed[1:], rule))
    inner = request if rule.then is None else rule.then(check, request)
    if isinstance(inner, Refused) or not failed:
        return inner
    if isinstance(inner, Narrowed):
        request, complete = inner
        return Narrowed(request, lambda response: _joined(complete(response), failed, rule))
    return Narrowed(request, lambda response: _joined(response, failed, rule))


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
    for field in _fields(check, type(struct)):
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
    wanted = _NAMED[need.resource]
    for field in _fields(check, type(request)):
        if not isinstance(field.type, Array):
            if field.entity_in(request) in wanted:
                return None
        elif isinstance(field.type.element, Struct):
            entry = _fields(check, field.type.element.cls)
            if any(wanted & one.entities for one in entry if not isinstance(one.type, Array)):
                return field.name
        elif field.entity_in(request) in wanted:
            return field.name
    return None


def _fields(check: Checks, cls: type[Any]) -> Sequence[Field]:  # Any: any message class
    return _fields_in(cls, check.context.version)  # type: ignore[arg-type]  # a class is hashable


@cache
def _fields_in(cls: type[Any], version: int) -> Sequence[Field]:  # Any: as above
    return [field for field in schema_of(cls).fields if field.is_in(version)]


def _refusal(
    check: Checks, rule: Rule, need: Need, request: Message, *, in_part: bool = False
) -> Message:
    if rule.refuse is not None:
        return rule.refuse(check, request)
    message = None if need.says is None else need.says(check, need)
    code, version = REFUSED_WITH[need.resource], check.context.version
    response = refusal(request, code, version, message, in_part=in_part)
    return merged(response) if rule.merges else response


def _joined(response: Message, failed: Sequence[Message], rule: Rule) -> Message:
    """The answer to what was permitted, with the refusals of the rest, unless all of it failed."""
    if getattr(response, "error_code", ErrorCode.NONE):
        return response
    for one in failed:
        response = joined(response, one, refused_first=rule.refused_first)
    return response
