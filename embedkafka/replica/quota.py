"""How fast throttled replicas may be copied (KIP-73): a reassignment leaves room for others.

A topic's settings say which replicas are throttled, a broker's how many bytes a second all of them
may send as leader, or take as follower. The rate is that of the last few seconds.

Owner: `_lock` (leaf) guards the samples.
Invariants: without a rate nothing is exceeded. Whether a replica is held back is for whoever reads
or fetches to say: those in sync never are.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from embedkafka.protocol.wire_types import MAX_LONG
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock

_ALL: Final = ("*",)
_UNLIMITED: Final = MAX_LONG


class ReplicationQuota:
    """What one broker may send, or take, for throttled replicas."""

    def __init__(self, clock: Clock, *, windows: int, window_ms: int) -> None:
        self._clock = clock
        self._windows = windows
        self._window_ms = window_ms
        self._bytes_per_second = _UNLIMITED
        self._lock = ranked_lock("replication quota", LEAF_RANK)
        self._samples: deque[tuple[float, int]] = deque(maxlen=windows)

    def set_rate(self, bytes_per_second: int) -> None:
        """Holds from now on, for what was recorded in the last seconds too."""
        self._bytes_per_second = bytes_per_second

    def record(self, size: int) -> None:
        """So many bytes of throttled replicas were sent or taken."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            if self._samples and now_ms < self._samples[-1][0] + self._window_ms:
                begun_ms, before = self._samples.pop()
                self._samples.append((begun_ms, before + size))
            else:
                self._samples.append((now_ms, size))

    def is_exceeded(self) -> bool:
        """Whether more was recorded than the rate allows."""
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
