"""Messages as plain values: requests from keywords, responses as dictionaries.

A test that compares whole answers needs every field by name, null told from empty, and error codes
as words.
"""

import uuid
from typing import Any, Final

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages.registry import request_type
from embedkafka.wire.protocol.wire_types import ZERO_UUID, Array, Struct, WireType
from tests.wire.raw_client import RawClient

#: A message or one of its fields as JSON would show it: the tests know its shape.
Plain = Any

_UNCOMPARED: Final = ("throttle_time_ms",)


def request(api: ApiKey, **fields: Plain) -> object:
    """The request of an API; structs are dictionaries, arrays are lists."""
    return _built(request_type(api), fields)


def ask(raw: RawClient, api: ApiKey, version: int | None = None, **fields: Plain) -> Plain:
    """The plain answer to a request made of `fields`."""
    return plain(raw.call(request(api, **fields), version))


def plain(value: object) -> Plain:
    """A response without its throttle time; codes are names, ids are `id` or `no id`."""
    if hasattr(type(value), "__schema__"):
        return {
            field.name: _named(getattr(value, field.name))
            if field.name.endswith("error_code")
            else plain(getattr(value, field.name))
            for field in schema_of(type(value)).fields
            if field.name not in _UNCOMPARED
        }
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, uuid.UUID):
        return "no id" if value == ZERO_UUID else "id"
    return value


def _built(cls: type[Any], values: dict[str, Plain]) -> object:
    types = {field.name: field.type for field in schema_of(cls).fields}
    return cls(**{name: _typed(types[name], value) for name, value in values.items()})


def _typed(wire_type: WireType, value: Plain) -> Plain:
    if isinstance(wire_type, Array) and value is not None:
        return [_typed(wire_type.element, item) for item in value]
    if isinstance(wire_type, Struct) and value is not None:
        return _built(wire_type.cls, value)
    return value


def _named(code: int) -> str:
    return ErrorCode(code).name
