"""Decodes Avro's binary encoding with a schema that a person pasted; nothing else needs Avro.

Bytes in the format of Confluent's registry, a zero and a schema id before the data, are taken too.
Owner: none.
Invariants: input that does not fit raises `AvroError`, and neither recursion nor counts run away.
"""

import struct
from typing import Any, Final

_MAGIC_BYTES: Final = 5
_DEEPEST: Final = 64
_LONGEST: Final = 1_000_000  # items or bytes


class AvroError(ValueError):
    """The bytes are not of this schema, or the schema is not Avro's."""


def decode_avro(schema: Any, data: bytes) -> Any:
    """The value as JSON would have it. Any: what JSON can hold, of the schema too."""
    attempts = [data[_MAGIC_BYTES:], data] if data[:1] == b"\0" else [data]
    for attempt in attempts:
        reader = _Reader(attempt)
        try:
            value = reader.value(schema, 0)
        except (AvroError, IndexError, struct.error, RecursionError):
            continue
        if reader.at == len(attempt):
            return value
    raise AvroError("these bytes are not of this schema")


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self._named: dict[str, Any] = {}

    def value(self, schema: Any, depth: int) -> Any:
        """Any: a schema is a name, a list or a mapping, and so is a value."""
        if depth > _DEEPEST:
            raise AvroError("the schema is too deep")
        if isinstance(schema, list):
            return self.value(schema[self._long()], depth + 1)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return _PRIMITIVES[schema](self)
            if schema not in self._named:
                raise AvroError(f"unknown type {schema!r}")
            return self.value(self._named[schema], depth + 1)
        if not isinstance(schema, dict) or "type" not in schema:
            raise AvroError("a schema is a name, a list or an object with a type")
        return self._complex(schema, depth)

    def _complex(self, schema: dict[str, Any], depth: int) -> Any:
        kind = schema["type"]
        if "name" in schema:
            self._named[schema["name"]] = schema
        if kind == "record":
            return {
                field["name"]: self.value(field["type"], depth + 1) for field in schema["fields"]
            }
        if kind == "enum":
            return schema["symbols"][self._long()]
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
