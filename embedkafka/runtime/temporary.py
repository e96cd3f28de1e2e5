"""Directories in the system's temporary one, which do not outlive their process for long.

Each is locked by its owner (`Files.lock_directory`): that is the proof of life, and a better one
than a pid, which means nothing in another container that shares the temporary directory. Whatever
ends a process that has no time to tidy up, the next one to need a directory removes those left.

Owner: the thread that made it. `_swept` is only ever added to.
Invariants: a forked child removes nothing of its parent's.
"""

import os
import tempfile
from pathlib import Path
from typing import Final

from embedkafka.runtime.failures import DirectoryInUse
from embedkafka.runtime.file_locks import CAN_LOCK
from embedkafka.runtime.files import SystemFiles
from embedkafka.runtime.forks import Owner

PREFIX: Final = "embedkafka-"

_FILES: Final = SystemFiles()
_swept: set[str] = set()
"""Looked through already; once is enough for a process."""


class TemporaryDirectory:
    """A new directory, until `remove`."""

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
                continue  # another process took it for one that was left, before it was locked

    def remove(self) -> None:
        """Removes it with all that is in it, as far as that goes; again does nothing."""
        if self._owner.is_here:
            _remove(self.path)
            self._lock.release()


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
    import shutil  # by now it is loaded, by `tempfile`

    shutil.rmtree(directory, ignore_errors=True)


def _remove_if_empty(directory: Path) -> None:
    """Its owner died before it could lock it, or is about to, and then makes another."""
    try:
        os.rmdir(directory)
    except OSError:
        pass
