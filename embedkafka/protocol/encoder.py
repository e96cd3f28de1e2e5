"""Writing the source of one encoder: straight-line Python for one message class in one version.

Neighbouring fixed-size fields are packed by one `struct` call, and lengths of strings and arrays
join them.  The pieces of bytes between two loops are added to the output in one statement:

    b1 = m.group_id.encode()
    b2 = m.member_id.encode()
    out += (pack_h(len(b1)), b1, pack_ih(m.generation_id, len(b2)), b2)

Not here: running it.  `codec` compiles the source on first use and keeps the function.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from struct import Struct as StructFormat
from struct import pack
from typing import Any, Final

from embedkafka.protocol.message import Field, Schema, schema_of
from embedkafka.protocol.varint import encode_uvarint
from embedkafka.protocol.wire_types import UUID_BYTES, Array, Fixed, Struct, Variable, WireType

_LENGTH_CODE: Final = {Variable.STRING: "h", Variable.BYTES: "i", Variable.RECORDS: "i"}
_SMALL: Final = tuple(encode_uvarint(n) for n in range(128))


def encoder_source(schema: Schema, version: int) -> tuple[str, dict[str, Any]]:
    """Source of `encode(m) -> list[Part]`, and the names it refers to."""
    writer = _EncoderWriter(version=version, flexible=schema.is_flexible_in(version))
    writer.line("def encode(m):")
    writer.indent += 1
    writer.line("parts = []")
    writer.line("out = []")
    writer.struct("m", schema)
    writer.flush()
    writer.line("if out:")
    writer.line(" parts.append(join(out))")
    writer.line("return parts")
    return "\n".join(writer.lines), writer.namespace


def size_of(records: Any) -> int:  # Any: bytes-like or with a `size`, see wire_types.Part
    """Bytes in a records value, which need not be in memory."""
    if isinstance(records, memoryview):
        return records.nbytes
    if isinstance(records, bytes | bytearray):
        return len(records)
    size: int = records.size
    return size


def _tag_section(fields: tuple[bytes, ...]) -> bytes:
    """The tagged section for (tag, size, value) triples in one flat tuple."""
    return b"".join((encode_uvarint(len(fields) // 3), *fields))


@dataclass(slots=True, kw_only=True)
class _EncoderWriter:
    """Collects statements; holds back values that one statement can put out together."""

    version: int
    flexible: bool
    lines: list[str] = field(default_factory=list)
    indent: int = 0
    sink: str = "out"
    namespace: dict[str, Any] = field(
        default_factory=lambda: {
            "join": b"".join,
            "pack": pack,
            "small": _SMALL,
            "uvarint": encode_uvarint,
            "size_of": size_of,
            "tag_section": _tag_section,
        }
    )
    _names: int = 0
    _format: str = ""
    _arguments: list[str] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)

    def line(self, text: str) -> None:
        self.lines.append(" " * self.indent + text)

    def fresh(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, prefix: str, value: object) -> str:
        name = self.fresh(prefix)
        self.namespace[name] = value
        return name

    def fixed(self, code: str, argument: str | None = None) -> None:
        """Hold back a value of constant size; a pad byte (`x`) takes no argument."""
        self._format += code
        if argument is not None:
            self._arguments.append(argument)

    def piece(self, expression: str) -> None:
        """Hold back an expression of type bytes."""
        self._end_fixed_run()
        self._pieces.append(expression)

    def flush(self) -> None:
        """Write out what was held back."""
        self._end_fixed_run()
        if self._pieces:
            self.line(f"{self.sink} += ({', '.join(self._pieces)},)")
            self._pieces = []

    def _end_fixed_run(self) -> None:
        if not self._format:
            return
        if self._arguments:
            name = "pack_" + self._format.replace("?", "o")
            self.namespace[name] = StructFormat(">" + self._format).pack
            self._pieces.append(f"{name}({', '.join(self._arguments)})")
        else:
            self._pieces.append(repr(bytes(len(self._format))))
        self._format = ""
        self._arguments = []

    @contextmanager
    def _block(self, opening: str) -> Iterator[None]:
        """An indented block.  What is held back never crosses its borders."""
        self.flush()
        self.line(opening)
        self.indent += 1
        yield
        self.flush()
        self.indent -= 1

    @contextmanager
    def _aside(self, sink: str) -> Iterator[None]:
        """Write to another list for a while; what is held back for this one stays so."""
        held = self.sink, self._format, self._arguments, self._pieces
        self.sink, self._format, self._arguments, self._pieces = sink, "", [], []
        yield
        self.flush()
        self.sink, self._format, self._arguments, self._pieces = held

    def struct(self, source: str, schema: Schema) -> None:
        fields = [f for f in schema.fields if f.is_in(self.version)]
        for each in fields:
            if each.tag is None:
                nullable = each.is_nullable_in(self.version)
                self.value(f"{source}.{each.name}", each.type, nullable=nullable)
        if self.flexible:
            self._tagged_section(source, [f for f in fields if f.tag is not None])

    def value(self, source: str, wire_type: WireType, *, nullable: bool) -> None:
        match wire_type:
            case Fixed():
                is_uuid = wire_type is UUID_BYTES
                self.fixed(wire_type.code, f"{source}.bytes" if is_uuid else source)
            case Variable.RECORDS:
                self._records(source, nullable=nullable)
            case Variable():
                self._run_of_bytes(source, wire_type, nullable=nullable)
            case Array():
                self._array(source, wire_type.element, nullable=nullable)
            case Struct():
                self._nested(source, schema_of(wire_type.cls), nullable=nullable)

    def _length(self, name: str, code: str) -> None:
        """The length in variable `name`: -1 for null, or one more and unsigned when compact."""
        if self.flexible:
            self.piece(f"small[{name} + 1] if {name} < 127 else uvarint({name} + 1)")
        else:
            self.fixed(code, name)

    def _run_of_bytes(self, source: str, kind: Variable, *, nullable: bool) -> None:
        data, length = self.fresh("b"), self.fresh("n")
        encode = ".encode()" if kind is Variable.STRING else ""
        if nullable:
            self.line(f"{data} = {source}")
            self.line(f"if {data} is None:")
            self.line(f" {data} = b''")
            self.line(f" {length} = -1")
            self.line("else:")
            if encode:
                self.line(f" {data} = {data}{encode}")
            self.line(f" {length} = len({data})")
        else:
            self.line(f"{data} = {source}{encode}")
            self.line(f"{length} = len({data})")
        self._length(length, _LENGTH_CODE[kind])
        self.piece(data)

    def _records(self, source: str, *, nullable: bool) -> None:
        if self.sink != "out":
            raise TypeError("records cannot be in a tagged field")
        data, length = self.fresh("r"), self.fresh("n")
        self.line(f"{data} = {source}")
        or_null = f"-1 if {data} is None else " if nullable else ""
        self.line(f"{length} = {or_null}size_of({data})")
        self._length(length, _LENGTH_CODE[Variable.RECORDS])
        with self._block(f"if {length} > 0:"):
            self.line(f"parts += (join(out), {data})")
            self.line("out.clear()")

    def _array(self, source: str, element: WireType, *, nullable: bool) -> None:
        items, length = self.fresh("a"), self.fresh("n")
        self.line(f"{items} = {source}")
        if nullable:
            self.line(f"if {items} is None:")
            self.line(f" {items} = ()")
            self.line(f" {length} = -1")
            self.line("else:")
            self.line(f" {length} = len({items})")
        else:
            self.line(f"{length} = len({items})")
        self._length(length, "i")
        if isinstance(element, Fixed) and element is not UUID_BYTES:
            self.piece(f"pack(f'>{{len({items})}}{element.code}', *{items})")
            return
        item = self.fresh("m")
        with self._block(f"for {item} in {items}:"):
            if isinstance(element, Struct):
                self.struct(item, schema_of(element.cls))
            else:
                self.value(item, element, nullable=False)

    def _nested(self, source: str, schema: Schema, *, nullable: bool) -> None:
        nested = self.fresh("m")
        self.line(f"{nested} = {source}")
        if not nullable:
            self.struct(nested, schema)
            return
        with self._block(f"if {nested} is None:"):
            self.fixed("b", "-1")
        with self._block("else:"):
            self.fixed("b", "1")
            self.struct(nested, schema)

    def _tagged_section(self, source: str, fields: list[Field]) -> None:
        if not fields:
            self.fixed("x")
            return
        section = self.fresh("t")
        self.line(f"{section} = ()")
        for each in sorted(fields, key=lambda f: f.tag or 0):
            self._tagged_field(source, each, section)
        self.piece(f"tag_section({section}) if {section} else b'\\0'")

    def _tagged_field(self, source: str, each: Field, section: str) -> None:
        value, default = self.fresh("v"), self.constant("default", each.default)
        body = self.fresh("body")
        self.line(f"{value} = {source}.{each.name}")
        self.line(f"if {self._differs(value, default, each)}:")
        self.indent += 1
        self.line(f"{body} = []")
        with self._aside(body):
            self.value(value, each.type, nullable=each.is_nullable_in(self.version))
        self.line(f"{body} = join({body})")
        tag = self.constant("tag", encode_uvarint(each.tag or 0))
        self.line(f"{section} += ({tag}, uvarint(len({body})), {body})")
        self.indent -= 1

    @staticmethod
    def _differs(value: str, default: str, each: Field) -> str:
        """Most messages carry the default object itself: `is` spares a comparison by value."""
        if isinstance(each.type, Array) and each.default is not None:
            return value
        return f"{value} is not {default} and {value} != {default}"
