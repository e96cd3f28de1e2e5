"""Stand-ins for `runtime.scheduler.ThreadScheduler` and the purgatory's timer: no threads."""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from embedkafka.runtime.clock import ManualClock


class ManualScheduler:
    """Scheduler and timer in one, on a `ManualClock`.

    It has no thread: `run_due` runs due tasks on the caller's thread.
    """

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._order = itertools.count()
        self._heap: list[tuple[float, int, ManualTask]] = []

    def once(self, name: str, delay_ms: float, run: Callable[[], object]) -> "ManualTask":
        return self._push(ManualTask(run, None), delay_ms)

    def every(
        self, name: str, period_ms: float, run: Callable[[], object], delay_ms: float | None = None
    ) -> "ManualTask":
        return self._push(ManualTask(run, period_ms), period_ms if delay_ms is None else delay_ms)

    def add(self, delay_ms: float, callback: Callable[[], object]) -> "ManualTask":
        return self.once("timer", delay_ms, callback)

    def run_due(self) -> bool:
        """Runs every due task, including those they schedule. Returns whether there was one."""
        ran = False
        while self._heap and self._heap[0][0] <= self._clock.monotonic_ms():
            _, _, task = heapq.heappop(self._heap)
            if task.cancelled:
                continue
            ran = True
            if task.period_ms is not None:
                self._push(task, task.period_ms)
            task.run()
        return ran

    def _push(self, task: "ManualTask", delay_ms: float) -> "ManualTask":
        due_ms = self._clock.monotonic_ms() + delay_ms
        task.deadline_ms = due_ms
        heapq.heappush(self._heap, (due_ms, next(self._order), task))
        return task


class ManualTask:
    """A task of a `ManualScheduler`."""

    def __init__(self, run: Callable[[], object], period_ms: float | None) -> None:
        self.run = run
        self.period_ms = period_ms
        self.deadline_ms = 0.0
        self.cancelled = False

    def cancel(self) -> bool:
        self.cancelled = True
        return True


@dataclass
class DueTask:
    """A task of a `TaskList`, with its name and delay."""

    name: str
    delay_ms: float
    run: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class TaskList:
    """A scheduler without time: it collects tasks, which a test inspects or runs.

    `run_pending` runs each task once, however long its delay. Periodic tasks never run by
    themselves.
    """

    pending: list[DueTask] = field(default_factory=list)
    periodic: list[DueTask] = field(default_factory=list)

    def once(self, name: str, delay_ms: float, run: Callable[[], object]) -> DueTask:
        self.pending.append(DueTask(name, delay_ms, run))
        return self.pending[-1]

    def every(
        self, name: str, period_ms: float, run: Callable[[], object], delay_ms: float | None = None
    ) -> DueTask:
        self.periodic.append(DueTask(name, period_ms, run))
        return self.periodic[-1]

    def run_pending(self) -> None:
        pending, self.pending = self.pending, []
        for task in pending:
            if not task.cancelled:
                task.run()
