"""Our bytes equal Apache Kafka's, in the versions that kio does not know."""

from pathlib import Path
from typing import Any

import pytest

from embedkafka.protocol.codec import decode, encode
from tests.unit.protocol.samples import full, sparse
from tests.unit.protocol.values import ALL_MESSAGES

GOLDEN = Path(__file__).parent / "golden"
CLASSES = {cls.__name__: cls for cls in ALL_MESSAGES}


def golden_lines(name: str) -> list[tuple[type[Any], int, str, str]]:
    lines = (GOLDEN / name).read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return [(CLASSES[cls], int(version), kind, data) for cls, version, kind, data in rows]


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("*.txt")))
def test_bytes_are_those_of_apache_kafka(name: str) -> None:
    for cls, version, kind, data in golden_lines(name):
        message = full(cls, version) if kind == "full" else sparse(cls, version)
        where = f"{cls.__name__} v{version} {kind}"
        assert encode(message, version).hex() == data, where
        assert decode(cls, version, bytes.fromhex(data)) == message, where
