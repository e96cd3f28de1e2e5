"""Wakes a thread out of its selector.

Owner: any thread may `wake`; the selecting thread drains and closes. `_lock` (leaf) keeps a late
`wake` from writing to a descriptor that by then belongs to somebody else.
"""

import os
import sys

from embedkafka.runtime.locks import LEAF_RANK, ranked_lock

_ONE = (1).to_bytes(8, sys.byteorder)  # what an eventfd counts in; a pipe takes any bytes


class Waker:
    """A descriptor that becomes readable when somebody calls `wake`."""

    __slots__ = ("_closed", "_lock", "_read", "_write")

    def __init__(self) -> None:
        self._lock = ranked_lock("waker", LEAF_RANK)
        self._closed = False
        if hasattr(os, "eventfd"):
            self._read = self._write = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._read, self._write = os.pipe()
            os.set_blocking(self._read, False)
            os.set_blocking(self._write, False)

    def fileno(self) -> int:
        return self._read

    def wake(self) -> None:
        with self._lock:
            if self._closed:
                return
            try:
                os.write(self._write, _ONE)
            except BlockingIOError:
                pass  # full, so the thread wakes anyway

    def drain(self) -> None:
        try:
            os.read(self._read, 4096)
        except BlockingIOError:
            pass  # drained before

    def close(self) -> None:
        with self._lock:
            self._closed = True
            os.close(self._read)
            if self._write != self._read:
                os.close(self._write)
