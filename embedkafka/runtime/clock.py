"""The cluster's time: the one seam through which brokers read clocks and wait.

Owner: each clock's leaf locks guard its offsets and its listeners.
Invariants: `monotonic_ms` never goes back and never stands still; a jump wakes every waiter, so no
wait outlives its deadline, even when the jump comes between reading the clock and waiting.
Not here: timers (`purgatory.timer`) and periodic work (`runtime.scheduler`), which use a clock; how
records age on a clock that was moved (`log.files.record_ages`).
"""

import math
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol

from embedkafka.runtime.arguments import shown
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.real_time import RealTime, wall_s

if TYPE_CHECKING:
    from datetime import datetime


LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, and of Python's dates: far below the numbers that Kafka can store."""
_MOST_TIMER_MS: Final = 2**53
"""Beyond it, timers could not tell milliseconds."""
_REMEMBERED_LEAPS: Final = 1000


class Clock(Protocol):
    """Reads time and waits in it."""

    def now_ms(self) -> int:
        """Wall-clock time, for timestamps in records, logs and files."""
        ...

    def monotonic_ms(self) -> float:
        """Time that only goes forward, for timers, deadlines and lag."""
        ...

    def shift_ms(self) -> int | None:
        """How far `now_ms` is ahead of the clients' clocks; None if no one ever moved it."""
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
    """Real time, which a test may move, for the whole cluster: `kafka.clock`.

    It has two hands. The time of day is what records, commits and transactions are judged by;
    `freeze` stops it and `travel` sets it. Timers count milliseconds, for sessions and waits; they
    go on, so that clients get their answers. `advance` moves both.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_timer_s = RealTime.monotonic  # here, because every request reads it
        self._timer_offset_ms = 0
        self._offset_ms = 0
        self._stands_at_ms: int | None = None
        self._was_moved = False
        self._leaps: deque[tuple[float, int]] = deque(maxlen=_REMEMBERED_LEAPS)
        self._jumps = _Jumps()

    def __repr__(self) -> str:
        return f"<SystemClock {self.describe() or 'in real time'}>"

    def now_ms(self) -> int:
        """The time of day, in milliseconds since 1970."""
        stands_at_ms = self._stands_at_ms
        if stands_at_ms is not None:
            return stands_at_ms
        return int(wall_s() * 1000) + self._offset_ms

    def monotonic_ms(self) -> float:
        """Time that only goes forward, in milliseconds, for timers and deadlines."""
        return self._read_timer_s() * 1000 + self._timer_offset_ms

    def shift_ms(self) -> int | None:
        """How far the time of day is ahead of real time; None if it was never moved."""
        if not self._was_moved:
            return None
        stands_at_ms = self._stands_at_ms
        return self._offset_ms if stands_at_ms is None else stands_at_ms - int(wall_s() * 1000)

    def describe(self) -> str | None:
        """What is unusual about it, such as "8 days ahead of real time"; None if nothing is."""
        shift_ms = self.shift_ms()
        if shift_ms is None or (not shift_ms and self._stands_at_ms is None):
            return None
        where = f"{_length(abs(shift_ms))} {'ahead of' if shift_ms >= 0 else 'behind'} real time"
        return where if self._stands_at_ms is None else f"frozen, {where}"

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
            InvalidArgument: the sum is negative or leads beyond the year 9999, or an argument is
                not a number.
        """
        forward_ms = _forward_ms(ms, seconds, minutes, hours, days)
        with self._lock:
            _require_real_date(self.now_ms() + forward_ms)
            self._leap(forward_ms)
            self._move(forward_ms)
        self._jumps.announce()

    def travel(self, to: "datetime") -> None:
        """Sets the time of day. If that is forward, timers move as far.

            kafka.clock.travel(to=datetime(2030, 1, 1, tzinfo=UTC))

        Going back is what happens to a machine whose clock is corrected: records and commits lie in
        the future, and timers go on as if nothing had happened.

        Args:
            to: the time, with its time zone.

        Raises:
            InvalidArgument: it is not a `datetime`, has no time zone, or is before 1970.
        """
        to_ms = _epoch_ms(to)
        _require_real_date(to_ms)
        with self._lock:
            by_ms = to_ms - self.now_ms()
            self._leap(max(by_ms, 0))
            self._move(by_ms)
        self._jumps.announce()

    def freeze(self) -> "Frozen":
        """Stops the time of day until `resume`, or until the end of a `with` block.

            with kafka.clock.freeze():
                orders.send("at the same moment")

        Nothing grows older: no retention, no expiry of offsets, no transaction timeout. `advance`
        and `travel` still move it. Timers go on: sessions, waits of fetches, rebalances.
        """
        with self._lock:
            self._was_moved = True
            self._stands_at_ms = self.now_ms()
        return Frozen(self)

    def resume(self) -> None:
        """Lets the time of day go on from where it stands. Does nothing if it was not frozen."""
        with self._lock:
            stands_at_ms, self._stands_at_ms = self._stands_at_ms, None
            if stands_at_ms is not None:
                self._offset_ms = stands_at_ms - int(wall_s() * 1000)

    def reset(self) -> None:
        """Returns to real time. What was written in the future stays there; timers never go back.

        The next test can then use the cluster, once its topics and groups are gone.
        """
        with self._lock:
            self._offset_ms, self._stands_at_ms = 0, None
        self._jumps.announce()

    def _leap(self, forward_ms: int) -> None:
        """Moves the timers."""
        if self._timer_offset_ms + forward_ms > _MOST_TIMER_MS:
            raise InvalidArgument(
                f"timers never go back, and were moved by {_length(self._timer_offset_ms)}: "
                f"{_length(forward_ms)} more needs a new cluster"
            )
        self._leaps.append((self.monotonic_ms(), forward_ms))
        self._timer_offset_ms += forward_ms

    def _move(self, by_ms: int) -> None:
        self._was_moved = True
        if self._stands_at_ms is None:
            self._offset_ms += by_ms
        else:
            self._stands_at_ms += by_ms


