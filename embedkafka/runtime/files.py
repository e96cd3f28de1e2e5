"""The file operations that logs need: the seam where tests make a disk fail.

Owner: each `File` belongs to the log segment or index that opened it. `_registry` (leaf) guards
the set of directories this process has locked.
Invariants: a file stays open exactly as long as something refers to it. So a `FileRegion` on its
way to a socket outlives its segment, without a reference count.
Not here: file contents (`log`).
"""

import errno
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.failures import DirectoryInUse
from embedkafka.runtime.file_locks import describe_holder, is_taken, lock_file
from embedkafka.runtime.forks import Owner, after_fork
from embedkafka.runtime.positioned import pread, pwrite

MAX_FILE_NAME: Final = 255

#: No hard links here, a link across file systems, too many links.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP})
_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
_COPY_SIZE: Final = 1024 * 1024

LOCK_FILE: Final = ".lock"
"""The same name as Kafka's."""

_BINARY: Final = getattr(os, "O_BINARY", 0)  # or Windows translates line ends
_IS_WINDOWS: Final = os.name == "nt"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class File(Protocol):
    """An open file, read and written at explicit positions; closed when nothing refers to it."""

    def fileno(self) -> int: ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def write(self, data: BytesLike, position: int) -> None:
        """Writes all of `data`, or raises OSError after writing any part of it."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...


class DirectoryLock(Protocol):
    """Exclusive use of a directory until `release`."""

    def release(self) -> None: ...


class Files(Protocol):
    """Every disk operation of a log. Each method may raise OSError."""

    def open(self, path: Path) -> File:
        """Opens for reading and writing; creates a missing file."""
        ...

    def create(self, path: Path) -> File:
        """Creates and opens a new file; raises FileExistsError if it exists."""
        ...

    def read(self, path: Path) -> bytes: ...

    def replace(self, path: Path, data: BytesLike, *, sync: bool = False) -> None:
        """Replaces the content of `path` atomically: readers see the old or the new, whole.

        Without `sync`, a power loss may leave an empty file.
        """
        ...

    def sync(self, path: Path) -> None:
        """Waits until a file, or the names in a directory, are on disk."""
        ...

    def boot_id(self) -> str | None:
        """Changes when the machine starts, because it may have lost power; None if unknown."""
        ...

    def size(self, path: Path) -> int: ...

    def exists(self, path: Path) -> bool: ...

    def names(self, directory: Path) -> Sequence[str]:
        """The names in `directory`, sorted."""
        ...

    def make_directory(self, directory: Path) -> None:
        """Creates `directory` and its parents if missing."""
        ...

    def lock_directory(self, directory: Path, *, create: bool = True) -> DirectoryLock:
        """Keeps other processes, and the rest of this one, from using `directory`.

        Raises `DirectoryInUse` with the holder's pid. The lock is on the file `.lock`, as in Apache
        Kafka, so the two refuse each other's directories. Without `create`, a missing `.lock`
        raises FileNotFoundError.
        """
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Moves a file or directory; overwrites an existing file."""
        ...

    def copy(self, old: Path, new: Path) -> None:
        """Copies the content to a new file."""
        ...

    def link(self, old: Path, new: Path) -> None:
        """Makes `new` a hard link to `old`, or a copy where links are impossible.

        Afterwards only `replace`, or a write after `unshare`, may change the file.
        """
        ...

    def unshare(self, path: Path) -> bool:
        """Replaces a shared file with a private copy; returns whether it was shared."""
        ...

    def remove(self, path: Path) -> None:
        """Removes a file if it exists."""
        ...

    def remove_tree(self, directory: Path) -> None:
        """Removes a directory with its contents if it exists."""
        ...


def sync_all(files: Files, paths: Iterable[Path]) -> None:
    """Syncs those of `paths` that exist; another thread may be removing some."""
    for path in paths:
        with suppress(FileNotFoundError):
            files.sync(path)


def is_disk_failure(error: OSError) -> bool:
    """Whether the disk is broken or full. Running out of descriptors does not count: it passes."""
    return error.errno not in _OUT_OF_DESCRIPTORS


