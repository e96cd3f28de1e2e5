"""Writing the source of one decoder: straight-line Python for one message class in one version.

Neighbouring fixed-size fields are read by one `struct` call, straight into the object, and so is
the length of a string or array that follows them:

    o1 = Draft()
    n2, = unpack_h(data, pos); pos += 2
    ...
    o1.generation_id, n3 = unpack_ih(data, pos)

Bounds are checked where it matters only: `struct` and indexing fail at the end of the data by
themselves, a slice that was cut short leaves the position beyond the end, which the next read or
the last line notices, and array lengths are compared with the bytes that are left, so that no
claim of a client allocates memory.

Not here: running it.  `codec` compiles the source on first use and keeps the function.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct as StructFormat
from struct import error as StructError
from struct import unpack_from
from typing import Any, Final
from uuid import UUID

from embedkafka.protocol.errors import ProtocolError
from embedkafka.protocol.message import Field, Schema, schema_of
from embedkafka.protocol.varint import decode_uvarint
from embedkafka.protocol.wire_types import UUID_BYTES, Array, Fixed, Struct, Variable, WireType

_LENGTH_CODE: Final = {Variable.STRING: "h", Variable.BYTES: "i", Variable.RECORDS: "i"}
_SIZE: Final = {"b": 1, "B": 1, "h": 2, "i": 4}


def decoder_source(schema: Schema, version: int) -> tuple[str, dict[str, Any]]:
    """Source of `decode(data) -> message`, and the names it refers to."""
    writer = _DecoderWriter(
        version=version,
        flexible=schema.is_flexible_in(version),
        keeps_views=_has_records(schema, version),
        namespace={
            **_NAMES,
            "what": f"{schema.cls.__qualname__} v{version}",
        },
    )
    writer.line("def decode(data):")
    writer.indent = 1
    writer.line(f"data = {'memoryview' if writer.keeps_views else 'bytes'}(data)")
    writer.line("end = len(data)")
    writer.line("pos = 0")
    writer.line("try:")
    writer.indent = 2
    result = writer.struct(schema)
    writer.line("if pos != end:")
    writer.line(" raise wrong_end(pos, end)")
    writer.line(f"return {result}")
    writer.indent = 1
    writer.line("except failures as failure:")
    writer.line(" raise malformed(what, pos, end, failure) from failure")
    return "\n".join(writer.lines), writer.namespace


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


def skip_tagged_fields(data: bytes | memoryview, position: int, count: int) -> int:
    """Step over `count` tagged fields, whatever they are, and return the position after them."""
    for _ in range(count):
        _, position = decode_uvarint(data, position)
        size, position = decode_uvarint(data, position)
        position += size
    return position


def _negative(name: str, length: int) -> ProtocolError:
    return ProtocolError(f"{name} has length {length}, and may not be null")


def _too_long(name: str, length: int, left: int) -> ProtocolError:
    return ProtocolError(f"{name} claims {length} elements where {left} bytes are left")


def _wrong_end(position: int, end: int) -> ProtocolError:
    if position < end:
        return ProtocolError(f"{end - position} bytes are left over")
    return ProtocolError(f"{position - end} bytes are missing at the end")


def _wrong_tag_size(name: str, claimed: int, used: int) -> ProtocolError:
    return ProtocolError(f"tagged field {name} claims {claimed} bytes and has {used}")


def _malformed(what: str, position: int, end: int, failure: Exception) -> ProtocolError:
    match failure:
        case UnicodeDecodeError():
            reason = "a string is not UTF-8"
        case ProtocolError():
            reason = str(failure)
        case _:
            reason = "the data ends too early"
    return ProtocolError(f"{what} is malformed near byte {position} of {end}: {reason}")


@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> UUID:
    """Topic ids come again and again, and `UUID()` is slow for what it does."""
    return UUID(bytes=raw)


_NAMES: Final[dict[str, Any]] = {
    "decode_uvarint": decode_uvarint,
    "failures": (ProtocolError, StructError, IndexError, UnicodeDecodeError),
    "malformed": _malformed,
    "negative": _negative,
    "skip_tagged_fields": skip_tagged_fields,
    "too_long": _too_long,
    "unpack_from": unpack_from,
    "uuid": _uuid,
    "wrong_end": _wrong_end,
    "wrong_tag_size": _wrong_tag_size,
}


@dataclass(slots=True, kw_only=True)
class _DecoderWriter:
    """Collects statements; holds back fixed-size reads that one `struct` call can do together."""

    version: int
    flexible: bool
    keeps_views: bool
    namespace: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    indent: int = 0
    _names: int = 0
    _format: str = ""
    _size: int = 0
    _targets: list[str] = field(default_factory=list)
    _conversions: list[str] = field(default_factory=list)

    def line(self, text: str) -> None:
        self.lines.append(" " * self.indent + text)

    def fresh(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, prefix: str, value: object) -> str:
        name = self.fresh(prefix)
        self.namespace[name] = value
        return name

    @contextmanager
    def _block(self, opening: str) -> Iterator[None]:
        """An indented block.  What is held back never crosses its borders."""
        self.flush()
        self.line(opening)
        self.indent += 1
        yield
        self.flush()
        self.indent -= 1

    def fixed(self, code: str, size: int, target: str) -> None:
        self._format += code
        self._size += size
        self._targets.append(target)

    def flush(self) -> None:
        """Read what was held back."""
        if not self._format:
            return
        if self._format == "B":
            self.line(f"{self._targets[0]} = data[pos]")
        else:
            name = "unpack_" + self._format.replace("?", "o")
            self.namespace[name] = StructFormat(">" + self._format).unpack_from
            self.line(f"{', '.join(self._targets)}, = {name}(data, pos)")
        self.line(f"pos += {self._size}")
        self.lines += [" " * self.indent + each for each in self._conversions]
        self._format, self._size, self._targets, self._conversions = "", 0, [], []

    def struct(self, schema: Schema) -> str:
        """Read a struct into a variable, and return its name."""
        self.flush()
        result = self.fresh("o")
        self.line(f"{result} = {self.constant('draft', schema.draft)}()")
        tags = []
        for each in schema.fields:
            target = f"{result}.{each.name}"
            if each.is_in(self.version) and each.tag is None:
                nullable = each.is_nullable_in(self.version)
                self.value(target, each.type, nullable=nullable)
            else:
                self.line(f"{target} = {self.constant('default', each.default)}")
                if each.is_in(self.version):
                    tags.append(each)
        if self.flexible:
            self._tagged_section(result, tags)
        self.flush()
        self.line(f"{result}.__class__ = {self.constant('frozen', schema.cls)}")
        return result

    def value(self, target: str, wire_type: WireType, *, nullable: bool) -> None:
        match wire_type:
            case Fixed():
                self.fixed(wire_type.code, wire_type.size, target)
                if wire_type is UUID_BYTES:
                    self._conversions.append(f"{target} = uuid({target})")
            case Variable():
                self._run_of_bytes(target, wire_type, nullable=nullable)
            case Array():
                self._array(target, wire_type.element, nullable=nullable)
            case Struct():
                self._nested(target, schema_of(wire_type.cls), nullable=nullable)

    def _length(self, code: str) -> str:
        """Read a length, -1 for null, into a variable and return its name."""
        length = self.fresh("n")
        if self.flexible:
            self.fixed("B", 1, length)
            self.flush()
            self.line(f"if {length} > 127:")
            self.line(f" {length}, pos = decode_uvarint(data, pos - 1)")
            self.line(f"{length} -= 1")
        else:
            self.fixed(code, _SIZE[code], length)
            self.flush()
        return length

    def _run_of_bytes(self, target: str, kind: Variable, *, nullable: bool) -> None:
        length = self._length(_LENGTH_CODE[kind])
        with self._unless_null(target, length, nullable=nullable):
            self.line(f"{target} = {self._slice(kind, f'data[pos:pos + {length}]')}")
            self.line(f"pos += {length}")

    def _slice(self, kind: Variable, data: str) -> str:
        if kind is Variable.STRING:
            return f"str({data}, 'utf-8')" if self.keeps_views else f"{data}.decode()"
        if kind is Variable.BYTES and self.keeps_views:
            return f"bytes({data})"
        return data

    @contextmanager
    def _unless_null(self, target: str, length: str, *, nullable: bool) -> Iterator[None]:
        """What is done with a value whose length has been read, when it is not null."""
        self.line(f"if {length} < 0:")
        if not nullable:
            self.line(f" raise negative({_field_name(target)}, {length})")
            yield
            return
        self.line(f" {target} = None")
        with self._block("else:"):
            yield

    def _array(self, target: str, element: WireType, *, nullable: bool) -> None:
        length = self._length("i")
        with self._unless_null(target, length, nullable=nullable):
            if isinstance(element, Fixed) and element is not UUID_BYTES:
                self._array_of_fixed(target, length, element)
            else:
                self._array_by_element(target, length, element)

    def _array_of_fixed(self, target: str, length: str, element: Fixed) -> None:
        self.line(f"if {length} * {element.size} > end - pos:")
        self.line(f" raise too_long({_field_name(target)}, {length}, end - pos)")
        self.line(f"{target} = list(unpack_from(f'>{{{length}}}{element.code}', data, pos))")
        self.line(f"pos += {length} * {element.size}")

    def _array_by_element(self, target: str, length: str, element: WireType) -> None:
        items = self.fresh("a")
        self.line(f"if {length} > end - pos:")
        self.line(f" raise too_long({_field_name(target)}, {length}, end - pos)")
        self.line(f"{target} = {items} = []")
        with self._block(f"for _ in range({length}):"):
            if isinstance(element, Struct):
                item = self.struct(schema_of(element.cls))
            else:
                item = self.fresh("e")
                self.value(item, element, nullable=False)
                self.flush()
            self.line(f"{items}.append({item})")

    def _nested(self, target: str, schema: Schema, *, nullable: bool) -> None:
        if not nullable:
            self.line(f"{target} = {self.struct(schema)}")
            return
        present = self.fresh("n")
        self.fixed("b", 1, present)
        with self._block(f"if {present} < 0:"):
            self.line(f"{target} = None")
        with self._block("else:"):
            self.line(f"{target} = {self.struct(schema)}")

    def _tagged_section(self, result: str, fields: list[Field]) -> None:
        count = self.fresh("n")
        self.fixed("B", 1, count)
        with self._block(f"if {count}:"):
            self.line(f"if {count} > 127:")
            self.line(f" {count}, pos = decode_uvarint(data, pos - 1)")
            if not fields:
                self.line(f"pos = skip_tagged_fields(data, pos, {count})")
                return
            with self._block(f"for _ in range({count}):"):
                self._tagged_field(result, fields)

    def _tagged_field(self, result: str, fields: list[Field]) -> None:
        tag, size, start = self.fresh("tag"), self.fresh("n"), self.fresh("start")
        self.line(f"{tag}, pos = decode_uvarint(data, pos)")
        self.line(f"{size}, pos = decode_uvarint(data, pos)")
        self.line(f"{start} = pos")
        for number, each in enumerate(fields):
            with self._block(f"{'el' if number else ''}if {tag} == {each.tag}:"):
                target = f"{result}.{each.name}"
                self.value(target, each.type, nullable=each.is_nullable_in(self.version))
                self.flush()
                self.line(f"if pos - {start} != {size}:")
                self.line(f" raise wrong_tag_size({each.name!r}, {size}, pos - {start})")
        self.line("else:")
        self.line(f" pos += {size}")


def _field_name(target: str) -> str:
    """The field in an assignment target, quoted for source: `o3.topics` is `'topics'`."""
    return repr(target.partition(".")[2] or "an element")
