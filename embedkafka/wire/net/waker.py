"""Wakes a thread out of its selector.

Owner: any thread may `wake`; the selecting thread drains and closes. `_lock` (leaf) keeps a late
`wake` from writing to a descriptor that has been closed and reused.
"""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.wire.net.transport import new_pair

_ONE = (1).to_bytes(8, sys.byteorder)  # an eventfd counts in such words; a socket takes any bytes


class Waker:
    """A descriptor that becomes readable when `wake` is called.

    It is an eventfd on Linux, and a pair of sockets elsewhere: Windows selects only on sockets.
    """

    __slots__ = ("_close", "_closed", "_lock", "_read", "_write", "fileno")

    fileno: Callable[[], int]
    _read: Callable[[int], bytes]
    _write: Callable[[bytes], int]
    _close: Sequence[Callable[[], None]]

    def __init__(self) -> None:
        self._lock = ranked_lock("waker", LEAF_RANK)
        self._closed = False
        if hasattr(os, "eventfd"):
            counter = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self.fileno = lambda: counter
            self._read, self._write = partial(os.read, counter), partial(os.write, counter)
            self._close = (partial(os.close, counter),)
        else:
            reader, writer = new_pair()
            self.fileno = reader.fileno
            self._read, self._write = reader.recv, writer.send
            self._close = (reader.close, writer.close)

    def wake(self) -> None:
        with self._lock:
            if self._closed:
                return
            try:
                self._write(_ONE)
            except BlockingIOError:
                pass  # full, so the thread wakes up anyway

    def drain(self) -> None:
        try:
            self._read(4096)
        except BlockingIOError:
            pass  # already drained

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for close in self._close:
                close()
