"""Writes the source of one decoder: straight-line Python for one message class in one version.

One `struct` call reads neighbouring fixed-size fields straight into the object, together with the
length of a string or array that follows:

    o1.generation_id, n3, = unpack_ih(data, pos)
    pos += 6
    if n3 < 0:
     raise negative('member_id', n3)
    o1.member_id = data[pos:pos + n3].decode('utf-8', 'replace')
    pos += n3

We check bounds only where necessary.  `struct` and indexing fail at the end of the data anyway.  A
slice cut short leaves the position beyond the end, which the next read or the last line notices.
Array lengths are compared with the bytes left, so that a client cannot make us allocate more than
it sends.  As in Kafka, bytes that are not UTF-8 are replaced.

Not here: running the source.  `codec` compiles it on first use and keeps the function.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from struct import Struct as StructFormat
from struct import error as StructError
from struct import unpack_from
from typing import Final
from uuid import UUID

from embedkafka.runtime.codegen import Source
from embedkafka.runtime.values import make_draft
from embedkafka.wire.protocol.errors import ProtocolError
from embedkafka.wire.protocol.message import Field, Schema, schema_of
from embedkafka.wire.protocol.varint import decode_uvarint, skip_tagged_fields
from embedkafka.wire.protocol.wire_types import (
    INT8,
    INT16,
    INT32,
    UUID_BYTES,
    Array,
    Fixed,
    Struct,
    Variable,
    WireType,
)


def decoder_source(schema: Schema, version: int) -> Source:
    """Source of `decode(data, surplus_allowed=False) -> message`."""
    source = Source({**_NAMES, "what": f"{schema.cls.__qualname__} v{version}"})
    has_records = _has_records(schema, version)
    writer = _DecoderWriter(
        source, version, flexible=schema.is_flexible_in(version), keeps_views=has_records
    )
    with source.block("def decode(data, surplus_allowed=False):"):
        source.line(f"data = {'memoryview' if has_records else 'bytes'}(data)")
        source.line("end = len(data)")
        source.line("pos = 0")
        with source.block("try:"):
            result = writer.struct(schema)
            source.line("if pos != end and (pos > end or not surplus_allowed):")
            source.line(" raise wrong_end(pos, end)")
            source.line(f"return {result}")
        source.line("except failures as failure:")
        source.line(" raise malformed(what, pos, end, failure) from failure")
    return source


def _has_records(schema: Schema, version: int) -> bool:
    return any(_holds_records(f.type, version) for f in schema.fields if f.is_in(version))


def _holds_records(wire_type: WireType, version: int) -> bool:
    match wire_type:
        case Array():
            return _holds_records(wire_type.element, version)
        case Struct():
            return _has_records(schema_of(wire_type.cls), version)
        case _:
            return wire_type is Variable.RECORDS


def _negative(name: str, length: int) -> ProtocolError:
    return ProtocolError(f"{name} has length {length}, and may not be null")


def _long_string(length: int) -> ProtocolError:
    return ProtocolError(f"a string has {length} bytes, where {_MAX_STRING} are allowed")


def _too_long(name: str, length: int, left: int) -> ProtocolError:
    return ProtocolError(f"{name} claims {length} elements where {left} bytes are left")


def _wrong_end(position: int, end: int) -> ProtocolError:
    if position < end:
        return ProtocolError(f"{end - position} bytes are left over")
    return ProtocolError(f"{position - end} bytes are missing at the end")


def _malformed(what: str, position: int, end: int, failure: Exception) -> ProtocolError:
    match failure:
        case ProtocolError():
            reason = str(failure)
        case _:
            reason = "the data ends too early"
    return ProtocolError(f"{what} is malformed near byte {position} of {end}: {reason}")


@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> UUID:
    """Cached: the same topic ids recur, and `UUID()` is slow."""
    return UUID(bytes=raw)


_LENGTH_TYPE: Final = {Variable.STRING: INT16, Variable.BYTES: INT32, Variable.RECORDS: INT32}
# A compact string could be longer, but Kafka refuses those.
_MAX_STRING: Final = 2**15 - 1
_BYTE: Final = Fixed("B", 1)

_NAMES: Final[Mapping[str, object]] = {
    "decode_uvarint": decode_uvarint,
    "failures": (ProtocolError, StructError, IndexError),
    "long_string": _long_string,
    "malformed": _malformed,
    "negative": _negative,
    "skip_tagged_fields": skip_tagged_fields,
    "too_long": _too_long,
    "unpack_from": unpack_from,
    "uuid": _uuid,
    "wrong_end": _wrong_end,
}


class _DecoderWriter:
    """Writes statements; holds back fixed-size reads, so that one `struct` call does several."""

    __slots__ = (
        "_conversions",
        "_flexible",
        "_format",
        "_keeps_views",
        "_size",
        "_source",
        "_targets",
        "_version",
    )

    def __init__(self, source: Source, version: int, *, flexible: bool, keeps_views: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible
        self._keeps_views = keeps_views
        self._format = ""
        self._size = 0
        self._targets: list[str] = []
        self._conversions: list[str] = []

    def struct(self, schema: Schema) -> str:
        """Reads a struct into a variable and returns its name."""
        self._flush()
        result = self._source.fresh("o")
        self._source.line(f"{result} = {self._source.constant('draft', make_draft(schema.cls))}()")
        tagged = []
        for field in schema.fields:
            target = f"{result}.{field.name}"
            if field.is_in(self._version) and field.tag is None:
                nullable = field.is_nullable_in(self._version)
                self._value(target, field.type, nullable=nullable)
                continue
            default = self._source.constant("default", field.default)
            self._source.line(f"{target} = {default}")
            if field.is_in(self._version):
                tagged.append(field)
        if self._flexible:
            self._tagged_section(result, tagged)
        self._flush()
        self._source.line(f"{result}.__class__ = {self._source.constant('frozen', schema.cls)}")
        return result

    def _fixed(self, kind: Fixed, target: str) -> None:
        """Holds back the read of a fixed-size value."""
        self._format += kind.code
        self._size += kind.size
        self._targets.append(target)

    def _flush(self) -> None:
        """Writes the reads held back."""
        if not self._format:
            return
        if self._format == "B":
            self._source.line(f"{self._targets[0]} = data[pos]")
        else:
            name = "unpack_" + self._format.replace("?", "o")
            self._source.namespace[name] = StructFormat(">" + self._format).unpack_from
            self._source.line(f"{', '.join(self._targets)}, = {name}(data, pos)")
        self._source.line(f"pos += {self._size}")
        for conversion in self._conversions:
            self._source.line(conversion)
        self._format, self._size, self._targets, self._conversions = "", 0, [], []

    @contextmanager
    def _block(self, opening: str) -> Iterator[None]:
        """An indented block.  Reads held back never cross its borders."""
        self._flush()
        with self._source.block(opening):
            yield
            self._flush()

    def _value(self, target: str, wire_type: WireType, *, nullable: bool) -> None:
        match wire_type:
            case Fixed():
                self._fixed(wire_type, target)
                if wire_type is UUID_BYTES:
                    self._conversions.append(f"{target} = uuid({target})")
            case Variable():
                self._run_of_bytes(target, wire_type, nullable=nullable)
            case Array():
                self._array(target, wire_type.element, nullable=nullable)
            case Struct():
                self._nested(target, schema_of(wire_type.cls), nullable=nullable)

    def _length(self, kind: Fixed) -> str:
        """Reads a length, -1 for null, into a variable and returns its name."""
        length = self._source.fresh("n")
        self._fixed(_BYTE if self._flexible else kind, length)
        self._flush()
        if self._flexible:
            self._source.line(f"if {length} > 127:")
            self._source.line(f" {length}, pos = decode_uvarint(data, pos - 1)")
            if kind is INT16:
                self._source.line(f" if {length} > {_MAX_STRING + 1}:")
                self._source.line(f"  raise long_string({length} - 1)")
            self._source.line(f"{length} -= 1")
        return length

    @contextmanager
    def _unless_null(self, target: str, length: str, *, nullable: bool) -> Iterator[None]:
        """The statements for a value that is not null, once its length has been read."""
        self._source.line(f"if {length} < 0:")
        if not nullable:
            self._source.line(f" raise negative({_field_name(target)}, {length})")
            yield
            return
        self._source.line(f" {target} = None")
        with self._block("else:"):
            yield

    def _run_of_bytes(self, target: str, kind: Variable, *, nullable: bool) -> None:
        length = self._length(_LENGTH_TYPE[kind])
        with self._unless_null(target, length, nullable=nullable):
            self._source.line(f"{target} = {self._slice(kind, f'data[pos:pos + {length}]')}")
            self._source.line(f"pos += {length}")

    def _slice(self, kind: Variable, data: str) -> str:
        """A slice of the data as text, bytes or a view."""
        if kind is Variable.STRING:
            if self._keeps_views:
                return f"str({data}, 'utf-8', 'replace')"
            return f"{data}.decode('utf-8', 'replace')"
        if kind is Variable.BYTES and self._keeps_views:
            return f"bytes({data})"
        return data

    def _array(self, target: str, element: WireType, *, nullable: bool) -> None:
        length = self._length(INT32)
        with self._unless_null(target, length, nullable=nullable):
            if isinstance(element, Fixed) and element is not UUID_BYTES:
                self._array_of_numbers(target, length, element)
            else:
                self._array_by_element(target, length, element)

    def _array_of_numbers(self, target: str, length: str, element: Fixed) -> None:
        self._source.line(f"if {length} * {element.size} > end - pos:")
        self._source.line(f" raise too_long({_field_name(target)}, {length}, end - pos)")
        numbers = f"unpack_from(f'>{{{length}}}{element.code}', data, pos)"
        self._source.line(f"{target} = list({numbers})")
        self._source.line(f"pos += {length} * {element.size}")

    def _array_by_element(self, target: str, length: str, element: WireType) -> None:
        items = self._source.fresh("a")
        self._source.line(f"if {length} > end - pos:")
        self._source.line(f" raise too_long({_field_name(target)}, {length}, end - pos)")
        self._source.line(f"{target} = {items} = []")
        with self._block(f"for _ in range({length}):"):
            if isinstance(element, Struct):
                item = self.struct(schema_of(element.cls))
            else:
                item = self._source.fresh("e")
                self._value(item, element, nullable=False)
                self._flush()
            self._source.line(f"{items}.append({item})")

    def _nested(self, target: str, schema: Schema, *, nullable: bool, null: int = -1) -> None:
        if not nullable:
            self._source.line(f"{target} = {self.struct(schema)}")
            return
        present = self._source.fresh("n")
        self._fixed(INT8, present)
        with self._block(f"if {present} <= {null}:"):
            self._source.line(f"{target} = None")
        with self._block("else:"):
            self._source.line(f"{target} = {self.struct(schema)}")

    def _tagged_section(self, result: str, fields: list[Field]) -> None:
        count = self._source.fresh("n")
        self._fixed(_BYTE, count)
        with self._block(f"if {count}:"):
            if not fields:
                self._source.line("pos = skip_tagged_fields(data, pos - 1)")
                return
            self._source.line(f"{count}, pos = decode_uvarint(data, pos - 1)")
            with self._block(f"for _ in range({count}):"):
                self._tagged_field(result, fields)

    def _tagged_field(self, result: str, fields: list[Field]) -> None:
        """Reads one tagged field if it is one of `fields`, whatever size it claims, or skips it."""
        tag, size = self._source.fresh("tag"), self._source.fresh("n")
        self._source.line(f"{tag}, pos = decode_uvarint(data, pos)")
        self._source.line(f"{size}, pos = decode_uvarint(data, pos)")
        for number, field in enumerate(fields):
            with self._block(f"{'el' if number else ''}if {tag} == {field.tag}:"):
                self._tagged_value(f"{result}.{field.name}", field)
        self._source.line("else:")
        self._source.line(f" pos += {size}")

    def _tagged_value(self, target: str, field: Field) -> None:
        """As any other value, except that the null of a struct is 0 here and -1 elsewhere."""
        nullable = field.is_nullable_in(self._version)
        if isinstance(field.type, Struct):
            self._nested(target, schema_of(field.type.cls), nullable=nullable, null=0)
        else:
            self._value(target, field.type, nullable=nullable)


def _field_name(target: str) -> str:
    """The field in an assignment target, quoted for source: `o3.topics` is `'topics'`."""
    return repr(target.partition(".")[2] or "an element")
