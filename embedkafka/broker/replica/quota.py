"""The replication quota (KIP-73): limits how fast a reassignment copies throttled replicas.

A topic's settings select the throttled replicas. A broker's settings limit the bytes per second
that it sends as leader, or fetches as follower, for all of them. The rate covers the last seconds.

Owner: `_lock` (leaf) guards the samples.
Invariants: without a rate the quota is never exceeded. Readers and fetchers apply it; they never
hold back replicas in sync.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.wire.protocol.wire_types import MAX_LONG

_ALL: Final = ("*",)
_UNLIMITED: Final = MAX_LONG


class ReplicationQuota:
    """The rate at which one broker sends, or fetches, throttled replicas."""

    def __init__(self, clock: Clock, *, windows: int, window_ms: int) -> None:
        self._clock = clock
        self._windows = windows
        self._window_ms = window_ms
        self._bytes_per_second = _UNLIMITED
        self._lock = ranked_lock("replication quota", LEAF_RANK)
        self._samples: deque[tuple[float, int]] = deque(maxlen=windows)

    def set_rate(self, bytes_per_second: int) -> None:
        """Sets the limit, which also applies to the bytes recorded in the last seconds."""
        self._bytes_per_second = bytes_per_second

    def record(self, size: int) -> None:
        """Records bytes of throttled replicas, sent or fetched."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            if self._samples and now_ms < self._samples[-1][0] + self._window_ms:
                begun_ms, before = self._samples.pop()
                self._samples.append((begun_ms, before + size))
            else:
                self._samples.append((now_ms, size))

    def is_exceeded(self) -> bool:
        """Whether the recorded bytes exceed the rate."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            while self._samples and self._samples[0][0] <= now_ms - self._windows * self._window_ms:
                self._samples.popleft()
            if not self._samples:
                return False
            elapsed_ms = max(now_ms - self._samples[0][0], self._window_ms)
            recorded = sum(size for _, size in self._samples)
        return recorded * 1000 / elapsed_ms > self._bytes_per_second


def is_throttled(replicas: Sequence[str], partition: int, broker_id: BrokerId) -> bool:
    """Whether a topic's list of throttled replicas names this one."""
    return replicas == _ALL or f"{partition}:{broker_id}" in replicas
