"""A disk that a test fills, breaks or protects. Each broker has one, of one or more directories.

Owner: the thread that calls `fill`, `fail`, `protect` and `heal`; brokers read the faults, which
are replaced whole.
Invariants: a write that fails may have written its first half, as on a real disk. What was read
before a fault, and what the kernel sends straight from a file, is not touched by it.
"""

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.files import LOCK_FILE, DirectoryLock, File, Files


class Disk:
    """What a test holds of one broker's disk: `kafka.faults.disk(1)`."""

    def __init__(self, directories: Callable[[], Sequence[Path]]) -> None:
        self._directories = directories
        self._faults: Mapping[Path, _Fault] = MappingProxyType({})

    def fill(self, directory: int | None = None) -> None:
        """Lets every write fail for want of space, in one directory (from 1 on) or in all."""
        self._break(directory, _Fault(errno.ENOSPC, _Access.WRITE))

    def fail(self, directory: int | None = None) -> None:
        """Lets every access fail with an I/O error, in one directory (from 1 on) or in all."""
        self._break(directory, _Fault(errno.EIO, _Access.READ))

    def protect(self, directory: int | None = None) -> None:
        """Lets every change fail, as on a file system that was mounted anew for reading only."""
        self._break(directory, _Fault(errno.EROFS, _Access.CHANGE))

    def heal(self) -> None:
        """Lets everything work again; a broker uses a directory that failed after a restart."""
        self._faults = MappingProxyType({})

    @property
    def has_faults(self) -> bool:
        return bool(self._faults)

    def files(self, files: Files) -> Files:
        """The way in which a broker uses this disk."""
        return _DiskFiles(self, files)

    def _break(self, directory: int | None, fault: "_Fault") -> None:
        paths = self._directories()
        chosen = paths if directory is None else [paths[directory - 1]]
        self._faults = MappingProxyType({**self._faults, **dict.fromkeys(chosen, fault)})

    def _check(self, path: Path, access: "_Access") -> None:
        if not self._faults:
            return
        for directory, fault in self._faults.items():
            if access >= fault.first and path.is_relative_to(directory):
                raise OSError(fault.code, os.strerror(fault.code), str(path))


class _Access(IntEnum):
    """What a file is used for, each asking more of the disk than the one before."""

    READ = 1
    CHANGE = 2  # renamed, cut or removed: no room is needed
    WRITE = 3


class _Fault:
    """Fails what asks as much as `first` of the disk, or more."""

    __slots__ = ("code", "first")

    def __init__(self, code: int, first: _Access) -> None:
        self.code = code
        self.first = first


class _DiskFiles:
    """`Files` that ask the disk first."""

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

    def replace(self, path: Path, data: BytesLike) -> None:
        self._disk._check(path, _Access.WRITE)
        self._files.replace(path, data)

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
    """An open file of a disk."""

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
