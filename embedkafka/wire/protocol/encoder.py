"""Writes the source of one encoder: straight-line Python for one message class in one version.

One `struct` call packs neighbouring fixed-size fields, including the lengths of strings and arrays.
One statement adds all pieces between two loops to the output:

    b1 = m.group_id.encode()
    n2 = len(b1)
    b3 = m.member_id.encode()
    n4 = len(b3)
    out += (pack_h(n2), b1, pack_ih(m.generation_id, n4), b3)

Not here: running the source.  `codec` compiles it on first use and keeps the function.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from struct import Struct as StructFormat
from struct import pack
from typing import Any, Final

from embedkafka.runtime.codegen import Source
from embedkafka.wire.protocol.message import Field, Schema, schema_of
from embedkafka.wire.protocol.varint import encode_uvarint
from embedkafka.wire.protocol.wire_types import UUID_BYTES, Array, Fixed, Struct, Variable, WireType


def encoder_source(schema: Schema, version: int) -> Source:
    """Source of `encode(m) -> list[Part]`."""
    source = Source(_NAMES)
    writer = _EncoderWriter(source, version, flexible=schema.is_flexible_in(version))
    with source.block("def encode(m):"):
        source.line("parts = []")
        source.line("out = []")
        writer.struct("m", schema)
        writer.flush()
        source.line("if out:")
        source.line(" parts.append(join(out))")
        source.line("return parts")
    return source


def _size_of(records: Any) -> int:  # Any: bytes-like or with a `size`, see wire_types.Part
    """The size of a records value, which need not be in memory."""
    if isinstance(records, memoryview):
        return records.nbytes
    if isinstance(records, bytes | bytearray):
        return len(records)
    size: int = records.size
    return size


def _tag_section(fields: tuple[bytes, ...]) -> bytes:
    """The tagged section for a flat tuple of tags, sizes and values."""
    return b"".join((encode_uvarint(len(fields) // 3), *fields))


_LENGTH_CODE: Final = {Variable.STRING: "h", Variable.BYTES: "i", Variable.RECORDS: "i"}

_NAMES: Final[Mapping[str, object]] = {
    "join": b"".join,
    "pack": pack,
    "size_of": _size_of,
    "small": tuple(encode_uvarint(n) for n in range(128)),
    "tag_section": _tag_section,
    "uvarint": encode_uvarint,
}


class _EncoderWriter:
    """Writes statements; holds back values, so that one statement outputs several."""

    __slots__ = ("_arguments", "_flexible", "_format", "_pieces", "_sink", "_source", "_version")

    def __init__(self, source: Source, version: int, *, flexible: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible
        self._sink = "out"
        self._format = ""
        self._arguments: list[str] = []
        self._pieces: list[str] = []

    def struct(self, value: str, schema: Schema) -> None:
        """Writes the fields of the struct in the variable `value`."""
        fields = [field for field in schema.fields if field.is_in(self._version)]
        for field in fields:
            if field.tag is None:
                nullable = field.is_nullable_in(self._version)
                self._value(f"{value}.{field.name}", field.type, nullable=nullable)
        if self._flexible:
            self._tagged_section(value, [field for field in fields if field.tag is not None])

    def flush(self) -> None:
        """Writes the values held back."""
        self._end_fixed_run()
        if self._pieces:
            self._source.line(f"{self._sink} += ({', '.join(self._pieces)},)")
            self._pieces = []

    def _fixed(self, code: str, argument: str | None = None) -> None:
        """Holds back a value of constant size; a pad byte (`x`) takes no argument."""
        self._format += code
        if argument is not None:
            self._arguments.append(argument)

    def _piece(self, expression: str) -> None:
        """Holds back an expression of type bytes."""
        self._end_fixed_run()
        self._pieces.append(expression)

    def _end_fixed_run(self) -> None:
        if not self._format:
            return
        if self._arguments:
            name = "pack_" + self._format.replace("?", "o")
            self._source.namespace[name] = StructFormat(">" + self._format).pack
            self._pieces.append(f"{name}({', '.join(self._arguments)})")
        else:
            self._pieces.append(repr(bytes(len(self._format))))
        self._format = ""
        self._arguments = []

    @contextmanager
    def _block(self, opening: str) -> Iterator[None]:
        """An indented block.  Values held back never cross its borders."""
        self.flush()
        with self._source.block(opening):
            yield
            self.flush()

    @contextmanager
    def _aside(self, sink: str) -> Iterator[None]:
        """Writes to another list for a while; values held back for this one stay so."""
        held = self._sink, self._format, self._arguments, self._pieces
        self._sink, self._format, self._arguments, self._pieces = sink, "", [], []
        yield
        self.flush()
        self._sink, self._format, self._arguments, self._pieces = held

    def _value(self, value: str, wire_type: WireType, *, nullable: bool) -> None:
        match wire_type:
            case Fixed():
                self._fixed(wire_type.code, f"{value}.bytes" if wire_type is UUID_BYTES else value)
            case Variable.RECORDS:
                self._records(value, nullable=nullable)
            case Variable():
                self._run_of_bytes(value, wire_type, nullable=nullable)
            case Array():
                self._array(value, wire_type.element, nullable=nullable)
            case Struct():
                self._nested(value, schema_of(wire_type.cls), nullable=nullable)

    def _length(self, name: str, code: str) -> None:
        """The length in variable `name`: -1 for null, or one more and unsigned when compact."""
        if self._flexible:
            self._piece(f"small[{name} + 1] if {name} < 127 else uvarint({name} + 1)")
        else:
            self._fixed(code, name)

    @contextmanager
    def _unless_null(self, value: str, data: str, empty: str, length: str) -> Iterator[None]:
        """The statements for a value that is not null; a null is empty `data` of length -1."""
        self._source.line(f"if {value} is None:")
        self._source.line(f" {data} = {empty}")
        self._source.line(f" {length} = -1")
        with self._source.block("else:"):
            yield

    def _run_of_bytes(self, value: str, kind: Variable, *, nullable: bool) -> None:
        data, length = self._source.fresh("b"), self._source.fresh("n")
        encoded = f"{value}.encode()" if kind is Variable.STRING else value
        if nullable:
            with self._unless_null(value, data, "b''", length):
                self._source.line(f"{data} = {encoded}")
                self._source.line(f"{length} = len({data})")
        else:
            self._source.line(f"{data} = {encoded}")
            self._source.line(f"{length} = len({data})")
        self._length(length, _LENGTH_CODE[kind])
        self._piece(data)

    def _records(self, value: str, *, nullable: bool) -> None:
        if self._sink != "out":
            raise TypeError("records cannot be in a tagged field")
        data, length = self._source.fresh("r"), self._source.fresh("n")
        self._source.line(f"{data} = {value}")
        null = f"-1 if {data} is None else " if nullable else ""
        self._source.line(f"{length} = {null}size_of({data})")
        self._length(length, _LENGTH_CODE[Variable.RECORDS])
        with self._block(f"if {length} > 0:"):
            self._source.line(f"parts += (join(out), {data})")
            self._source.line("out.clear()")

    def _array(self, value: str, element: WireType, *, nullable: bool) -> None:
        items, length = self._source.fresh("a"), self._source.fresh("n")
        if nullable:
            with self._unless_null(value, items, "()", length):
                self._source.line(f"{items} = {value}")
                self._source.line(f"{length} = len({items})")
        else:
            self._source.line(f"{items} = {value}")
            self._source.line(f"{length} = len({items})")
        self._length(length, "i")
        if isinstance(element, Fixed) and element is not UUID_BYTES:
            self._piece(f"pack(f'>{{len({items})}}{element.code}', *{items})")
            return
        item = self._source.fresh("m")
        with self._block(f"for {item} in {items}:"):
            if isinstance(element, Struct):
                self.struct(item, schema_of(element.cls))
            else:
                self._value(item, element, nullable=False)

    def _nested(self, value: str, schema: Schema, *, nullable: bool, null: str = "-1") -> None:
        nested = self._source.fresh("m")
        self._source.line(f"{nested} = {value}")
        if not nullable:
            self.struct(nested, schema)
            return
        with self._block(f"if {nested} is None:"):
            self._fixed("b", null)
        with self._block("else:"):
            self._fixed("b", "1")
            self.struct(nested, schema)

    def _tagged_section(self, value: str, fields: list[Field]) -> None:
        if not fields:
            self._fixed("x")
            return
        section = self._source.fresh("t")
        self._source.line(f"{section} = ()")
        for field in sorted(fields, key=lambda field: field.tag or 0):
            self._tagged_field(f"{value}.{field.name}", field, section)
        self._piece(f"tag_section({section}) if {section} else b'\\0'")

    def _tagged_field(self, value: str, field: Field, section: str) -> None:
        held, body = self._source.fresh("v"), self._source.fresh("body")
        self._source.line(f"{held} = {value}")
        with self._source.block(f"if {self._differs_from_default(held, field)}:"):
            self._source.line(f"{body} = []")
            with self._aside(body):
                self._tagged_value(held, field)
            self._source.line(f"{body} = join({body})")
            tag = self._source.constant("tag", encode_uvarint(field.tag or 0))
            self._source.line(f"{section} += ({tag}, uvarint(len({body})), {body})")

    def _tagged_value(self, value: str, field: Field) -> None:
        """As any other value, except that the null of a struct is 0 here and -1 elsewhere."""
        nullable = field.is_nullable_in(self._version)
        if isinstance(field.type, Struct):
            self._nested(value, schema_of(field.type.cls), nullable=nullable, null="0")
        else:
            self._value(value, field.type, nullable=nullable)

    def _differs_from_default(self, value: str, field: Field) -> str:
        """Most messages carry the default object itself: `is` saves a comparison by value."""
        if isinstance(field.type, Array) and field.default is not None:
            return value
        default = self._source.constant("default", field.default)
        return f"{value} is not {default} and {value} != {default}"
