"""The cluster's time: the one seam through which brokers read clocks and wait.

Owner: each clock's leaf lock guards its offset and its listeners.
Invariants: `monotonic_ms` never goes back; a jump wakes every waiter, so no wait outlives its
deadline, even when the jump comes between reading the clock and waiting.
Not here: timers (`purgatory.timer`) and periodic work (`runtime.scheduler`), which use a clock.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from embedkafka.runtime.failures import InvalidArgument


class Clock(Protocol):
    """Reads time and waits in it."""

    def now_ms(self) -> int:
        """Wall-clock time, for timestamps in records, logs and files."""
        ...

    def monotonic_ms(self) -> float:
        """Time that only goes forward, for timers, deadlines and lag."""
        ...

    def wait_until(self, condition: threading.Condition, deadline_ms: float | None) -> bool:
        """Like `condition.wait`, until `deadline_ms` on this clock's monotonic time.

        The caller holds `condition` and loops on its own predicate: a jump of the clock wakes
        waiters early. False means that the deadline has passed.
        """
        ...

    def subscribe(self, on_jump: Callable[[], None]) -> Callable[[], None]:
        """Calls `on_jump` after time jumped; returns the function that ends the subscription."""
        ...


class _Jumps:
    """The listeners of a clock that can be moved."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[object, Callable[[], None]] = {}

    def subscribe(self, on_jump: Callable[[], None]) -> Callable[[], None]:
        key = object()
        with self._lock:
            self._listeners[key] = on_jump

        def unsubscribe() -> None:
            with self._lock:
                self._listeners.pop(key, None)

        return unsubscribe

    def announce(self) -> None:
        with self._lock:
            listeners = list(self._listeners.values())
        for listener in listeners:
            listener()

    def wait(self, condition: threading.Condition, remaining_s: Callable[[], float | None]) -> None:
        """Waits for a notify, for a jump, or for the real time that remains (None: no limit).

        The remaining time is read after subscribing. The reading reflects any earlier jump, and a
        later one needs `condition`, which the caller holds until it waits.
        """

        def wake() -> None:
            with condition:
                condition.notify_all()

        unsubscribe = self.subscribe(wake)
        try:
            seconds = remaining_s()
            if seconds is None or seconds > 0:
                condition.wait(seconds)
        finally:
            unsubscribe()


class SystemClock:
    """Real time, which a test may push forward with `advance`, for the whole cluster."""

    def __init__(self) -> None:
        self._offset_ms = 0
        self._jumps = _Jumps()

    def now_ms(self) -> int:
        """The time of day, in milliseconds since 1970."""
        return int(time.time() * 1000) + self._offset_ms

    def monotonic_ms(self) -> float:
        """Time that only goes forward, in milliseconds, for timers and deadlines."""
        return time.monotonic() * 1000 + self._offset_ms

    def wait_until(self, condition: threading.Condition, deadline_ms: float | None) -> bool:
        """Waits on `condition`, which the caller holds, until `deadline_ms`; false if it passed."""
        if deadline_ms is None:
            condition.wait()
            return True
        self._jumps.wait(condition, lambda: (deadline_ms - self.monotonic_ms()) / 1000)
        return self.monotonic_ms() < deadline_ms

    def subscribe(self, on_jump: Callable[[], None]) -> Callable[[], None]:
        """Calls `on_jump` after each `advance`; returns a function that ends that."""
        return self._jumps.subscribe(on_jump)

    def advance(
        self,
        ms: float = 0,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> None:
        """Moves the clock forward and wakes everything that waits on it.

            kafka.clock.advance(days=8)  # retention deletes what is older than a week

        Args:
            ms: milliseconds; all arguments are added up.
            seconds: seconds.
            minutes: minutes.
            hours: hours.
            days: days.

        Raises:
            InvalidArgument: the sum is negative, or an argument is not a number.
        """
        self._offset_ms += _forward_ms(ms, seconds, minutes, hours, days)
        self._jumps.announce()


REAL_TIME: Final = SystemClock()
"""Measures how long callers have waited: moving the cluster's clock must not end their timeouts."""


class ManualClock:
    """Time that stands still until `advance` moves it."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms
        self._jumps = _Jumps()

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> float:
        return float(self._now_ms)

    def wait_until(self, condition: threading.Condition, deadline_ms: float | None) -> bool:
        if deadline_ms is None:
            condition.wait()
            return True
        self._jumps.wait(condition, lambda: None if self._now_ms < deadline_ms else 0)
        return self._now_ms < deadline_ms

    def subscribe(self, on_jump: Callable[[], None]) -> Callable[[], None]:
        return self._jumps.subscribe(on_jump)

    def advance(
        self,
        ms: float = 0,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> None:
        """Moves this clock forward by the sum and wakes all waiters."""
        self._now_ms += _forward_ms(ms, seconds, minutes, hours, days)
        self._jumps.announce()


def _forward_ms(ms: float, seconds: float, minutes: float, hours: float, days: float) -> int:
    for name, value in (
        ("ms", ms),
        ("seconds", seconds),
        ("minutes", minutes),
        ("hours", hours),
        ("days", days),
    ):
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise InvalidArgument(f"{name} must be a number, got {value!r}")
    total = ms + 1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)))
    if total < 0:
        raise InvalidArgument(f"time cannot go back, got {total:g} ms: advance by more than 0")
    return round(total)
