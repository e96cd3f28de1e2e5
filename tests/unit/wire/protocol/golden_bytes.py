"""Reads the bytes that Apache Kafka makes of the values in `samples.py`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.unit.wire.protocol.values import ALL_MESSAGES

_DIRECTORY: Final = Path(__file__).parent / "golden"
_CLASSES: Final = {cls.__name__: cls for cls in ALL_MESSAGES}
GOLDEN_FILES: Final = sorted(path.name for path in _DIRECTORY.glob("*.txt"))


class GoldenLine(NamedTuple):
    """One message in one version, `full` or `sparse`, and its bytes in hexadecimal."""

    cls: type[Any]
    version: int
    kind: str
    data: str


def golden_lines(name: str) -> Iterator[GoldenLine]:
    for line in (_DIRECTORY / name).read_text().splitlines():
        if not line.startswith("#"):
            cls, version, kind, data = line.split()
            yield GoldenLine(_CLASSES[cls], int(version), kind, data)
