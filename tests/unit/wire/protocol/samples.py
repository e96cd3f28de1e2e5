"""Two fixed values for any message in any version, the sources of the golden bytes.

`full` has every field set, two elements in every array, and no value twice; `sparse` has empty
arrays, and nulls where allowed. A changed rule here requires a new `golden/kafka_3_9.txt`.
"""

from itertools import count
from typing import Any
from uuid import UUID

from embedkafka.wire.protocol.message import Field, schema_of
from embedkafka.wire.protocol.wire_types import (
    BOOL,
    FLOAT64,
    UUID_BYTES,
    Array,
    Fixed,
    Struct,
    Variable,
    WireType,
)


def full(cls: type[Any], version: int) -> Any:
    return _Sampler(version=version, sparse=False).message(cls)


def sparse(cls: type[Any], version: int) -> Any:
    return _Sampler(version=version, sparse=True).message(cls)


class _Sampler:
    def __init__(self, *, version: int, sparse: bool) -> None:
        self._version = version
        self._sparse = sparse
        self._numbers = count(1)

    def message(self, cls: type[Any]) -> Any:
        fields = [f for f in schema_of(cls).fields if f.is_in(self._version)]
        return cls(**{f.name: self._field(f) for f in fields})

    def _field(self, field: Field) -> Any:
        if self._sparse and field.tag is not None:
            return field.default
        if self._sparse and field.is_nullable_in(self._version):
            return None
        return self._value(field.type)

    def _value(self, wire_type: WireType) -> Any:
        match wire_type:
            case Fixed():
                return self._fixed(wire_type, next(self._numbers))
            case Variable.STRING:
                return f"text {next(self._numbers)}"
            case Variable():
                return b"bytes %d" % next(self._numbers)
            case Array():
                return [self._value(wire_type.element) for _ in range(0 if self._sparse else 2)]
            case Struct():
                return self.message(wire_type.cls)

    @staticmethod
    def _fixed(wire_type: Fixed, number: int) -> Any:
        if wire_type is BOOL:
            return number % 2 == 1
        if wire_type is FLOAT64:
            return number + 0.5
        if wire_type is UUID_BYTES:
            return UUID(int=(number << 64) + number)
        return number % 100 + (1 << 8 * (wire_type.size - 1) if wire_type.size > 1 else 0)
