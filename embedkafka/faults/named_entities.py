"""What a request names, and what errors a response carries: read from the messages' schemas."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from uuid import UUID

from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import Field, Schema, schema_of
from embedkafka.wire.protocol.wire_types import Entity

FindTopic = Callable[[UUID], str | None]
"""Finds a topic's name, for requests that carry only its id."""

_ERROR_CODE: Final = "error_code"  # also the end of longer names
_CODES: Final = {int(code): code for code in ErrorCode}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedEntities:
    """What a request names anywhere."""

    topics: frozenset[str]
    partitions: frozenset[int]
    groups: frozenset[str]
    transactional_ids: frozenset[str]


def contents_of(request: object, find_topic: FindTopic) -> NamedEntities:
    """What `request` names."""
    found: dict[Entity, set[Any]] = {entity: set() for entity in Entity}  # Any: names and numbers
    for owner, field, item in _leaves(request):
        if entity := field.entity_in(owner):
            found[entity].add(item)
    named = {find_topic(topic_id) for topic_id in found[Entity.TOPIC_ID]}
    return NamedEntities(
        topics=_given(found[Entity.TOPIC_NAME] | named),
        partitions=frozenset(found[Entity.PARTITION]),
        groups=_given(found[Entity.GROUP_ID]),
        transactional_ids=_given(found[Entity.TRANSACTIONAL_ID]),
    )


def _given(names: set[str | None]) -> frozenset[str]:
    """Without nulls, and without the empty names of versions that have an id in their place."""
    return frozenset(filter(None, names))


def errors_in(response: object) -> Counter[str]:
    """The names of the errors in `response`, and how often each is there."""
    return Counter(
        _error_name(item)
        for _, field, item in _leaves(response)
        if field.name.endswith(_ERROR_CODE) and isinstance(item, int) and item != ErrorCode.NONE
    )


def placed_errors(response: object, find_topic: FindTopic) -> Counter[tuple[str, str]]:
    """The errors in `response`, each with the topic or partition that it is about, if any."""
    return Counter(_placed_errors(response, "", find_topic))


def _placed_errors(message: object, topic: str, find_topic: FindTopic) -> Iterator[tuple[str, str]]:
    values: dict[str, object] = {}
    partition = ""
    for field in schema_of(type(message)).fields:
        value = values[field.name] = getattr(message, field.name)
        entity = field.entity_in(message)
        if entity is Entity.TOPIC_ID and isinstance(value, UUID):
            topic = find_topic(value) or topic
        elif entity is Entity.TOPIC_NAME and isinstance(value, str):
            topic = value or topic
        elif entity is Entity.PARTITION and isinstance(value, int):
            partition = f"-{value}"
    for name, value in values.items():
        if name.endswith(_ERROR_CODE) and isinstance(value, int) and value != ErrorCode.NONE:
            yield topic + partition if topic else "", _error_name(value)
        for item in _items(value):
            if isinstance(getattr(type(item), "__schema__", None), Schema):
                yield from _placed_errors(item, topic, find_topic)


def _error_name(code: int) -> str:
    return _CODES[code].name if code in _CODES else f"error {code}"


def _leaves(message: object) -> Iterator[tuple[object, Field, object]]:
    """Every value in a message that is not a message itself, with the struct it is in."""
    waiting = [message]
    while waiting:
        value = waiting.pop()
        for field in schema_of(type(value)).fields:
            for item in _items(getattr(value, field.name)):
                if isinstance(getattr(type(item), "__schema__", None), Schema):
                    waiting.append(item)
                else:
                    yield value, field, item


def _items(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else (value,)
