"""What the fields of a message name: topics, partitions, groups and transactions."""

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from embedkafka.wire.protocol.message import Field, schema_of
from embedkafka.wire.protocol.wire_types import Array, Entity, Struct


def fields_in(cls: type[Any], version: int) -> Sequence[Field]:  # Any: any message class
    """The fields that a message or a struct has in a version."""
    return _fields_in(cls, version)  # type: ignore[arg-type]  # classes are hashable


@cache
def _fields_in(cls: type[Any], version: int) -> Sequence[Field]:  # Any: as above
    return [field for field in schema_of(cls).fields if field.is_in(version)]


def find_list(request: object, version: int, wanted: Collection[Entity]) -> str | None:
    """The list whose entries name what is wanted; None if the request itself names it first."""
    for field in fields_in(type(request), version):
        if not isinstance(field.type, Array):
            if field.entity_in(request) in wanted:
                return None
        elif isinstance(field.type.element, Struct):
            entry = fields_in(field.type.element.cls, version)
            values = [each for each in entry if not isinstance(each.type, Array)]
            if any(not each.entities.isdisjoint(wanted) for each in values):
                return field.name
        elif field.entity_in(request) in wanted:
            return field.name
    return None
