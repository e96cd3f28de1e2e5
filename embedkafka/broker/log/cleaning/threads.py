"""The threads of compaction: `log.cleaner.threads` of them share one rate limit.

Every `log.cleaner.backoff.ms` a check wakes one more thread if there is work for it. Each compacts
one log after the other until none is dirty enough. Compaction has separate threads because a large
log takes long, and the broker's other background work must not wait.

Owner: `_lock` (leaf) guards the rate; a worker's pass belongs to its thread.
Not here: choosing and compacting a log (`cleaner`).
"""

from collections.abc import Callable

from embedkafka.broker.log.cleaning.cleaner import Cleaner, CleanerConfig, Steps
from embedkafka.broker.log.cleaning.throttle import Throttle
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.scheduler import Scheduler


class CleanerThreads:
    """Runs `cleaner` on threads, which `new_tasks` makes when they are first needed."""

    def __init__(
        self,
        cleaner: Cleaner,
        config: CleanerConfig,
        *,
        clock: Clock,
        new_tasks: Callable[[int], Scheduler],
    ) -> None:
        self._cleaner = cleaner
        self._config = config
        self._clock = clock
        self._new_tasks = new_tasks
        self._lock = ranked_lock("cleaner throttle", LEAF_RANK)
        self._throttle = Throttle(
            config.log_cleaner_io_max_bytes_per_second, now_ms=clock.monotonic_ms()
        )
        self._workers: list[_Worker] = []
        self.is_stopped = False

    def wake(self) -> None:
        """Starts an idle worker if there is work for it."""
        if self._cleaner.find_filthiest() is None:
            return
        for number in range(self._config.log_cleaner_threads):
            if number == len(self._workers):
                self._workers.append(_Worker(self, self._cleaner, self._new_tasks(number)))
            if self._workers[number].is_idle:
                self._workers[number].begin()
                return

    def reconfigure(self, config: CleanerConfig) -> None:
        """Applies other settings: the rate at once, the rest at the next check."""
        self._config = config
        with self._lock:
            self._throttle.set_rate(config.log_cleaner_io_max_bytes_per_second)

    def stop(self) -> None:
        """Makes the workers end at their next step."""
        self.is_stopped = True

    def close(self) -> None:
        """Removes the unfinished files of passes, whose threads have ended or are this one."""
        self.stop()
        for worker in self._workers:
            worker.close()

    def pause_after(self, count: int) -> float:
        """The milliseconds to wait after `count` bytes were read or written."""
        with self._lock:
            return self._throttle.observe(count, self._clock.monotonic_ms())


class _Worker:
    """One thread and its current pass."""

    def __init__(self, crew: CleanerThreads, cleaner: Cleaner, tasks: Scheduler) -> None:
        self._crew = crew
        self._cleaner = cleaner
        self._tasks = tasks
        self._pass: Steps[None] | None = None

    @property
    def is_idle(self) -> bool:
        return self._pass is None

    def begin(self) -> None:
        self._pass = self._cleaner.clean()
        self._go_on_in(0)

    def close(self) -> None:
        if self._pass is not None:
            self._pass.close()
            self._pass = None

    def _go_on_in(self, delay_ms: float) -> None:
        self._tasks.once("clean-logs", delay_ms, self._go_on)

    def _go_on(self) -> None:
        """Takes steps until they are done, a pause is due, or the broker stops."""
        try:
            for count in self._pass or ():
                if self._crew.is_stopped:
                    return
                pause_ms = self._crew.pause_after(count)
                if pause_ms:
                    self._go_on_in(pause_ms)
                    return
        except Exception:
            # The failed log is not tried again; continue with the others.
            self.begin()
            raise
        self._pass = None
