"""Disks that a test fills, breaks or write-protects. Each broker has one, with its log directories.

Owner: the thread that calls `fill`, `fail`, `protect` and `heal`; brokers read the faults, which
are replaced whole.
Invariants: a write that fails for lack of space has written its first half, as on a real disk.
A fault does not affect what was read before it, nor what the kernel sends straight from a file.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from embedkafka.runtime.arguments import require_int, require_number, require_text
from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.files import LOCK_FILE, DirectoryLock, File, Files
from embedkafka.runtime.locks import leaf_condition
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.records.batch import read_batches

_LOG_SUFFIX: Final = ".log"


class Disk:
    """The disk of one broker: `kafka.faults.disk(1)`. It holds the broker's log directories.

    A fault stays until `heal`. When a log directory fails, the broker takes it offline; when the
    last one fails, the broker halts, as in Kafka.
    """

    def __init__(
        self,
        directories: Callable[[], Sequence[Path]],
        files: Files,
        *,
        is_running: Callable[[], bool],
    ) -> None:
        self._directories = directories
        self._files = files
        self._is_running = is_running
        self._faults: Mapping[Path, _Fault] = MappingProxyType({})
        self._write_ms = 0.0
        self._healed = leaf_condition("slow writes")

    def fill(self, directory: int | None = None) -> None:
        """Makes every write fail with "no space left on device".

        Args:
            directory: the number of one log directory, from 1 on; all of them by default.

        Raises:
            InvalidArgument: the broker has no such directory.
        """
        self._break(directory, _Fault(errno.ENOSPC, _Access.WRITE))

    def fail(self, directory: int | None = None) -> None:
        """Makes every access fail with an I/O error.

        Args:
            directory: the number of one log directory, from 1 on; all of them by default.

        Raises:
            InvalidArgument: the broker has no such directory.
        """
        self._break(directory, _Fault(errno.EIO, _Access.READ))

    def protect(self, directory: int | None = None) -> None:
        """Makes every change fail, as on a file system mounted read-only.

        Args:
            directory: the number of one log directory, from 1 on; all of them by default.

        Raises:
            InvalidArgument: the broker has no such directory.
        """
        self._break(directory, _Fault(errno.EROFS, _Access.CHANGE))

    def slow(self, write_ms: float) -> None:
        """Makes every write take longer. The broker's thread waits, as on a slow disk.

        Args:
            write_ms: the additional time of each write, in milliseconds of real time.
        """
        self._write_ms = require_number("write_ms", write_ms)

    def flip_bit(self, topic: str, partition: int = 0, *, offset: int | None = None) -> None:
        """Flips a bit in a stored batch, so that its checksum is wrong.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            offset: the offset of a record in the batch; by default the last record.

        Raises:
            InvalidArgument: the disk holds no such record.
        """
        path, batch = self._find_batch(topic, partition, offset)
        self._files.unshare(path)  # a snapshot keeps what it has
        file = self._files.open(path)
        last = batch.position + batch.size - 1
        (byte,) = file.read(last, 1)
        file.write(bytes([byte ^ 1]), last)

    def tear(self, topic: str, partition: int = 0) -> None:
        """Leaves half of the last batch, as a write that a crash interrupted.

        Args:
            topic: the topic's name.
            partition: the partition's number.

        Raises:
            InvalidArgument: the disk holds no record of it, or the broker is running.
        """
        if self._is_running():
            raise InvalidArgument("a write is torn by a crash: kill the broker first")
        path, batch = self._find_batch(topic, partition, None)
        self._files.unshare(path)
        self._files.open(path).truncate(batch.position + batch.size // 2)

    def heal(self) -> None:
        """Makes the disk work again. The broker uses a failed directory after its next start.

        Flipped bits and torn batches stay.
        """
        self._faults = MappingProxyType({})
        with self._healed:
            self._write_ms = 0.0
            self._healed.notify_all()

    @property
    def has_faults(self) -> bool:
        """Whether any access would fail."""
        return bool(self._faults)

    def describe(self) -> list[str]:
        """The faults that are set, one line each."""
        lines = [
            f"disk: {directory.name}: {os.strerror(fault.code).lower()}"
            for directory, fault in self._faults.items()
        ]
        if self._write_ms:
            lines.append(f"disk: {self._directories()[0].name}: writes take {self._write_ms:g} ms")
        return lines

    def _find_batch(
        self, topic: str, partition: int, offset: int | None
    ) -> "tuple[Path, _StoredBatch]":
        """The file and the place of the batch with a record, or of the last batch."""
        name = f"{require_text('topic', topic)}-{require_int('partition', partition, least=0)}"
        if offset is not None:
            require_int("offset", offset, least=0)
        found: tuple[Path, _StoredBatch] | None = None
        for directory in self._directories():
            if not self._files.exists(directory / name):
                continue
            for segment in sorted(self._files.names(directory / name)):
                if segment.endswith(_LOG_SUFFIX):
                    path = directory / name / segment
                    for batch in _stored_batches(self._files.read(path)):
                        if offset is None or batch.first_offset <= offset <= batch.last_offset:
                            found = path, batch
        if found is None:
            what = "record" if offset is None else f"record {offset}"
            raise InvalidArgument(f"this disk holds no {what} of {name}")
        return found

    def _slow_down(self) -> None:
        """Waits as long as a write takes; ends early when the disk is healed."""
        deadline_ms = REAL_TIME.monotonic_ms() + self._write_ms
        with self._healed:
            while self._write_ms and REAL_TIME.wait_until(self._healed, deadline_ms):
                pass

    def _break(self, directory: int | None, fault: "_Fault") -> None:
        paths = self._directories()
        if directory is not None:
            require_int("directory", directory, least=1, most=len(paths))
        chosen = paths if directory is None else [paths[directory - 1]]
        self._faults = MappingProxyType({**self._faults, **dict.fromkeys(chosen, fault)})

    def _check(self, path: Path, access: "_Access") -> None:
        if not self._faults:
            return
        for directory, fault in self._faults.items():
            if access >= fault.first and path.is_relative_to(directory):
                raise OSError(fault.code, os.strerror(fault.code), str(path))


class _StoredBatch(NamedTuple):
    first_offset: int
    last_offset: int
    position: int
    size: int


def _stored_batches(data: bytes) -> Iterator[_StoredBatch]:
    """The complete batches in a segment file."""
    position = 0
    for batch in read_batches(data):
        yield _StoredBatch(batch.base_offset, batch.last_offset, position, batch.size_in_bytes)
        position += batch.size_in_bytes


class _Access(IntEnum):
    """How a file is used; each kind needs more of the disk than the one before."""

    READ = 1
    CHANGE = 2  # rename, truncate, remove: no space is needed
    WRITE = 3


class _Fault:
    """Fails every access from `first` on."""

    __slots__ = ("code", "first")

    def __init__(self, code: int, first: _Access) -> None:
        self.code = code
        self.first = first


class DiskFiles:
    """The `Files` of a broker: every access meets the faults of its disk first."""

    def __init__(self, disk: Disk, files: Files) -> None:
        self._disk = disk
        self._files = files

    def open(self, path: Path) -> File:
        self._check_opening(path)
        return _DiskFile(self._disk, self._files.open(path), path)

    def create(self, path: Path) -> File:
        self._disk._check(path, _Access.WRITE)
        return _DiskFile(self._disk, self._files.create(path), path)

    def read(self, path: Path) -> bytes:
        self._disk._check(path, _Access.READ)
        return self._files.read(path)

    def replace(self, path: Path, data: BytesLike, *, sync: bool = False) -> None:
        self._disk._check(path, _Access.WRITE)
        self._files.replace(path, data, sync=sync)

    def sync(self, path: Path) -> None:
        self._disk._check(path, _Access.WRITE)
        self._files.sync(path)

    def boot_id(self) -> str | None:
        return self._files.boot_id()

    def size(self, path: Path) -> int:
        self._disk._check(path, _Access.READ)
        return self._files.size(path)

    def exists(self, path: Path) -> bool:
        self._disk._check(path, _Access.READ)
        return self._files.exists(path)

    def names(self, directory: Path) -> Sequence[str]:
        self._disk._check(directory, _Access.READ)
        return self._files.names(directory)

    def make_directory(self, directory: Path) -> None:
        self._check_opening(directory)
        self._files.make_directory(directory)

    def lock_directory(self, directory: Path, *, create: bool = True) -> DirectoryLock:
        self._check_opening(directory / LOCK_FILE)
        return self._files.lock_directory(directory, create=create)

    def rename(self, old: Path, new: Path) -> None:
        self._disk._check(new, _Access.CHANGE)
        self._files.rename(old, new)

    def copy(self, old: Path, new: Path) -> None:
        self._disk._check(new, _Access.WRITE)
        self._files.copy(old, new)

    def link(self, old: Path, new: Path) -> None:
        self._disk._check(new, _Access.WRITE)
        self._files.link(old, new)

    def unshare(self, path: Path) -> bool:
        self._disk._check(path, _Access.READ)
        return self._files.unshare(path)

    def remove(self, path: Path) -> None:
        self._disk._check(path, _Access.CHANGE)
        self._files.remove(path)

    def remove_tree(self, directory: Path) -> None:
        self._disk._check(directory, _Access.CHANGE)
        self._files.remove_tree(directory)

    def _check_opening(self, path: Path) -> None:
        if self._disk.has_faults:
            access = _Access.READ if self._files.exists(path) else _Access.WRITE
            self._disk._check(path, access)


class _DiskFile:
    """An open file on a disk."""

    __slots__ = ("_disk", "_file", "_path", "fileno")

    def __init__(self, disk: Disk, file: File, path: Path) -> None:
        self._disk = disk
        self._file = file
        self._path = path
        self.fileno = file.fileno

    def read(self, position: int, size: int) -> bytes:
        self._disk._check(self._path, _Access.READ)
        return self._file.read(position, size)

    def write(self, data: BytesLike, position: int) -> None:
        if self._disk._write_ms:
            self._disk._slow_down()
        try:
            self._disk._check(self._path, _Access.WRITE)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self._file.write(memoryview(data)[: len(data) // 2], position)
            raise
        self._file.write(data, position)

    def truncate(self, size: int) -> None:
        self._disk._check(self._path, _Access.CHANGE)
        self._file.truncate(size)

    def sync(self) -> None:
        self._disk._check(self._path, _Access.WRITE)
        self._file.sync()