class FileRegion:
    """A range of an open file, sent without reading it."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: File, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def __repr__(self) -> str:
        return f"FileRegion(position={self.position}, size={self.size})"

    def fileno(self) -> int:
        return self.file.fileno()

    def read(self) -> bytes:
        """The bytes of the range; fewer than `size` if the file has been truncated."""
        return self.file.read(self.position, self.size)


class SystemFiles:
    """The real file system.

    Without `syncs`, nothing waits for the disk: right for files that end with their process.
    """

    def __init__(self, *, syncs: bool = True) -> None:
        self._syncs = syncs
        self._new_file = _SystemFile if syncs else _UnsyncedFile

    def open(self, path: Path) -> File:
        return self._new_file(os.open(path, os.O_RDWR | os.O_CREAT | _BINARY, 0o644))

    def create(self, path: Path) -> File:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY
        return self._new_file(os.open(path, flags, 0o644))

    def read(self, path: Path) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace(self, path: Path, data: BytesLike, *, sync: bool = False) -> None:
        temporary = path.with_name(path.name + ".tmp")
        with open(temporary, "wb", buffering=0) as file:
            _write_all(file.fileno(), data, 0)
            if sync and self._syncs:
                os.fsync(file.fileno())
        os.replace(temporary, path)

    def sync(self, path: Path) -> None:
        if not self._syncs or (_IS_WINDOWS and os.path.isdir(path)):
            return
        descriptor = os.open(path, os.O_RDWR | _BINARY if _IS_WINDOWS else os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a network's file system without synced directories
                raise
        finally:
            os.close(descriptor)

    def boot_id(self) -> str | None:
        try:
            return self.read(_BOOT_ID).decode().strip()
        except OSError:
            return None

    def size(self, path: Path) -> int:
        return os.stat(path).st_size

    def exists(self, path: Path) -> bool:
        return os.path.exists(path)

    def names(self, directory: Path) -> Sequence[str]:
        return sorted(os.listdir(directory))

    def make_directory(self, directory: Path) -> None:
        os.makedirs(directory, exist_ok=True)

    def lock_directory(self, directory: Path, *, create: bool = True) -> DirectoryLock:
        path = directory / LOCK_FILE
        with _registry:
            try:
                found = os.stat(path)
            except FileNotFoundError:
                pass
            else:
                if (found.st_dev, found.st_ino) in _held:  # opening the file would release the lock
                    raise DirectoryInUse(f"{directory} is in use by this process already")
            return _lock(directory, os.O_CREAT if create else 0)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def copy(self, old: Path, new: Path) -> None:
        source = os.open(old, os.O_RDONLY | _BINARY)
        try:
            target = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, 0o644)
            try:
                _copy_all(source, target)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def link(self, old: Path, new: Path) -> None:
        try:
            os.link(old, new)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self.copy(old, new)

    def unshare(self, path: Path) -> bool:
        try:
            if os.stat(path).st_nlink == 1:
                return False
        except FileNotFoundError:
            return False
        temporary = path.with_name(path.name + ".tmp")
        self.copy(path, temporary)
        os.replace(temporary, path)
        return True

    def remove(self, path: Path) -> None:
        try:
            os.remove(path)
        except FileNotFoundError:
            pass

    def remove_tree(self, directory: Path) -> None:
        import shutil  # imports every compression module, which takes 10 ms

        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            pass


class _SystemFile:
    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def read(self, position: int, size: int) -> bytes:
        data = pread(self._descriptor, size, position)
        if len(data) == size:
            return data
        parts = [data]
        remaining = size - len(data)
        while data and remaining:
            data = pread(self._descriptor, remaining, position + size - remaining)
            parts.append(data)
            remaining -= len(data)
        return b"".join(parts)

    def write(self, data: BytesLike, position: int) -> None:
        _write_all(self._descriptor, data, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        os.fsync(self._descriptor)


class _UnsyncedFile(_SystemFile):
    __slots__ = ()

    def sync(self) -> None:
        pass


_registry = threading.RLock()  # re-entrant: collecting a lock releases it, at any moment
_held: set[tuple[int, int]] = set()
"""The lock files of this process, by device and inode.

A POSIX lock does not exclude its own process, and closing any descriptor of the file releases it.
So we must not open the file of a lock we hold.
"""


class _SystemLock:
    __slots__ = ("_descriptor", "_key", "_owner")

    def __init__(self, descriptor: int, key: tuple[int, int]) -> None:
        self._descriptor: int | None = descriptor
        self._key = key
        self._owner = Owner()
        _held.add(key)

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        """Releases the lock. A second call, or a call in a forked child, does nothing."""
        if not self._owner.is_here:
            return
        with _registry:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                _held.discard(self._key)
                with suppress(OSError):  # the pid is only for people, and the disk may be broken
                    os.ftruncate(descriptor, 0)
                os.close(descriptor)


def _lock(directory: Path, flags: int) -> _SystemLock:
    descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | _BINARY | flags, 0o644)
    try:
        lock_file(descriptor)
        found = os.fstat(descriptor)
        if found.st_nlink == 0:  # removed since we opened it, perhaps with its directory
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(directory))
        pid = f"{os.getpid()}\n".encode()  # for people; the lock itself is what counts
        os.ftruncate(descriptor, 0)
        _write_all(descriptor, pid, 0)
        return _SystemLock(descriptor, (found.st_dev, found.st_ino))
    except OSError as error:
        holder = describe_holder(descriptor) if is_taken(error) else None
        os.close(descriptor)
        if holder is None:
            raise
        raise DirectoryInUse(f"{directory} is in use by {holder}") from error


@after_fork
def _forget_locks() -> None:
    """A forked child holds no lock of its parent, and lacks the thread that may be taking one."""
    global _registry
    _registry = threading.RLock()
    _held.clear()


def _copy_all(source: int, target: int) -> None:
    position = 0
    while data := pread(source, _COPY_SIZE, position):
        _write_all(target, data, position)
        position += len(data)


def _write_all(descriptor: int, data: BytesLike, position: int) -> None:
    written = pwrite(descriptor, data, position)
    if written == len(data):
        return
    rest = memoryview(data)[written:]
    while rest:
        position += written
        written = pwrite(descriptor, rest, position)
        rest = rest[written:]
