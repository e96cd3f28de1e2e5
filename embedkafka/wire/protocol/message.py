"""Declares messages: one frozen class covers every version of one request, response or struct.

    @message(api=ApiKey.HEARTBEAT, versions=(0, 4), flexible=4)
    class HeartbeatRequest:
        group_id: str
        generation_id: Int32
        member_id: str
        group_instance_id: str | None = since(3, default=None)

Fields are in the order of the wire.  In a version without a field, the codec skips the field
whatever its value, and decoding sets its default, so that code which reads or builds messages needs
no branches by version.

Classes are keyword-only, frozen, have slots, and compare by value (a list equals a tuple of the
same elements).  Only the codec reads a class's `Schema`.

Not here: bytes.  `codec` turns declarations into encoders and decoders.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast, dataclass_transform

from embedkafka.runtime.values import (
    REFUSALS,
    REQUIRED,
    NamedTuple,
    make_class,
)
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.wire_types import Entities, Entity, EntityBy, WireType, wire_type_of

__all__ = [
    "REQUIRED",
    "Field",
    "Schema",
    "message",
    "nullable_since",
    "replace",
    "schema_of",
    "since",
    "struct",
    "tagged",
    "until",
]

T = TypeVar("T")
M = TypeVar("M")


class Field(NamedTuple):
    """One field of a struct, in all versions of the message."""

    name: str
    type: WireType
    first_version: int = 0
    last_version: int | None = None
    nullable_since: int | None = None
    tag: int | None = None
    default: object = REQUIRED
    entity: Entities = None
    """What it names; of an array, what its elements name."""

    def is_in(self, version: int) -> bool:
        return self.first_version <= version and (
            self.last_version is None or version <= self.last_version
        )

    def is_nullable_in(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since

    def entity_in(self, owner: object) -> Entity | None:
        """What it names in `owner`, a struct with this field."""
        if isinstance(self.entity, EntityBy):
            return dict(self.entity.kinds).get(getattr(owner, self.entity.field))
        return self.entity

    @property
    def entities(self) -> frozenset[Entity]:
        """All that it may name."""
        if isinstance(self.entity, EntityBy):
            return frozenset(dict(self.entity.kinds).values())
        return frozenset() if self.entity is None else frozenset({self.entity})


class Schema(NamedTuple):
    """A class as the codec sees it.  Structs have the versions of the message around them."""

    cls: type[Any]  # Any: one codec serves every message class
    fields: tuple[Field, ...]
    api: ApiKey | None = None
    versions: tuple[int, int] = (0, 0)
    flexible: int | None = None

    def is_flexible_in(self, version: int) -> bool:
        return self.flexible is not None and version >= self.flexible


class _Rule(NamedTuple):
    """The rule that `since`, `until`, `tagged` and `nullable_since` leave in the class body."""

    default: object
    first_version: int = 0
    last_version: int | None = None
    nullable_since: int | None = None
    tag: int | None = None


def since(
    version: int, *, default: T, until: int | None = None, nullable_since: int | None = None
) -> T:
    """A field that first appears in `version`, and last in `until`."""
    return cast(
        T,  # the type is a lie, as with dataclasses.field: the class body holds a rule, not a value
        _Rule(
            default=default,
            first_version=version,
            last_version=until,
            nullable_since=nullable_since,
        ),
    )


def until(version: int, *, default: T, nullable_since: int | None = None) -> T:
    """A field of the oldest versions, which last appears in `version`."""
    rule = _Rule(default=default, last_version=version, nullable_since=nullable_since)
    return cast(T, rule)  # as in since()


def tagged(tag: int, *, since: int, default: T) -> T:
    """A field in the tagged section of a flexible version, written only when it is not `default`.

    Pass the default object itself where you can: comparing it by `is` is cheap.
    """
    return cast(T, _Rule(default=default, first_version=since, tag=tag))  # as in since()


def nullable_since(version: int, *, default: Any = REQUIRED) -> Any:  # Any: REQUIRED fits no field
    """A field of all versions that may be null from `version` on."""
    return _Rule(default=default, nullable_since=version)


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(since, until, tagged, nullable_since),
)
def message(
    *, versions: tuple[int, int], flexible: int | None = None, api: ApiKey | None = None
) -> Callable[[type[M]], type[M]]:
    """Makes the class a message in `versions`; `flexible` is the first with tagged fields.

    Messages without `api` are records or headers, not requests or responses.
    """

    def declare(body: type[M]) -> type[M]:
        return _build(body, api=api, versions=versions, flexible=flexible)

    return declare


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(since, until, tagged, nullable_since),
)
def struct(body: type[M]) -> type[M]:
    """Makes the class a struct inside messages."""
    return _build(body, api=None, versions=(0, 0), flexible=None)


def schema_of(cls: type[Any]) -> Schema:
    """The declaration of a class made with `@message` or `@struct`."""
    schema = getattr(cls, "__schema__", None)
    if not isinstance(schema, Schema):
        raise TypeError(f"{cls.__qualname__} is not a message")
    return schema


def replace(original: M, **changes: Any) -> M:  # Any: fields have many types
    """A copy of a message with some fields changed, like `dataclasses.replace`."""
    cls = type(original)
    values = {f.name: getattr(original, f.name) for f in schema_of(cls).fields}
    return cls(**(values | changes))


def _build(
    body: type[M], *, api: ApiKey | None, versions: tuple[int, int], flexible: int | None
) -> type[M]:
    """The final class: slots instead of defaults, a constructor, and comparison by value."""
    names = tuple(body.__annotations__)
    rules = {name: vars(body).get(name, REQUIRED) for name in names}

    def declare(cls: type[Any]) -> Schema:
        return Schema(
            cls=cls,
            fields=tuple(_field(name, body.__annotations__[name], rules[name]) for name in names),
            api=api,
            versions=versions,
            flexible=flexible,
        )

    def find_defaults() -> dict[str, object]:
        return {field.name: field.default for field in schema_of(cls).fields}

    methods = {**_VALUE_METHODS, "__schema__": _SchemaOnFirstUse(declare)}
    cls = make_class(body, names, methods, find_defaults, kw_only=True)
    return cast(type[M], cls)  # made from the body, with the same fields


class _SchemaOnFirstUse:
    """Makes a class's `__schema__` on first use: most messages of a family are never sent."""

    __slots__ = ("_declare",)

    def __init__(self, declare: Callable[[type[Any]], Schema]) -> None:
        self._declare = declare

    def __get__(self, instance: object, cls: type[Any]) -> Schema:
        schema = self._declare(cls)
        cls.__schema__ = schema
        return schema


