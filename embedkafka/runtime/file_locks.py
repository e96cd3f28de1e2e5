"""Locks on open files that keep other processes out, with the means each system offers.

Not here: which files are locked, and the locks this process holds (`files`).
"""

import errno
import os
import struct
import sys
from typing import Final

if sys.platform == "win32":
    import msvcrt

    fcntl = None
else:
    try:
        import fcntl
    except ModuleNotFoundError:
        fcntl = None  # type: ignore[assignment]  # a name for the module that is missing

CAN_LOCK: Final = fcntl is not None or sys.platform == "win32"
"""Whether a lock keeps other processes out. Otherwise it excludes only this process's brokers."""

_TAKEN: Final = frozenset({errno.EACCES, errno.EAGAIN})
_FLOCK: Final = "hhqqi4x"  # struct flock of Linux: type, whence, start, length, pid


def lock_file(descriptor: int) -> None:
    """Holds the lock until the file is closed. Raises OSError if taken (see `is_taken`)."""
    if sys.platform == "win32":
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    elif fcntl is not None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_taken(error: OSError) -> bool:
    return error.errno in _TAKEN


def describe_holder(descriptor: int) -> str:
    """Names the process that holds the lock, according to the kernel."""
    if fcntl is not None and sys.platform == "linux":
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        told = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
        pid = struct.unpack(_FLOCK, told)[4]
        if pid > 0:  # it is in this container and on this machine
            return f"process {pid}"
    return "another process"
