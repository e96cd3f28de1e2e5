"""Builds the answer that refuses a request, as its response's declaration has it.

The error is at the top if the response has a place for it there, else in an entry for each entry of
the request. An entry names what the request names; every other field has its default or, without
one, the default of Kafka's schemas: 0, "", no elements, null where that is allowed.

Not here: which error it is, and when.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import REQUIRED, Field, replace, schema_of
from embedkafka.wire.protocol.messages.registry import response_type
from embedkafka.wire.protocol.wire_types import (
    BOOL,
    UUID_BYTES,
    ZERO_UUID,
    Array,
    Entities,
    Struct,
    Variable,
    WireType,
)

Message = Any  # Any: of any message class
Class = type[Any]  # Any: likewise

_ERRORS: Final = frozenset({"error_code", "partition_error_code"})
_REASON: Final = "error_message"

_AT_THE_TOP_AND_IN_ENTRIES: Final = frozenset(
    {
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ELECT_LEADERS,
        ApiKey.FETCH,
        ApiKey.LEADER_AND_ISR,
        ApiKey.METADATA,
        ApiKey.STOP_REPLICA,
    }
)


def refusal(
    request: Message,
    code: ErrorCode,
    version: int,
    message: str | None = None,
    *,
    everywhere: bool = False,
    in_part: bool = False,
) -> Message:
    """The answer with `code` for everything in `request`.

    `everywhere`: also in entries that Kafka leaves out if the error is above them, for those who
    take them from there. `in_part`: in entries, not at the top, since others get an answer.
    """
    api = schema_of(type(request)).api
    assert api is not None, f"{type(request).__name__} is not a request"
    everywhere = everywhere or api in _AT_THE_TOP_AND_IN_ENTRIES
    how = _Refusal(code, version, message, everywhere)
    asked = _entry(request, {}, version)._replace(names={})
    response = how.struct(response_type(api), asked, is_answered=in_part)
    if in_part and hasattr(response, "error_code"):
        response = replace(response, error_code=ErrorCode.NONE)
    return _ODD[api](how, request, response) if api in _ODD else response


def joined(answer: Message, refused: Message, *, refused_first: bool = False) -> Message:
    """The answer to some entries of a request, and the refusal of the others."""
    lists = {}
    for field in schema_of(type(answer)).fields:
        if _holds_errors(field.type):
            parts = [getattr(answer, field.name), getattr(refused, field.name)]
            first, second = reversed(parts) if refused_first else parts
            lists[field.name] = [*first, *second]
    return replace(answer, **lists)


def merged(message: Message) -> Message:
    """A copy in which no two entries name the same."""
    lists = {}
    for field in schema_of(type(message)).fields:
        if _holds_errors(field.type):
            found: dict[object, Message] = {}
            for entry in getattr(message, field.name):
                key = _key(entry)
                found[key] = joined(found[key], entry) if key in found else entry
            lists[field.name] = [merged(entry) for entry in found.values()]
    return replace(message, **lists)


def _key(entry: Message) -> object:
    return tuple(getattr(entry, each.name) for each in schema_of(type(entry)).fields if each.entity)


def can_refuse(api: ApiKey) -> bool:
    """Whether the responses of an API have a place for an error."""
    return _holds_errors(Struct(response_type(api)))


def default_of(field: Field, version: int) -> object:
    """The value of a field that is not set; of a required one, by its type, as Kafka has it."""
    kind = field.type
    if field.default is not REQUIRED:
        return field.default
    if field.is_nullable_in(version):
        return None
    if isinstance(kind, Array):
        return []
    if isinstance(kind, Struct):
        inner = {each.name: default_of(each, version) for each in schema_of(kind.cls).fields}
        return kind.cls(**inner)
    if isinstance(kind, Variable):
        return "" if kind is Variable.STRING else b""
    if kind == UUID_BYTES:
        return ZERO_UUID
    return False if kind == BOOL else 0


class _Entry(NamedTuple):
    """A struct of the request, or a bare value in one of its lists."""

    names: Mapping[object, object]
    """Its values, and those of the structs around it, by the field and by what they name."""
    lists: Sequence[tuple[Field, Iterable[object]]] = ()


class _Refusal(NamedTuple):
    code: ErrorCode
    version: int
    message: str | None
    is_everywhere: bool

    def struct(self, cls: Class, asked: _Entry, *, is_answered: bool = False) -> Message:
        fields = _fields(cls, self.version)
        goes_on = is_answered or self.is_everywhere
        is_here = not goes_on and any(field.name in _ERRORS for field in fields)
        return cls(**{field.name: self._value(field, asked, is_here=is_here) for field in fields})

    def _value(self, field: Field, asked: _Entry, *, is_here: bool) -> object:
        if field.name in _ERRORS:
            return self.code
        if field.name == _REASON:
            return self.message
        if _holds_errors(field.type):
            return default_of(field, self.version) if is_here else self._list(field, asked)
        value = asked.names.get(field.entity) if field.entity else None
        if value is None and field.default is REQUIRED:
            if isinstance(field.type, Array) and self._is_in(field, asked):
                return self._list(field, asked)
            value = asked.names.get(field.name)
        return default_of(field, self.version) if value is None else value

    def _list(self, field: Field, asked: _Entry) -> list[Message]:
        cls = _element(field.type)
        assert cls is not None
        return [self.struct(cls, one) for one in self._entries(asked, _named(field, self.version))]

    def _is_in(self, field: Field, asked: _Entry) -> bool:
        """Whether the request has the same list."""
        named = _named(field, self.version)
        return any(
            field.name == each.name or named & _named(each, self.version) for each, _ in asked.lists
        )

    def _entries(self, asked: _Entry, named: frozenset[Entities]) -> list[_Entry]:
        """The structs of the request's first list or, if only they name it all, those in them."""
        if not asked.lists:
            return []
        field, items = asked.lists[0]
        found: list[_Entry] = []
        for item in items:
            entry = _entry(item, asked.names, self.version, field.entity)
            missing = named - entry.names.keys()
            if any(missing & _named(each, self.version) for each, _ in entry.lists):
                found += self._entries(entry, named)
            else:
                found.append(entry)
        return found


