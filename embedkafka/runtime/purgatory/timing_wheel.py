"""A hierarchical timing wheel: many timers, cheap to set and even cheaper to cancel.

Level 0 has `size` buckets of one tick each; a bucket of level n+1 spans a whole turn of level n.
Levels are created when a delay first needs them. Buckets with tasks queue in a heap, so finding the
next deadline never scans empty slots.

Owner: the caller; `SystemTimer` calls under its lock. The wheel has no thread and no clock.
Invariants: a task leaves exactly once, by `cancel` or by `expire`; it never leaves before its
deadline; a bucket is in the heap exactly while its `start_ms` is set.
Not here: running callbacks, and sleeping (`timer.py`).
"""

import heapq
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

TICK_MS = 1
WHEEL_SIZE = 20

_deadline = attrgetter("deadline_ms")


class WheelTask(Protocol):
    """A task in a wheel. The wheel sets `bucket`; it is None while the task does not wait."""

    deadline_ms: int
    bucket: "Bucket[Any] | None"  # Any: a protocol cannot name the class that fulfils it


T = TypeVar("T", bound=WheelTask)


class TimingWheel(Generic[T]):
    """Tasks by deadline, in whole milliseconds of one monotonic clock."""

    def __init__(self, now_ms: int, *, tick_ms: int = TICK_MS, size: int = WHEEL_SIZE) -> None:
        self._levels: list[_Level[T]] = [_Level(now_ms, tick_ms, size)]
        self._size = size
        self._queue: list[Bucket[T]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, task: T, now_ms: int) -> bool:
        """Places `task`; False when its deadline is no longer in the future."""
        if task.deadline_ms <= now_ms:
            return False
        if not self._queue:
            # No task waits, so the levels can skip the idle time instead of cascading through it.
            self._turn_to(now_ms)
        self._place(task)
        self._count += 1
        return True

    def cancel(self, task: T) -> bool:
        """Removes `task`; False if it is not waiting."""
        bucket = task.bucket
        if bucket is None:
            return False
        del bucket.tasks[task]
        task.bucket = None
        self._count -= 1
        return True

    def next_expiration_ms(self) -> int | None:
        """When `expire` next has work: the start of the first bucket with tasks."""
        queue = self._queue
        while queue:
            first = queue[0]
            if first.tasks:
                return first.start_ms
            heapq.heappop(queue).start_ms = None
        return None

    def expire(self, now_ms: int) -> list[T]:
        """Removes and returns the tasks due at `now_ms`, earliest deadline first."""
        due: list[T] = []
        queue = self._queue
        while queue and (start_ms := queue[0].start_ms) is not None and start_ms <= now_ms:
            bucket = heapq.heappop(queue)
            bucket.start_ms = None
            self._turn_to(start_ms)
            self._empty(bucket, now_ms, due)
        self._count -= len(due)
        due.sort(key=_deadline)
        return due

    def _empty(self, bucket: "Bucket[T]", now_ms: int, due: list[T]) -> None:
        tasks, bucket.tasks = bucket.tasks, {}
        for task in tasks:
            if task.deadline_ms <= now_ms:
                task.bucket = None
                due.append(task)
            else:
                self._place(task)

    def _place(self, task: T) -> None:
        deadline_ms = task.deadline_ms
        for level in self._levels:
            if deadline_ms < level.end_ms:
                break
        else:
            level = self._add_levels(deadline_ms)
        number = deadline_ms // level.tick_ms
        bucket = level.buckets[number % self._size]
        if bucket.start_ms is None:
            bucket.start_ms = number * level.tick_ms
            heapq.heappush(self._queue, bucket)
        bucket.tasks[task] = None
        task.bucket = bucket

    def _add_levels(self, deadline_ms: int) -> "_Level[T]":
        bottom = self._levels[0]
        while True:
            tick_ms = self._levels[-1].tick_ms * self._size
            level: _Level[T] = _Level(bottom.start_ms, tick_ms, self._size)
            self._levels.append(level)
            if deadline_ms < level.end_ms:
                return level

    def _turn_to(self, now_ms: int) -> None:
        for level in self._levels:
            if now_ms < level.start_ms + level.tick_ms:
                return
            level.turn_to(now_ms)


class Bucket(Generic[T]):
    """The tasks of one slot of one level, in insertion order."""

    __slots__ = ("start_ms", "tasks")

    def __init__(self) -> None:
        self.start_ms: int | None = None
        self.tasks: dict[T, None] = {}

    def __lt__(self, other: "Bucket[T]") -> bool:
        # The heap compares only queued buckets, which have a start.
        return self.start_ms < other.start_ms  # type: ignore[operator]


class _Level(Generic[T]):
    """One wheel: `size` buckets of `tick_ms` each, covering `start_ms` to `end_ms`."""

    __slots__ = ("buckets", "end_ms", "start_ms", "tick_ms")

    def __init__(self, now_ms: int, tick_ms: int, size: int) -> None:
        self.tick_ms = tick_ms
        self.buckets: list[Bucket[T]] = [Bucket() for _ in range(size)]
        self.turn_to(now_ms)

    def turn_to(self, now_ms: int) -> None:
        self.start_ms = now_ms - now_ms % self.tick_ms
        self.end_ms = self.start_ms + self.tick_ms * len(self.buckets)
