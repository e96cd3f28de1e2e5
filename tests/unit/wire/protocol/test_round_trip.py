"""Every version of every message survives a round trip through its bytes."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedkafka.wire.protocol.codec import decode, encode, encode_parts
from embedkafka.wire.protocol.wire_types import Part
from tests.unit.wire.protocol.samples import full, sparse
from tests.unit.wire.protocol.values import ALL_MESSAGES, values_of, versions_of


def joined(parts: list[Part]) -> bytes:
    return b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview))


@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=lambda cls: cls.__name__)
@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_value_survives_any_version(cls: Any, data: st.DataObject) -> None:
    for version in versions_of(cls):
        message = data.draw(values_of(cls, version))
        encoded = encode(message, version)
        assert decode(cls, version, encoded) == message
        assert decode(cls, version, memoryview(bytearray(encoded))) == message
        assert joined(encode_parts(message, version)) == encoded


@pytest.mark.parametrize("cls", ALL_MESSAGES, ids=lambda cls: cls.__name__)
def test_full_and_sparse_values_survive_every_version(cls: type[Any]) -> None:
    for version in versions_of(cls):
        for message in (full(cls, version), sparse(cls, version)):
            assert decode(cls, version, encode(message, version)) == message
