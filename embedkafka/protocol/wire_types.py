"""The wire format of each kind of value, and its name in message declarations.

A declaration says `generation_id: Int32`: a plain `int` to the type checker, and four bytes,
big-endian, to the codec, which reads the second half of the `Annotated` pair.  `bool`, `str`,
`bytes`, `UUID`, sequences and nested structs are used as they are.
"""

import types
import typing
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.files import FileRegion


class Fixed(NamedTuple):
    """A value of constant size, with its `struct` format character."""

    code: str
    size: int


class Variable(Enum):
    """A run of bytes after its length."""

    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"


class Array(NamedTuple):
    element: "WireType"


class Struct(NamedTuple):
    """A nested struct: a class made with `@struct`."""

    cls: type[Any]  # Any: one codec serves every struct class


WireType: TypeAlias = Fixed | Variable | Array | Struct

BOOL: Final = Fixed("?", 1)
INT8: Final = Fixed("b", 1)
INT16: Final = Fixed("h", 2)
UINT16: Final = Fixed("H", 2)
INT32: Final = Fixed("i", 4)
INT64: Final = Fixed("q", 8)
FLOAT64: Final = Fixed("d", 8)
UUID_BYTES: Final = Fixed("16s", 16)

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1

ZERO_UUID: Final = UUID(int=0)
"""No topic id, no directory id."""

OPERATIONS_OMITTED: Final = -(2**31)
"""The bit set of authorized operations, if the client did not ask for them."""


Part: TypeAlias = BytesLike | FileRegion
"""One piece of an encoded message."""

Int8 = Annotated[int, INT8]
Int16 = Annotated[int, INT16]
UInt16 = Annotated[int, UINT16]
Int32 = Annotated[int, INT32]
Int64 = Annotated[int, INT64]
Float64 = Annotated[float, FLOAT64]

Records = Annotated[memoryview, Variable.RECORDS]
"""Opaque record batches, as a view of their request."""

SendableRecords = Annotated[Part, Variable.RECORDS]
"""Record batches to send: bytes, a view or a file range; a `memoryview` once decoded."""

_PLAIN: Final[dict[object, WireType]] = {
    bool: BOOL,
    str: Variable.STRING,
    bytes: Variable.BYTES,
    UUID: UUID_BYTES,
}


def wire_type_of(annotation: Any) -> tuple[WireType, bool]:  # Any: annotations have no common type
    """The wire type of a field's annotation, and whether it may be null."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        inner = [arm for arm in typing.get_args(annotation) if arm is not types.NoneType]
        if len(inner) != 1:
            raise TypeError(f"{annotation} is not a wire type: only `T | None` may be a union")
        return _not_null(inner[0]), True
    return _not_null(annotation), False


def _not_null(annotation: Any) -> WireType:  # Any: as above
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        kind = annotation.__metadata__[0]
        if isinstance(kind, Fixed | Variable):
            return kind
    if origin is Sequence:
        (element,) = typing.get_args(annotation)
        return Array(_not_null(element))
    if isinstance(annotation, type) and hasattr(annotation, "__schema__"):
        return Struct(annotation)
    raise TypeError(f"{annotation!r} is not a wire type")
