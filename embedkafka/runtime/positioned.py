"""Reads and writes at a position in an open file, also on Windows, which lacks the system calls."""

import os
import threading

from embedkafka.runtime.buffers import BytesLike

_seeking = threading.Lock()


def _seek_and_read(descriptor: int, count: int, position: int) -> bytes:
    with _seeking:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.read(descriptor, count)


def _seek_and_write(descriptor: int, data: BytesLike, position: int) -> int:
    with _seeking:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.write(descriptor, data)


pread = getattr(os, "pread", _seek_and_read)
pwrite = getattr(os, "pwrite", _seek_and_write)
