"""Work that is due later or again and again, on one background thread per broker.

Owner: `_condition` guards the heap of tasks; the functions run on the scheduler's thread.
Invariants: a cancelled task does not start; a failing task is recorded and runs again when due.
Not here: request timeouts, which are many and short-lived (`purgatory`).
"""

import heapq
import itertools
import threading
from collections.abc import Callable

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.threads import end_thread, start_thread


class Task:
    """A scheduled function; `cancel` keeps it from starting again."""

    __slots__ = ("cancelled", "name", "period_ms", "run")

    def __init__(self, name: str, run: Callable[[], None], period_ms: float | None) -> None:
        self.name = name
        self.run = run
        self.period_ms = period_ms
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Scheduler:
    """Runs functions once after a delay, or every so often, in the clock's time."""

    def __init__(self, name: str, clock: Clock, failures: Failures) -> None:
        self.name = name
        self._clock = clock
        self._failures = failures
        self._condition = threading.Condition(threading.Lock())
        self._heap: list[tuple[float, int, Task]] = []
        self._order = itertools.count()
        self._open = True
        self._thread: threading.Thread | None = None

    def once(self, name: str, delay_ms: float, run: Callable[[], None]) -> Task:
        """Runs `run` once, `delay_ms` from now."""
        return self._add(Task(name, run, None), delay_ms)

    def every(
        self, name: str, period_ms: float, run: Callable[[], None], delay_ms: float | None = None
    ) -> Task:
        """Runs `run` each `period_ms`, first after `delay_ms` (one period when not given)."""
        return self._add(Task(name, run, period_ms), period_ms if delay_ms is None else delay_ms)

    def shutdown(self) -> None:
        """Starts nothing more; waits for the function that is running."""
        with self._condition:
            self._open = False
            self._heap.clear()
            self._condition.notify_all()
            thread = self._thread
        if thread is not None:
            end_thread(thread, self._failures)

    def _add(self, task: Task, delay_ms: float) -> Task:
        with self._condition:
            if self._open:
                self._push(task, delay_ms)
                if self._thread is None:
                    self._thread = start_thread(self.name, self._run, self._failures)
                self._condition.notify_all()
        return task

    def _push(self, task: Task, delay_ms: float) -> None:
        due = self._clock.monotonic_ms() + delay_ms
        heapq.heappush(self._heap, (due, next(self._order), task))

    def _run(self) -> None:
        while (task := self._next_due()) is not None:
            try:
                task.run()
            except Exception as error:  # the next period must still come; the failure is recorded
                self._failures.record(f"{self.name} running {task.name}", error)

    def _next_due(self) -> Task | None:
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
