"""What fields name: as kio's types have it from Kafka's schemas, which leave some things out."""

import dataclasses
import importlib
import typing
from collections.abc import Iterator
from typing import Any, Final

import pytest
from kio.schema.types import GroupId, TopicName, TransactionalId

from embedkafka.wire.protocol.message import Field, schema_of
from embedkafka.wire.protocol.wire_types import (
    UUID_BYTES,
    Array,
    Entity,
    EntityBy,
    Struct,
    WireType,
)
from tests.unit.wire.protocol.kio_codecs import kio_module, kio_versions
from tests.unit.wire.protocol.values import REQUESTS_AND_RESPONSES

KIO: Final = {
    TopicName: Entity.TOPIC_NAME,
    GroupId: Entity.GROUP_ID,
    TransactionalId: Entity.TRANSACTIONAL_ID,
}
OTHER_IDS: Final = {"client_instance_id", "replica_directory_id", "voter_directory_id"}
PARTITIONS: Final = {"index", "partition", "partition_index", "partition_indexes", "partitions"}


def structs(cls: Any, theirs: Any) -> Iterator[tuple[Any, Any]]:
    """A message and all structs in it, beside kio's."""
    yield cls, theirs
    hints = typing.get_type_hints(theirs)
    for field in schema_of(cls).fields:
        inner = innermost(field.type)
        if isinstance(inner, Struct) and field.name in hints:
            (kios,) = [k for k in kio_types(hints[field.name]) if dataclasses.is_dataclass(k)]
            yield from structs(inner.cls, kios)


def innermost(wire_type: WireType) -> WireType:
    return wire_type.element if isinstance(wire_type, Array) else wire_type


def kio_types(annotation: Any) -> Iterator[Any]:
    """All types in an annotation such as `tuple[TopicName, ...] | None`."""
    yield annotation
    for inner in typing.get_args(annotation):
        yield from kio_types(inner)


@pytest.mark.parametrize(
    "cls", [cls for cls in REQUESTS_AND_RESPONSES if kio_versions(cls)], ids=lambda c: c.__name__
)
def test_fields_name_what_they_name_in_kafkas_schemas(cls: Any) -> None:
    for version in kio_versions(cls):
        module = importlib.import_module(str(kio_module(cls, version)))
        for ours, theirs in structs(cls, getattr(module, cls.__name__)):
            hints = typing.get_type_hints(theirs)
            for field in schema_of(ours).fields:
                kios = {KIO[k] for k in kio_types(hints.get(field.name)) if k in KIO}
                assert kios <= {field.entity}, f"{ours.__qualname__}.{field.name} in v{version}"


def all_fields() -> Iterator[tuple[str, Field]]:
    todo = list(REQUESTS_AND_RESPONSES)
    for cls in todo:
        for field in schema_of(cls).fields:
            inner = innermost(field.type)
            if isinstance(inner, Struct):
                todo.append(inner.cls)
            else:
                yield f"{cls.__qualname__}.{field.name}", field


def test_ids_of_topics_and_numbers_of_partitions_are_known() -> None:
    for where, field in all_fields():
        if innermost(field.type) == UUID_BYTES and field.name not in OTHER_IDS:
            assert field.entity is Entity.TOPIC_ID, where
        if field.name in PARTITIONS:
            assert field.entity is Entity.PARTITION, where


def test_what_depends_on_another_field_finds_it() -> None:
    for cls in REQUESTS_AND_RESPONSES:
        for struct in {
            cls,
            *(s.cls for f in schema_of(cls).fields if isinstance(s := innermost(f.type), Struct)),
        }:
            names = {field.name for field in schema_of(struct).fields}
            for field in schema_of(struct).fields:
                assert not isinstance(field.entity, EntityBy) or field.entity.field in names
