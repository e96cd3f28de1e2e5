"""Producer state on disk: `<offset>.snapshot`, one file for each segment's base offset.

The file is a version, a CRC32C of the rest, a count, and entries of 46 bytes.
Owner: none; the functions read and write whole files.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from embedkafka.runtime.files import Files
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.records.checksum import crc32c

_VERSION: Final = 1
_HEADER: Final = Struct(">hIi")
_ENTRY: Final = Struct(">qhiqiqiq")
_CRC_END: Final = 6

SUFFIX: Final = ".snapshot"


class SnapshotEntry(NamedTuple):
    """One producer; a snapshot keeps only its last batch."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


class CorruptSnapshot(Exception):
    """The snapshot is unusable; an older one, or the log itself, replaces it."""


def write_snapshot(files: Files, path: Path, entries: Iterable[SnapshotEntry]) -> None:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    data = bytearray(_HEADER.pack(_VERSION, 0, len(packed)) + b"".join(packed))
    data[2:_CRC_END] = crc32c(memoryview(data)[_CRC_END:]).to_bytes(4, "big")
    files.replace(path, data)


def read_snapshot(files: Files, path: Path) -> Sequence[SnapshotEntry]:
    """The entries; raises `CorruptSnapshot`."""
    data = files.read(path)
    if len(data) < _HEADER.size:
        raise CorruptSnapshot(f"{path} has {len(data)} bytes only")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"{path} has version {version}, not {_VERSION}")
    if crc32c(memoryview(data)[_CRC_END:]) != crc:
        raise CorruptSnapshot(f"{path} does not match its checksum")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{path} announces {count} entries and has {len(data)} bytes")
    return [SnapshotEntry(*entry) for entry in _ENTRY.iter_unpack(data[_HEADER.size :])]
