"""Keeps what is slow to build: class paths, compiled drivers, class-data archives.

The directory is git-ignored and may be removed at any time. Every entry is built under a file lock
and moved into place whole, so parallel test runs and xdist workers share it safely.
"""

import contextlib
import fcntl
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = ROOT / ".cache" / "java_tools"


def cache_key(*parts: str) -> str:
    """A short name that depends on all of the parts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@contextlib.contextmanager
def exclusive(entry: Path) -> Iterator[None]:
    """Holds the lock of one cache entry; other processes wait for it."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    with entry.with_name(entry.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def progress(message: str) -> None:
    """Prints a line, past pytest's capture, that explains why a run takes long."""
    print(f"embedkafka java tools: {message}", file=sys.__stderr__ or sys.stderr, flush=True)
