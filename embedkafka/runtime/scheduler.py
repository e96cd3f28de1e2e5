"""Running functions later: the two interfaces every package uses, and the scheduler's thread.

A `Scheduler` runs named background work that may block. A `Timer` runs many short callbacks, most
of which are cancelled before they are due; `purgatory.timer` implements it.

Owner: `_condition` guards the heap of tasks; the functions run on the scheduler's thread.
Invariants: a cancelled task does not start; a failing task is recorded and runs again when due.
"""

import heapq
import itertools
import threading
from collections.abc import Callable
from typing import Protocol

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.threads import end_thread, start_thread


class Cancellable(Protocol):
    """Work that is due later."""

    def cancel(self) -> object:
        """Keeps the work from starting, or from starting again."""
        ...


class TimedCall(Cancellable, Protocol):
    """A callback of a `Timer`."""

    @property
    def deadline_ms(self) -> float:
        """When it is due, on the clock's monotonic time."""
        ...


class Scheduler(Protocol):
    """Background work: once after a delay, or periodically. The work may block."""

    def once(self, name: str, delay_ms: float, run: Callable[[], object]) -> Cancellable:
        """Runs `run` once, `delay_ms` from now."""
        ...

    def every(
        self, name: str, period_ms: float, run: Callable[[], object], delay_ms: float | None = None
    ) -> Cancellable:
        """Runs `run` every `period_ms`, first after `delay_ms` (default: one period)."""
        ...


class Timer(Protocol):
    """Callbacks that must not block: each delays the others."""

    def add(self, delay_ms: float, callback: Callable[[], object]) -> TimedCall:
        """Runs `callback` once, `delay_ms` from now, on the timer's thread."""
        ...


class ThreadScheduler:
    """A `Scheduler` with a thread, which starts with the first task."""

    def __init__(self, name: str, clock: Clock, failures: Failures) -> None:
        self.name = name
        self._clock = clock
        self._failures = failures
        self._condition = threading.Condition(threading.Lock())
        self._heap: list[tuple[float, int, _Task]] = []
        self._order = itertools.count()
        self._open = True
        self._thread: threading.Thread | None = None

    def once(self, name: str, delay_ms: float, run: Callable[[], object]) -> Cancellable:
        return self._add(_Task(name, run, None), delay_ms)

    def every(
        self, name: str, period_ms: float, run: Callable[[], object], delay_ms: float | None = None
    ) -> Cancellable:
        return self._add(_Task(name, run, period_ms), period_ms if delay_ms is None else delay_ms)

    def shutdown(self) -> None:
        """Starts no more tasks and waits for the one that is running."""
        with self._condition:
            self._open = False
            self._heap.clear()
            self._condition.notify_all()
            thread = self._thread
        if thread is not None:
            end_thread(thread, self._failures)

    def _add(self, task: "_Task", delay_ms: float) -> "_Task":
        with self._condition:
            if self._open:
                self._push(task, delay_ms)
                if self._thread is None:
                    self._thread = start_thread(self.name, self._run, self._failures)
                self._condition.notify_all()
        return task

    def _push(self, task: "_Task", delay_ms: float) -> None:
        due = self._clock.monotonic_ms() + delay_ms
        heapq.heappush(self._heap, (due, next(self._order), task))

    def _run(self) -> None:
        while (task := self._next_due()) is not None:
            try:
                task.run()
            except Exception as error:  # the next period must still come; the failure is recorded
                self._failures.record(f"{self.name} running {task.name}", error)

    def _next_due(self) -> "_Task | None":
        with self._condition:
            while self._open:
                if not self._heap:
                    self._condition.wait()
                    continue
                due, _, task = self._heap[0]
                if task.cancelled:
                    heapq.heappop(self._heap)
                elif due > self._clock.monotonic_ms():
                    self._clock.wait_until(self._condition, due)
                else:
                    heapq.heappop(self._heap)
                    if task.period_ms is not None:
                        self._push(task, task.period_ms)
                    return task
            return None


class _Task:
    __slots__ = ("cancelled", "name", "period_ms", "run")

    def __init__(self, name: str, run: Callable[[], object], period_ms: float | None) -> None:
        self.name = name
        self.run = run
        self.period_ms = period_ms
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
