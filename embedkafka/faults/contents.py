"""What a request names, and what errors a response carries: read from the messages' schemas."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from uuid import UUID

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.message import Field, Schema, schema_of
from embedkafka.runtime.values import dataclass

FindTopic = Callable[[UUID], str | None]
"""Finds a topic's name, for requests that carry only its id."""

_TOPIC_NAMES: Final = frozenset({"topic", "name", "topic_name", "topics"})
_PARTITION_NAMES: Final = frozenset({"index", "partition", "partition_index", "partition_indexes"})
_GROUP_NAMES: Final = frozenset({"group_id", "groups_names", "key", "coordinator_keys"})
_ERROR_CODE: Final = "error_code"  # also the end of longer names
_CODES: Final = {int(code): code for code in ErrorCode}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The topics, partitions and groups that a request names anywhere."""

    topics: frozenset[str]
    partitions: frozenset[int]
    groups: frozenset[str]


def contents_of(request: object, find_topic: FindTopic) -> Contents:
    """What `request` names."""
    topics: set[str] = set()
    partitions: set[int] = set()
    groups: set[str] = set()
    for field, item in _leaves(request):
        if isinstance(item, UUID):
            if name := find_topic(item):
                topics.add(name)
        elif isinstance(item, str):
            if field.name in _TOPIC_NAMES and item:  # empty where there is an id
                topics.add(item)
            elif field.name in _GROUP_NAMES and item:
                groups.add(item)
        elif isinstance(item, int) and field.name in _PARTITION_NAMES:
            partitions.add(item)
    return Contents(
        topics=frozenset(topics), partitions=frozenset(partitions), groups=frozenset(groups)
    )


def errors_in(response: object) -> Counter[str]:
    """The names of the errors in `response`, and how often each is there."""
    return Counter(
        _error_name(item)
        for field, item in _leaves(response)
        if field.name.endswith(_ERROR_CODE) and isinstance(item, int) and item != ErrorCode.NONE
    )


def placed_errors(response: object, find_topic: FindTopic) -> Counter[tuple[str, str]]:
    """The errors in `response`, each with the topic or partition that it is about, if any."""
    return Counter(_placed_errors(response, "", find_topic))


def _placed_errors(message: object, topic: str, find_topic: FindTopic) -> Iterator[tuple[str, str]]:
    values = {field.name: getattr(message, field.name) for field in schema_of(type(message)).fields}
    partition = ""
    for name, value in values.items():
        if isinstance(value, UUID):
            topic = find_topic(value) or topic
        elif name in _TOPIC_NAMES and isinstance(value, str):
            topic = value or topic
        elif name in _PARTITION_NAMES and isinstance(value, int):
            partition = f"-{value}"
    for name, value in values.items():
        if name.endswith(_ERROR_CODE) and isinstance(value, int) and value != ErrorCode.NONE:
            yield topic + partition if topic else "", _error_name(value)
        for item in _items(value):
            if isinstance(getattr(type(item), "__schema__", None), Schema):
                yield from _placed_errors(item, topic, find_topic)


def _error_name(code: int) -> str:
    return _CODES[code].name if code in _CODES else f"error {code}"


def _leaves(message: object) -> Iterator[tuple[Field, object]]:
    """Every value in a message that is not a message itself."""
    waiting = [message]
    while waiting:
        value = waiting.pop()
        for field in schema_of(type(value)).fields:
            for item in _items(getattr(value, field.name)):
                if isinstance(getattr(type(item), "__schema__", None), Schema):
                    waiting.append(item)
                else:
                    yield field, item


def _items(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else (value,)
