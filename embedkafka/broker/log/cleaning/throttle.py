"""Computes pauses that keep work within a rate, as Kafka's cleaner does.

Pure: takes the work done and the time, and returns a pause. It checks the rate every 300 ms.
"""

from typing import Final

_CHECK_INTERVAL_MS: Final = 300


class Throttle:
    """Keeps a count of bytes to `bytes_per_second`."""

    __slots__ = ("_begun_ms", "_bytes", "_bytes_per_ms")

    def __init__(self, bytes_per_second: float, *, now_ms: float) -> None:
        self._bytes_per_ms = bytes_per_second / 1000
        self._begun_ms = now_ms
        self._bytes = 0

    def set_rate(self, bytes_per_second: float) -> None:
        """Takes effect at the next check of the rate."""
        self._bytes_per_ms = bytes_per_second / 1000

    def observe(self, count: int, now_ms: float) -> float:
        """Adds `count` bytes; returns the milliseconds to wait before the next ones."""
        self._bytes += count
        elapsed_ms = now_ms - self._begun_ms
        if elapsed_ms < 0:
            return -elapsed_ms  # another thread is pausing, on behalf of all
        if elapsed_ms < _CHECK_INTERVAL_MS:
            return 0.0
        pause_ms = max(self._bytes / self._bytes_per_ms - elapsed_ms, 0.0)
        self._begun_ms = now_ms + pause_ms
        self._bytes = 0
        return pause_ms