def _field(name: str, annotation: object, default: object) -> Field:
    wire_type, nullable, entity = wire_type_of(annotation)
    rule = default if isinstance(default, _Rule) else _Rule(default=default)
    return Field(
        name=name,
        type=wire_type,
        first_version=rule.first_version,
        last_version=rule.last_version,
        nullable_since=(rule.nullable_since or 0) if nullable else None,
        tag=rule.tag,
        default=rule.default,
        entity=entity,
    )


def _comparable(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _equal(self: object, other: object) -> bool:
    if type(self) is not type(other):
        return False
    return all(
        _comparable(getattr(self, f.name)) == _comparable(getattr(other, f.name))
        for f in schema_of(type(self)).fields
    )


_SECRETS: Final = frozenset({"auth_bytes", "hmac", "salted_password"})
"""Fields that log someone in."""
_SECRET_SETTINGS: Final = ("password", "secret", "jaas.config", "keystore.key")
"""What is in the names of settings whose values do."""


def _repr(self: object) -> str:
    """Shows only values that differ from the defaults: responses have dozens of fields.

    Values that are secrets are left out: a repr ends up in logs and in reports of failed tests.
    """
    shown = (
        f"{f.name}={'(hidden)' if _is_secret(self, f.name) else repr(getattr(self, f.name))}"
        for f in schema_of(type(self)).fields
        if f.default is REQUIRED or getattr(self, f.name) != f.default
    )
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _is_secret(message: object, field: str) -> bool:
    if field != "value":
        return field in _SECRETS
    setting = str(getattr(message, "name", ""))
    return any(part in setting for part in _SECRET_SETTINGS)


_VALUE_METHODS: Final[dict[str, Any]] = {
    "__eq__": _equal,
    "__hash__": None,  # most messages hold lists
    "__repr__": _repr,
    **REFUSALS,
}