def real_age_ms(clock: SystemClock, timer_ms: float) -> float:
    """How long ago, in real time, `clock.monotonic_ms()` was `timer_ms`."""
    with clock._lock:
        leapt_ms = sum(by_ms for at_ms, by_ms in clock._leaps if at_ms >= timer_ms)
        return max(clock.monotonic_ms() - timer_ms - leapt_ms, 0)


class Frozen:
    """A clock that stands still: `kafka.clock.freeze()`. Leaving its `with` block resumes it."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock

    def __enter__(self) -> SystemClock:
        return self._clock

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._clock.resume()


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

    def shift_ms(self) -> int | None:
        return None

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
        if not isinstance(value, int | float) or not abs(value) < math.inf:
            raise InvalidArgument(f"{name} must be a number, got {shown(value)}")
        if abs(value) > LATEST_MS:
            raise InvalidArgument(f"{name} leads beyond the year 9999, where the clock ends")
    total = ms + 1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)))
    if total < 0:
        raise InvalidArgument(f"time cannot go back, got {total:g} ms: advance by more than 0")
    return round(total)


def _require_real_date(time_ms: int) -> None:
    if time_ms < 0:
        raise InvalidArgument("the clock begins in 1970: Kafka has no earlier timestamps")
    if time_ms > LATEST_MS:
        raise InvalidArgument("the clock ends with the year 9999: advance by less")


def _epoch_ms(moment: "datetime") -> int:
    from datetime import datetime  # few tests need it

    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InvalidArgument(
            "to must be a datetime with a time zone, such as "
            f"datetime(2030, 1, 1, tzinfo=UTC), got {shown(moment)}"
        )
    return round(moment.timestamp() * 1000)


def _length(ms: int) -> str:
    """A length of time, in the largest unit that leaves a whole number, or in seconds."""
    for name, unit_ms in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)):
        count = round(ms / unit_ms)
        if count and abs(ms - count * unit_ms) < 1_000:
            return f"{count} {name}{'s' if count > 1 else ''}"
    return f"{ms / 1000:g} s"
