"""Our bytes equal Apache Kafka's, in the versions that kio does not know."""

import pytest

from embedkafka.wire.protocol.codec import decode, encode
from tests.unit.wire.protocol.golden_bytes import GOLDEN_FILES, golden_lines
from tests.unit.wire.protocol.samples import full, sparse


@pytest.mark.parametrize("name", GOLDEN_FILES)
def test_bytes_are_those_of_apache_kafka(name: str) -> None:
    for cls, version, kind, data in golden_lines(name):
        message = full(cls, version) if kind == "full" else sparse(cls, version)
        where = f"{cls.__name__} v{version} {kind}"
        assert encode(message, version).hex() == data, where
        assert decode(cls, version, bytes.fromhex(data)) == message, where
