"""A clock that freezes the threads waiting on it, as a long garbage collection does to a broker.

Owner: `_lock` (leaf) guards the set of frozen conditions.
Invariants: during a pause no wait returns, whether notified or timed out. Time itself continues,
and so do threads that never wait. A frozen wait holds no lock.
Not here: sockets, which `SocketServer.pause` stops, and the session (`session_link`).
"""

import threading
from collections.abc import Callable

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.locks import CLOCK_RANK, ranked_lock


class PausableClock:
    """One broker's clock: the cluster's, except between `pause` and `resume`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = ranked_lock("threads that stand still", CLOCK_RANK)
        self._paused = False
        self._standing: set[threading.Condition] = set()
        # Bound here because every request reads the time: this saves a call.
        self.now_ms: Callable[[], int] = clock.now_ms
        self.monotonic_ms: Callable[[], float] = clock.monotonic_ms
        self.shift_ms: Callable[[], int | None] = clock.shift_ms
        self.subscribe = clock.subscribe

    def wait_until(self, condition: threading.Condition, deadline_ms: float | None) -> bool:
        in_time = self._clock.wait_until(condition, deadline_ms)
        if not self._paused:
            return in_time
        self._stand_still(condition)
        return deadline_ms is None or self.monotonic_ms() < deadline_ms

    def wait(self, condition: threading.Condition, timeout_ms: float | None) -> bool:
        deadline_ms = None if timeout_ms is None else self.monotonic_ms() + timeout_ms
        return self.wait_until(condition, deadline_ms)

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        with self._lock:
            standing, self._standing = self._standing, set()
        for condition in standing:
            with condition:
                condition.notify_all()

    def _stand_still(self, condition: threading.Condition) -> None:
        # Added before the flag is read: either `resume` finds it, or the loop sees the flag down.
        with self._lock:
            self._standing.add(condition)
        while self._paused:
            condition.wait()
