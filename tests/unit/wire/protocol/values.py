"""Hypothesis strategies for any message in any version, derived from its declaration."""

from functools import cache
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import Field, schema_of
from embedkafka.wire.protocol.messages import internal
from embedkafka.wire.protocol.messages.registry import FAMILIES, request_type, response_type
from embedkafka.wire.protocol.wire_types import (
    BOOL,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT16,
    UUID_BYTES,
    Array,
    Fixed,
    Struct,
    Variable,
    WireType,
)

REQUESTS_AND_RESPONSES: list[type[Any]] = [
    cls
    for apis in FAMILIES.values()
    for api in apis
    for cls in (request_type(api), response_type(api))
]

RECORD_MESSAGES: list[type[Any]] = [
    cls for cls in vars(internal).values() if getattr(cls, "__module__", "") == internal.__name__
]

ALL_MESSAGES: list[type[Any]] = [*REQUESTS_AND_RESPONSES, *RECORD_MESSAGES]

_FIXED: dict[Fixed, st.SearchStrategy[Any]] = {
    BOOL: st.booleans(),
    INT8: st.integers(-(2**7), 2**7 - 1),
    INT16: st.integers(-(2**15), 2**15 - 1),
    UINT16: st.integers(0, 2**16 - 1),
    INT32: st.integers(-(2**31), 2**31 - 1),
    INT64: st.integers(-(2**63), 2**63 - 1),
    FLOAT64: st.floats(allow_nan=False),
    UUID_BYTES: st.integers(0, 2**128 - 1).map(lambda number: UUID(int=number)),
}
_VARIABLE: dict[Variable, st.SearchStrategy[Any]] = {
    Variable.STRING: st.one_of(st.text(max_size=8), st.just("long" * 40)),
    Variable.BYTES: st.one_of(st.binary(max_size=8), st.just(b"long" * 40)),
    Variable.RECORDS: st.one_of(st.binary(max_size=8), st.just(b"long" * 5000)).map(memoryview),
}

# Kafka has plain integers for codes, durations and times; kio has types of narrower range.
_KNOWN_CODES = st.sampled_from([int(code) for code in ErrorCode])
_DURATIONS = st.integers(-(2**31), 2**31 - 1)
_TIMES = st.integers(0, 2**41)


def versions_of(cls: type[Any]) -> range:
    """All versions of a message; the lowest need not be 0."""
    first, last = schema_of(cls).versions
    return range(first, last + 1)


@cache
def values_of(cls: Any, version: int) -> st.SearchStrategy[Any]:
    """Instances with every field of `version` drawn and all others at their defaults."""
    return st.builds(
        cls,
        **{
            field.name: _field_values(field, version)
            for field in schema_of(cls).fields
            if field.is_in(version)
        },
    )


def _field_values(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.name.endswith("error_code"):
        values = _KNOWN_CODES
    elif field.name.endswith("_ms") or field.name.endswith("timestamp"):
        values = _DURATIONS if field.type == INT32 else _TIMES
    else:
        values = _type_values(field.type, version)
    return st.none() | values if field.is_nullable_in(version) else values


def _type_values(wire_type: WireType, version: int) -> st.SearchStrategy[Any]:
    match wire_type:
        case Fixed():
            return _FIXED[wire_type]
        case Variable():
            return _VARIABLE[wire_type]
        case Array():
            return st.lists(_type_values(wire_type.element, version), max_size=2)
        case Struct():
            cls: Any = wire_type.cls
            return values_of(cls, version)