def _entry(
    item: object, outer: Mapping[object, object], version: int, entity: Entities = None
) -> _Entry:
    if not hasattr(item, "__schema__"):
        return _Entry({**outer, entity: item, "key": item})  # as FindCoordinator calls it
    names = dict(outer)
    lists = []
    for field in _fields(type(item), version):
        value = getattr(item, field.name)
        if isinstance(field.type, Array):
            lists.append((field, value or ()))
        else:
            names[field.name] = value
            names[field.entity] = value
    return _Entry(names, lists)


def _fields(cls: Class, version: int) -> list[Field]:
    return [field for field in schema_of(cls).fields if field.is_in(version)]


def _element(kind: WireType) -> Class | None:
    """The class of the structs in a list; None for other fields."""
    return (
        kind.element.cls if isinstance(kind, Array) and isinstance(kind.element, Struct) else None
    )


def _named(field: Field, version: int) -> frozenset[Entities]:
    """What the elements of a list name."""
    cls = _element(field.type)
    inner = [] if cls is None else _fields(cls, version)
    values = [each for each in inner if not isinstance(each.type, Array)]
    return frozenset(each.entity for each in (field, *values) if each.entity)


@cache
def _holds_errors(kind: WireType) -> bool:
    """Whether structs of this kind have a place for an error, in any version."""
    cls = kind.cls if isinstance(kind, Struct) else _element(kind)
    return cls is not None and any(
        field.name in _ERRORS or (_element(field.type) is not None and _holds_errors(field.type))
        for field in schema_of(cls).fields
    )


# --- where Kafka is odd


def _fetched(how: _Refusal, request: Message, response: Message) -> Message:
    """Clients take an error at the top for one of the session, and look no further."""
    return replace(response, error_code=ErrorCode.NONE) if response.responses else response


def _described(how: _Refusal, request: Message, response: Message) -> Message:
    """A null name is not sent back; ids are."""
    topics = [replace(topic, name=topic.name or "") for topic in response.topics]
    return replace(response, topics=topics)


def _marked(how: _Refusal, request: Message, response: Message) -> Message:
    """Of the markers of one producer the last one counts, and none that has no partitions."""
    last = {marker.producer_id: marker for marker in response.markers}
    return replace(
        response,
        markers=[
            replace(marker, topics=[topic for topic in marker.topics if topic.partitions])
            for marker in last.values()
        ],
    )


def _credentials_altered(how: _Refusal, request: Message, response: Message) -> Message:
    """Deletions and upsertions have one list of users."""
    users = {change.name for change in (*request.deletions, *request.upsertions)}
    cls = type(response).User
    return replace(
        response, results=[how.struct(cls, _Entry({"user": user})) for user in sorted(users)]
    )


_ODD: Final[Mapping[ApiKey, Callable[[_Refusal, Message, Message], Message]]] = {
    ApiKey.FETCH: _fetched,
    ApiKey.METADATA: _described,
    ApiKey.WRITE_TXN_MARKERS: _marked,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _credentials_altered,
    # No broker, as Kafka has it.
    ApiKey.FIND_COORDINATOR: lambda how, asked, answer: replace(answer, node_id=-1, port=-1),
    # Directories are not what the request names; before v3 there is no place for the error.
    ApiKey.DESCRIBE_LOG_DIRS: lambda how, asked, answer: replace(answer, results=()),
}
