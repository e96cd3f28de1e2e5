"""Locks on open files that keep other processes out, by whatever the system offers.

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
"""Whether a lock keeps other processes out. Where it does not, it keeps out this process only."""

_TAKEN: Final = frozenset({errno.EACCES, errno.EAGAIN})
_FLOCK: Final = "hhqqi4x"  # struct flock of Linux: type, whence, start, length, pid


def lock_file(descriptor: int) -> None:
    """Takes the lock until the file is closed; an OSError that `is_taken` while another has it."""
    if sys.platform == "win32":
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    elif fcntl is not None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_taken(error: OSError) -> bool:
    return error.errno in _TAKEN


def describe_holder(descriptor: int) -> str:
    """Names the process that holds the lock, as the kernel knows it."""
    if fcntl is not None and sys.platform == "linux":
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        told = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
        pid = struct.unpack(_FLOCK, told)[4]
        if pid > 0:  # not in another container, nor on another machine
            return f"process {pid}"
    return "another process"
