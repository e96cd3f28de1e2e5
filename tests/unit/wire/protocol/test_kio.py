"""Our bytes equal those of kio, an independent codec from the same specifications.

Golden bytes cover the messages that kio lacks.
"""

import dataclasses
import datetime
import importlib.util
import io
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from embedkafka.wire.protocol.codec import decode, encode
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.wire_types import UUID_BYTES, ZERO_UUID
from tests.unit.wire.protocol.golden_bytes import GOLDEN_FILES, golden_lines
from tests.unit.wire.protocol.kio_codecs import (
    kio_module,
    kio_versions,
)
from tests.unit.wire.protocol.values import REQUESTS_AND_RESPONSES, values_of, versions_of


@cache
def kio_codec(cls: Any, version: int) -> tuple[Any, Any]:
    module = kio_module(cls, version)
    assert module is not None
    entity = getattr(importlib.import_module(module), cls.__name__)
    return entity_reader(entity), entity_writer(entity)


def assert_same(ours: Any, theirs: Any, version: int) -> None:
    """Compares field by field, since kio differs in some types and in the names of times."""
    fields = [f for f in schema_of(type(ours)).fields if f.is_in(version)]
    names = {field.name for field in dataclasses.fields(theirs)}
    assert len(names) == len(fields)
    for field in fields:
        name = field.name if field.name in names else field.name.removesuffix("_ms")
        value = getattr(theirs, name)
        if value is None and field.type is UUID_BYTES:
            value = ZERO_UUID
        assert_same_value(getattr(ours, field.name), value, version)


def assert_same_value(ours: Any, theirs: Any, version: int) -> None:
    match theirs:
        case tuple():
            assert len(ours) == len(theirs)
            for mine, their in zip(ours, theirs, strict=True):
                assert_same_value(mine, their, version)
        case datetime.timedelta():
            assert ours == theirs // datetime.timedelta(milliseconds=1)
        case datetime.datetime():
            epoch = datetime.datetime.fromtimestamp(0, tz=datetime.UTC)
            assert ours == (theirs - epoch) // datetime.timedelta(milliseconds=1)
        case _ if dataclasses.is_dataclass(theirs):
            assert_same(ours, theirs, version)
        case _:
            assert ours == theirs


@pytest.mark.parametrize(
    "cls", [cls for cls in REQUESTS_AND_RESPONSES if kio_versions(cls)], ids=lambda c: c.__name__
)
@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_bytes_are_those_of_kio(cls: Any, data: st.DataObject) -> None:
    for version in kio_versions(cls):
        read, write = kio_codec(cls, version)
        message = data.draw(values_of(cls, version))
        encoded = encode(message, version)
        theirs, end = read(encoded, 0)
        assert end == len(encoded)
        assert_same(message, theirs, version)
        buffer = io.BytesIO()
        write(buffer, theirs)
        assert buffer.getvalue() == encoded
        assert decode(cls, version, buffer.getvalue()) == message


def test_every_version_is_compared_with_kio_or_with_golden_bytes() -> None:
    """Without its schema modules, kio would make the test above pass without testing anything."""
    golden = {(line.cls, line.version) for name in GOLDEN_FILES for line in golden_lines(name)}
    uncompared = [
        f"{cls.__name__} v{version}"
        for cls in REQUESTS_AND_RESPONSES
        for version in versions_of(cls)
        if version not in kio_versions(cls) and (cls, version) not in golden
    ]
    assert uncompared == []
