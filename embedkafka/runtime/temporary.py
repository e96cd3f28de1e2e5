"""Temporary directories that do not long outlive their process.

The owner locks each one (`Files.lock_directory`). The lock proves that the owner is alive; a pid
would not, because containers that share a temporary directory have separate pids. If a process
dies without tidying up, the next process that needs a directory removes what it left.

Owner: the thread that made the directory. `_swept` only grows.
Invariants: a forked child removes nothing of its parent's.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from embedkafka.runtime.failures import DirectoryInUse
from embedkafka.runtime.file_locks import CAN_LOCK
from embedkafka.runtime.files import SystemFiles
from embedkafka.runtime.forks import Owner

PREFIX: Final = "embedkafka-"

_FILES: Final = SystemFiles()
_swept: set[str] = set()
"""Parents that this process has swept; once is enough."""


class TemporaryDirectory:
    """A new directory that exists until `remove`."""

    def __init__(self, kind: str = "") -> None:
        """`kind` is part of its name."""
        parent = tempfile.gettempdir()
        if parent not in _swept:
            _swept.add(parent)
            sweep(Path(parent))
        self._owner = Owner()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}", dir=parent))
            try:
                self._lock = _FILES.lock_directory(self.path)
                return
            except (FileNotFoundError, DirectoryInUse):
                continue  # another process swept it before we had locked it

    def remove(self) -> None:
        """Removes as much of the directory as it can; a second call does nothing."""
        if self._owner.is_here:
            _remove(self.path)
            self._lock.release()


@contextmanager
def private_file(data: bytes) -> Iterator[str]:
    """The path of a file with `data` that only this user can read, for the length of a `with`."""
    with tempfile.NamedTemporaryFile(prefix=f"{PREFIX}private-") as file:
        file.write(data)
        file.flush()
        yield file.name


def replace_private(path: Path, data: bytes) -> None:
    """Replaces the content of `path` atomically; only this user can read it."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def sweep(parent: Path) -> None:
    """Removes the directories in `parent` whose owners are dead."""
    if not CAN_LOCK:
        return
    for name in os.listdir(parent):
        if name.startswith(PREFIX):
            _sweep_one(parent / name)


def _sweep_one(directory: Path) -> None:
    try:
        lock = _FILES.lock_directory(directory, create=False)
    except FileNotFoundError:
        _remove_if_empty(directory)
        return
    except (DirectoryInUse, OSError):
        return  # alive, or another user's
    _remove(directory)
    lock.release()


def _remove(directory: Path) -> None:
    import shutil  # `tempfile` has imported it by now

    shutil.rmtree(directory, ignore_errors=True)


def _remove_if_empty(directory: Path) -> None:
    """The owner died before locking it, or is about to lock it and will make another."""
    try:
        os.rmdir(directory)
    except OSError:
        pass
