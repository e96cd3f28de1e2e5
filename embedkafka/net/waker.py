"""Wakes a thread out of its selector.

Owner: any thread may `wake`; the selecting thread drains and closes.
"""

import os


class Waker:
    """A descriptor that becomes readable when somebody calls `wake`."""

    __slots__ = ("_read", "_write")

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self._read = self._write = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._read, self._write = os.pipe()
            os.set_blocking(self._read, False)
            os.set_blocking(self._write, False)

    def fileno(self) -> int:
        return self._read

    def wake(self) -> None:
        try:
            os.write(self._write, b"\x01\0\0\0\0\0\0\0")
        except BlockingIOError:
            pass  # full, so the thread wakes anyway

    def drain(self) -> None:
        try:
            os.read(self._read, 4096)
        except BlockingIOError:
            pass  # drained before

    def close(self) -> None:
        os.close(self._read)
        if self._write != self._read:
            os.close(self._write)
