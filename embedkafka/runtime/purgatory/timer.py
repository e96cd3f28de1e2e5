"""A broker's timer thread, which sleeps until the next bucket of its wheel is due.

Owner: `_condition` (leaf) guards the wheel; callbacks run on the timer's thread with no lock held.
Invariants: a callback runs at most once, never early, and never after its `cancel` returned True;
an empty timer never wakes; a failing callback is recorded and the timer continues.
Not here: work. Callbacks hand over to a loop or a pool, because a slow one delays all others.
"""

import math
import threading
from collections.abc import Callable

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.locks import leaf_condition
from embedkafka.runtime.purgatory.timing_wheel import Bucket, TimingWheel
from embedkafka.runtime.threads import end_thread, start_thread


class TimerTask:
    """A callback that is due at `deadline_ms`."""

    __slots__ = ("_timer", "bucket", "callback", "deadline_ms")

    def __init__(
        self, timer: "SystemTimer", deadline_ms: int, callback: Callable[[], object]
    ) -> None:
        self._timer = timer
        self.deadline_ms = deadline_ms
        self.callback = callback
        self.bucket: Bucket[TimerTask] | None = None

    def cancel(self) -> bool:
        """Keeps the callback from running; False if it already ran or was cancelled."""
        return self._timer._cancel(self)


class SystemTimer:
    """Runs callbacks after a delay in the clock's time, on a thread that starts with the first."""

    def __init__(self, clock: Clock, failures: Failures, name: str) -> None:
        self.name = name
        self._clock = clock
        self._failures = failures
        self._condition = leaf_condition("timer")
        self._wheel: TimingWheel[TimerTask] = TimingWheel(math.floor(clock.monotonic_ms()))
        self._wakes_at_ms: float = 0
        self._open = True
        self._thread: threading.Thread | None = None

    @property
    def pending(self) -> int:
        """The number of callbacks that wait."""
        return len(self._wheel)

    def add(self, delay_ms: float, callback: Callable[[], object]) -> TimerTask:
        """Runs `callback` once, `delay_ms` from now; after `shutdown` it never runs."""
        with self._condition:
            # Read the clock under the lock, so that the wheel cannot turn past this moment.
            now_ms = self._clock.monotonic_ms()
            # At least one tick from now: no callback runs before `add` has returned its task.
            deadline_ms = max(math.ceil(now_ms + delay_ms), math.floor(now_ms) + 1)
            task = TimerTask(self, deadline_ms, callback)
            if self._open:
                self._wheel.add(task, math.floor(now_ms))
                self._ensure_awake_by(deadline_ms)
        return task

    def shutdown(self) -> None:
        """Runs no more callbacks and waits for the one that is running."""
        with self._condition:
            self._open = False
            self._condition.notify()
            thread = self._thread
        if thread is not None:
            end_thread(thread, self._failures)

    def _ensure_awake_by(self, deadline_ms: int) -> None:
        if self._thread is None:
            self._thread = start_thread(self.name, self._run, self._failures)
        elif deadline_ms < self._wakes_at_ms:
            self._wakes_at_ms = deadline_ms
            self._condition.notify()

    def _cancel(self, task: TimerTask) -> bool:
        with self._condition:
            return self._wheel.cancel(task)

    def _run(self) -> None:
        while due := self._await_due():
            for task in due:
                try:
                    task.callback()
                except Exception as error:  # other callbacks must still run
                    self._failures.record(f"{self.name} running {task.callback!r}", error)

    def _await_due(self) -> list[TimerTask]:
        """Sleeps until tasks are due and removes them; empty when the timer is shut down."""
        with self._condition:
            while self._open:
                due = self._wheel.expire(math.floor(self._clock.monotonic_ms()))
                if due:
                    self._wakes_at_ms = 0
                    return due
                self._sleep(self._wheel.next_expiration_ms())
            return []

    def _sleep(self, until_ms: int | None) -> None:
        self._wakes_at_ms = math.inf if until_ms is None else until_ms
        self._clock.wait_until(self._condition, until_ms)
