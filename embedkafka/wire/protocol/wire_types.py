"""The wire format of each kind of value, and its name in message declarations.

A declaration says `generation_id: Int32`: a plain `int` to the type checker, and four bytes,
big-endian, to the codec, which reads the second half of the `Annotated` pair.  `bool`, `str`,
`bytes`, `UUID`, sequences and nested structs are used as they are.
"""

import types
import typing
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.files import FileRegion
from embedkafka.runtime.values import NamedTuple


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


class Entity(Enum):
    """What a field names: `entityType` in Kafka's schemas, which leave out ids and partitions."""

    TOPIC_NAME = "topicName"
    TOPIC_ID = "topicId"
    PARTITION = "partition"
    GROUP_ID = "groupId"
    TRANSACTIONAL_ID = "transactionalId"


class EntityBy(NamedTuple):
    """What a field names depends on the number in another field of its struct."""

    field: str
    kinds: tuple[tuple[int, Entity], ...]


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

TopicName = Annotated[str, Variable.STRING, Entity.TOPIC_NAME]
TopicId = Annotated[UUID, UUID_BYTES, Entity.TOPIC_ID]
PartitionIndex = Annotated[int, INT32, Entity.PARTITION]
GroupId = Annotated[str, Variable.STRING, Entity.GROUP_ID]
TransactionalId = Annotated[str, Variable.STRING, Entity.TRANSACTIONAL_ID]
CoordinatorKey = Annotated[
    str,
    Variable.STRING,
    EntityBy("key_type", ((0, Entity.GROUP_ID), (1, Entity.TRANSACTIONAL_ID))),
]
ConfigResourceName = Annotated[
    str, Variable.STRING, EntityBy("resource_type", ((2, Entity.TOPIC_NAME), (32, Entity.GROUP_ID)))
]

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


Entities: TypeAlias = Entity | EntityBy | None


def wire_type_of(
    annotation: Any,  # Any: annotations have no common type
) -> tuple[WireType, bool, Entities]:
    """The wire type of a field's annotation, whether it may be null, and what it names.

    An array names what its elements do.
    """
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        inner = [arm for arm in typing.get_args(annotation) if arm is not types.NoneType]
        if len(inner) != 1:
            raise TypeError(f"{annotation} is not a wire type: only `T | None` may be a union")
        wire_type, entity = _not_null(inner[0])
        return wire_type, True, entity
    wire_type, entity = _not_null(annotation)
    return wire_type, False, entity


def _not_null(annotation: Any) -> tuple[WireType, Entities]:  # Any: as above
    if annotation in _PLAIN:
        return _PLAIN[annotation], None
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        kind, *named = annotation.__metadata__
        if isinstance(kind, Fixed | Variable):
            return kind, named[0] if named else None
    if origin is Sequence:
        (inner,) = typing.get_args(annotation)
        element, entity = _not_null(inner)
        return Array(element), entity
    if isinstance(annotation, type) and hasattr(annotation, "__schema__"):
        return Struct(annotation), None
    raise TypeError(f"{annotation!r} is not a wire type")
