"""Makes well-formed requests that make little or no sense."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final
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

_TEXTS: Final[Sequence[str]] = [
    "",
    ".",
    "..",
    "../outside",
    "fuzz-orders",
    "fuzz-orders",
    "fuzz-compacted",
    "fuzz-classic",
    "fuzz-consumer",
    "fuzz",
    "fuzz-new",
    "__consumer_offsets",
    "__transaction_state",
    "^fuzz-.*",
    "(a+)+b",
    "1",
    "-1",
    "range",
    "uniform",
    "consumer",
    "cleanup.policy",
    "retention.ms",
    "compact",
    "classic",
    "user",
    "client-id",
    "\0",
    "ü\u2028𐍈",
    "a" * 300,
    "x" * 32_767,
]
_SMALL: Final[Sequence[int]] = [0, 0, 0, 1, 1, 2, 3, -1, -2, 5, 100]
_EDGES: Final[Sequence[int]] = [127, 2**15 - 1, 2**31 - 1, 2**63 - 1]
_LIMITS: Final[Mapping[int, int]] = {size: 2 ** (8 * size - 1) for size in (1, 2, 4, 8)}


class Messages:
    """Makes messages of any class and version, field by field."""

    def __init__(self, rng: Random, batches: Sequence[bytes]) -> None:
        self._rng = rng
        self._batches = batches

    def make(self, cls: type[Any], version: int) -> Any:
        fields = [field for field in schema_of(cls).fields if field.is_in(version)]
        return cls(**{field.name: self._field(field, version) for field in fields})

    def _field(self, field: Field, version: int) -> Any:
        if field.is_nullable_in(version) and self._rng.random() < 0.2:
            return None
        return self._value(field.type, version)

    def _value(self, wire_type: WireType, version: int) -> Any:
        match wire_type:
            case Fixed():
                return self._number(wire_type)
            case Variable.STRING:
                return self._rng.choice(_TEXTS)
            case Variable.RECORDS:
                return memoryview(self._rng.choice(self._batches))
            case Variable():
                return self._rng.choice((b"", b"\0", b"\0\1\0\0\0\1\0\1a", self._rng.randbytes(40)))
            case Array():
                count = self._rng.choice((0, 1, 1, 1, 2, 3))
                return [self._value(wire_type.element, version) for _ in range(count)]
            case Struct():
                return self.make(wire_type.cls, version)

    def _number(self, wire_type: Fixed) -> Any:
        rng = self._rng
        if wire_type is BOOL:
            return rng.random() < 0.5
        if wire_type is FLOAT64:
            return rng.choice((0.0, -1.0, 1e308, float("inf"), float("nan")))
        if wire_type is UUID_BYTES:
            return UUID(int=rng.choice((0, 1, rng.getrandbits(128))))
        is_unsigned = wire_type.code.isupper()
        limit = _LIMITS[wire_type.size]
        number = (
            rng.choice(_SMALL) if rng.random() < 0.8 else rng.choice((1, -1)) * rng.choice(_EDGES)
        )
        if is_unsigned:
            return number % (2 * limit)
        return max(-limit, min(limit - 1, number))
