"""Decodes Avro's binary encoding with a schema that a person gave. Spark has another.

Bytes in the format of Confluent's registry, a zero and a schema id before the data, are taken too.
Owner: none.
Invariants: input that does not fit raises `AvroError`, and neither recursion nor counts run away.
Not here: logical types; a timestamp stays the number that it is stored as.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

_MAGIC_BYTES: Final = 5
_DEEPEST: Final = 64
_LONGEST: Final = 1_000_000  # items or bytes
_PARTS: Final[dict[str, dict[str, type]]] = {
    "record": {"name": str, "fields": list},
    "enum": {"name": str, "symbols": list},
    "fixed": {"name": str, "size": int},
    "array": {"items": object},
    "map": {"values": object},
}
"""What each kind of type consists of."""


class AvroError(ValueError):
    """The bytes are not of this schema, or the schema is not Avro's."""


def avro_decoder(schema: Any) -> Callable[[bytes], Any]:
    """Decodes values of one schema, as JSON would have them. Any: what JSON can hold.

    Raises:
        AvroError: it is not a schema.
    """
    named: dict[str, Any] = {}
    _collect(schema, named, 0)

    def decode(data: bytes) -> Any:
        attempts = [data[_MAGIC_BYTES:], data] if data[:1] == b"\0" else [data]
        for attempt in attempts:
            reader = _Reader(attempt, named)
            try:
                value = reader.value(schema, 0)
            except (AvroError, IndexError, struct.error, RecursionError):
                continue
            if reader.at == len(attempt):
                return value
        raise AvroError("these bytes are not of this schema")

    return decode


def _collect(schema: Any, named: dict[str, Any], depth: int) -> None:
    """Checks a schema, and finds the types that it names. Any: it is a name, list or mapping."""
    if depth > _DEEPEST:
        raise AvroError("the schema is too deep")
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, named, depth + 1)
    elif isinstance(schema, str):
        if schema not in _PRIMITIVES and _short(schema) not in named:
            raise AvroError(f"unknown type {schema!r}")
    elif isinstance(schema, Mapping) and "type" in schema:
        _collect_complex(schema, named, depth + 1)
    else:
        raise AvroError("a schema is a name, a list or an object with a type")


def _collect_complex(schema: Mapping[str, Any], named: dict[str, Any], depth: int) -> None:
    kind = schema["type"]
    if not isinstance(kind, str) or kind not in _PARTS:
        _collect(kind, named, depth)
        return
    for part, of in _PARTS[kind].items():
        if part not in schema or not isinstance(schema[part], of):
            raise AvroError(f"a type {kind!r} needs its {part}")
    if "name" in _PARTS[kind]:
        named[_short(schema["name"])] = schema
    for field in schema["fields"] if kind == "record" else ():
        if not isinstance(field, Mapping) or "name" not in field or "type" not in field:
            raise AvroError("a field needs a name and a type")
        _collect(field["type"], named, depth)
    if kind in ("array", "map"):
        _collect(schema["items" if kind == "array" else "values"], named, depth)


def _short(name: str) -> str:
    """Without its namespace."""
    return name.rpartition(".")[2]


class _Reader:
    def __init__(self, data: bytes, named: Mapping[str, Any]) -> None:
        self.data = data
        self.at = 0
        self._named = named

    def value(self, schema: Any, depth: int) -> Any:
        """Any: a schema is a name, a list or a mapping, and so is a value."""
        if depth > _DEEPEST:
            raise AvroError("the schema is too deep")
        if isinstance(schema, list):
            return self.value(schema[self._index()], depth + 1)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return _PRIMITIVES[schema](self)
            return self.value(self._named[_short(schema)], depth + 1)
        return self._complex(schema, depth)

    def _complex(self, schema: Mapping[str, Any], depth: int) -> Any:
        kind = schema["type"]
        if kind == "record":
            return {
                field["name"]: self.value(field["type"], depth + 1) for field in schema["fields"]
            }
        if kind == "enum":
            return schema["symbols"][self._index()]
        if kind == "fixed":
            return self._take(schema["size"]).hex()
        if kind == "array":
            return self._blocks(lambda: self.value(schema["items"], depth + 1))
        if kind == "map":
            pairs = self._blocks(lambda: (self._text(), self.value(schema["values"], depth + 1)))
            return dict(pairs)
        return self.value(kind, depth + 1)

    def _blocks(self, item: Any) -> list[Any]:
        items: list[Any] = []
        while count := self._long():
            if count < 0:
                self._long()  # the block's size in bytes
                count = -count
            if len(items) + count > _LONGEST:
                raise AvroError("too many items")
            items += [item() for _ in range(count)]
        return items

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise AvroError("the data ends early")
        taken = self.data[self.at : self.at + size]
        self.at += size
        return taken

    def _index(self) -> int:
        if (index := self._long()) < 0:
            raise AvroError("an index is negative")
        return index

    def _long(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise AvroError("a number is too long")

    def _text(self) -> str:
        return self._take(self._long()).decode(errors="backslashreplace")

    def _boolean(self) -> bool:
        return self._take(1) != b"\0"

    def _float(self) -> float:
        found: float = struct.unpack("<f", self._take(4))[0]
        return found

    def _double(self) -> float:
        found: float = struct.unpack("<d", self._take(8))[0]
        return found

    def _bytes(self) -> str:
        return self._take(self._long()).hex()

    def _null(self) -> None:
        return None


_PRIMITIVES: Final[dict[str, Any]] = {
    "null": _Reader._null,
    "boolean": _Reader._boolean,
    "int": _Reader._long,
    "long": _Reader._long,
    "float": _Reader._float,
    "double": _Reader._double,
    "bytes": _Reader._bytes,
    "string": _Reader._text,
}
