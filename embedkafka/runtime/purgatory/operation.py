"""A request that waits for a condition or for its timeout.

Owner: `_lock` (rank 10) lets one thread decide at a time; `_claim` is a one-shot flag that the
completing thread takes and never releases.
Invariants: `on_complete` runs exactly once, never concurrently with `try_complete`, and without the
operation's lock, so it may reply, take any lock and complete other operations. A change that
happens while another thread decides is never lost (`maybe_try_complete`).
Not here: waking it (`purgatory.py`) and expiring it (`timer.py`).
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator

from embedkafka.runtime.locks import OPERATION_RANK, ranked_lock
from embedkafka.runtime.scheduler import TimedCall
from embedkafka.runtime.values import NamedTuple


class Awaited(NamedTuple):
    """What an operation still waits for under one key, at one moment."""

    topic: str
    partition: int | None
    """None if the whole topic is meant."""
    what: str
    """In words, such as "broker 3, which is at 10 of 12"."""
    brokers: tuple[int, ...] = ()
    """The replicas that it waits for."""


class DelayedOperation(ABC):
    """Completes once: when `try_complete` allows it, when forced, or after `delay_ms` of waiting.

    Subclasses decide in `try_complete` and answer in `on_complete`.
    """

    def __init__(self, delay_ms: float) -> None:
        self.delay_ms = delay_ms
        self._lock = ranked_lock(type(self).__name__, OPERATION_RANK)
        self._claim = threading.Lock()
        self._decider: int | None = None
        self._completion_due = False
        self._try_again = False
        self._timer_task: TimedCall | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """Whether the condition holds. Runs under the operation's lock and must not block.

        It may call `force_complete` itself, as Kafka's operations do; returning True does the same.
        """

    @abstractmethod
    def on_complete(self) -> None:
        """Answers from the current state. Runs once."""

    def on_expiration(self) -> None:  # noqa: B027  (optional: most operations only count)
        """Runs after `on_complete` when the operation timed out."""

    def awaited(self) -> Iterator[Awaited]:
        """What it waits for now, for reports; callable from any thread, without locks."""
        return iter(())

    def find_answer(self) -> object:
        """The callback that gets the result, for reports, which look for its request."""
        return None

    @property
    def deadline_ms(self) -> float | None:
        """When it expires, on the clock's monotonic time; None if it does not."""
        return None if self._timer_task is None else self._timer_task.deadline_ms

    @property
    def is_completed(self) -> bool:
        return self._claim.locked()

    def force_complete(self) -> bool:
        """Completes now; True only for the caller that completed it."""
        if not self._claim.acquire(blocking=False):
            return False
        self.cancel_timeout()
        if self._decider == threading.get_ident():
            self._completion_due = (
                True  # this thread holds the lock: `_decide` answers after releasing it
            )
            return True
        with self._lock:
            pass  # wait for a thread that is deciding; after that, no thread decides again
        self.on_complete()
        return True

    def expire(self) -> None:
        """Completes because of the timeout, on the timer's thread."""
        if self.force_complete():
            self.on_expiration()

    def maybe_try_complete(self) -> bool:
        """Completes if possible; True only for the caller that completed it.

        Never waits for another thread that is deciding: it sets a flag, and that thread tries
        again. The flag is set before giving up and read after the lock is released, so either this
        thread gets the lock on its second attempt or the other one sees the flag.
        """
        if self._decider == threading.get_ident():
            self._try_again = True  # called from within `try_complete`: try again afterwards
            return False
        while not self.is_completed:
            if self._lock.acquire(blocking=False):
                if self._decide():
                    return True
                if not self._try_again:
                    return False
            elif self._try_again:
                return False
            else:
                self._try_again = True
        return False

    def cancel_timeout(self) -> None:
        """Lets the operation wait without a timeout."""
        if self._timer_task is not None:
            self._timer_task.cancel()

    def expire_with(self, task: TimedCall) -> None:
        """Links the operation to the timer task that expires it."""
        self._timer_task = task
        if self.is_completed:  # completed before the task was known, so it is still scheduled
            task.cancel()

    def _decide(self) -> bool:
        """Calls `try_complete`, releases the lock, then answers if this call completed it."""
        self._try_again = False
        self._decider = threading.get_ident()
        try:
            if not self.is_completed and self.try_complete():
                self.force_complete()
        finally:
            self._decider = None
            completed, self._completion_due = self._completion_due, False
            self._lock.release()
        if completed:
            self.on_complete()
        return completed
