"""Builds the response that reports one error for everything in a request.

If the response has an entry per topic, partition or the like, each entry of the request gets one
with the error; otherwise the error is at the top. OffsetFetch is the exception: from v2 on Kafka
refuses the group as a whole.
"""

from typing import Any, Final

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.message import REQUIRED, Field, schema_of
from embedkafka.protocol.messages.registry import response_type
from embedkafka.protocol.wire_types import (
    BOOL,
    UUID_BYTES,
    ZERO_UUID,
    Array,
    Entity,
    Struct,
    Variable,
)

_ERROR_CODE: Final = "error_code"  # also the end of longer names
_FIRST_GROUP_ERROR: Final = 2
_FIRST_BY_GROUP: Final = 8


def error_response(api_key: ApiKey, request: object, code: ErrorCode, *, version: int) -> object:
    """A response with `code` for everything in `request`."""
    cls = response_type(api_key)
    if api_key is ApiKey.OFFSET_FETCH and version >= _FIRST_GROUP_ERROR:
        return _refused_groups(cls, request, code, version)
    return _mirror(cls, request, code, version)


def can_fail(api_key: ApiKey) -> bool:
    """Whether responses of this API have a field for an error."""
    return api_key is not ApiKey.METADATA and _has_error(response_type(api_key))


def _mirror(
    cls: type[Any],  # Any: of any message class
    asked: object,
    code: ErrorCode,
    version: int,
) -> Any:
    values: dict[str, object] = {}
    errors: list[str] = []
    nested = False
    for field in _fields(cls, version):
        element = _element(field)
        if element is not None and _has_error(element):
            items = _items(asked, version)
            values[field.name] = [_mirror(element, item, code, version) for item in items]
            nested |= bool(items)
        elif field.name.endswith(_ERROR_CODE):
            errors.append(field.name)
        else:
            value = _find(asked, field)
            if value is not REQUIRED:
                values[field.name] = value
            elif field.default is REQUIRED:
                values[field.name] = _blank(field)
    if not nested:
        values |= dict.fromkeys(errors, code)
    return cls(**values)


def _refused_groups(
    cls: type[Any],  # Any: and the request, so that group messages are imported late
    asked: Any,
    code: ErrorCode,
    version: int,
) -> object:
    if version < _FIRST_BY_GROUP:
        return cls(error_code=code)
    groups = [group.group_id for group in asked.groups]
    return cls(groups=[cls.Group(group_id=name, topics=[], error_code=code) for name in groups])


def _fields(cls: type[Any], version: int) -> list[Field]:
    return [field for field in schema_of(cls).fields if field.is_in(version)]


def _element(field: Field) -> type[Any] | None:
    """The struct class of an array field; None for other fields."""
    if isinstance(field.type, Array) and isinstance(field.type.element, Struct):
        return field.type.element.cls
    return None


def _has_error(cls: type[Any]) -> bool:
    return any(
        field.name.endswith(_ERROR_CODE)
        or ((element := _element(field)) is not None and _has_error(element))
        for field in schema_of(cls).fields
    )


def _items(asked: object, version: int) -> list[object]:
    """The entries of a request, or of one of its entries: the first array."""
    fields = [] if isinstance(asked, int | str) else _fields(type(asked), version)
    for field in fields:
        if isinstance(field.type, Array):
            return list(getattr(asked, field.name) or ())
    return []


def _find(asked: object, wanted: Field) -> object:
    """What the request has for a field of the response: of the same name, or for the same thing."""
    if isinstance(asked, int | str):  # a bare name or partition number stands for an entry
        is_number = wanted.entity is Entity.PARTITION
        return asked if wanted.entity and isinstance(asked, int) == is_number else REQUIRED
    for field in schema_of(type(asked)).fields:
        is_same = field.name == wanted.name or (field.entity and field.entity == wanted.entity)
        if is_same and not isinstance(field.type, Array):
            return getattr(asked, field.name)
    return REQUIRED


def _blank(field: Field) -> object:
    kind = field.type
    if field.nullable_since == 0:
        return None
    if isinstance(kind, Array):
        return []
    if isinstance(kind, Struct):
        return kind.cls(**{f.name: _blank(f) for f in schema_of(kind.cls).fields})
    if isinstance(kind, Variable):
        return "" if kind is Variable.STRING else b""
    if kind == UUID_BYTES:
        return ZERO_UUID
    return False if kind == BOOL else -1
