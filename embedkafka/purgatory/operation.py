"""A request that waits for something to become true, or for its time to run out.

Owner: `_lock` (rank 10) makes deciding exclusive; `_claim` is a one-shot flag, taken by whoever
completes the operation and never given back.
Invariants: `on_complete` runs exactly once, never beside `try_complete`, and with no lock of the
operation held, so it may reply, take any lock and complete other operations; a change that happens
while another thread decides is never lost (`maybe_try_complete`).
Not here: who wakes it (`purgatory.py`), and when it expires (`timer.py`).
"""

import threading
from abc import ABC, abstractmethod

from embedkafka.runtime.locks import OPERATION_RANK, ranked_lock
from embedkafka.runtime.scheduler import Cancellable


class DelayedOperation(ABC):
    """Completes once: when `try_complete` says so, when forced, or `delay_ms` after it was watched.

    Subclasses decide in `try_complete` and answer in `on_complete`.
    """

    def __init__(self, delay_ms: float) -> None:
        self.delay_ms = delay_ms
        self._lock = ranked_lock(type(self).__name__, OPERATION_RANK)
        self._claim = threading.Lock()
        self._decider: int | None = None
        self._completion_due = False
        self._try_again = False
        self._timer_task: Cancellable | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """Whether what it waits for is true. Runs under the operation's lock and does not block.

        It may call `force_complete` itself, as Kafka's operations do; returning True does the same.
        """

    @abstractmethod
    def on_complete(self) -> None:
        """Answers, from the state there is now. Runs once."""

    def on_expiration(self) -> None:  # noqa: B027  (optional: most operations only count)
        """Follows `on_complete` when time ran out."""

    @property
    def is_completed(self) -> bool:
        return self._claim.locked()

    def force_complete(self) -> bool:
        """Completes now; True for the one caller that did it."""
        if not self._claim.acquire(blocking=False):
            return False
        self.cancel_timeout()
        if self._decider == threading.get_ident():
            self._completion_due = True  # the lock is held here: `_decide` answers after it
            return True
        with self._lock:
            pass  # another thread may be deciding: it ends first, and no other begins
        self.on_complete()
        return True

    def expire(self) -> None:
        """Completes because time ran out. The purgatory's owner says on which thread."""
        if self.force_complete():
            self.on_expiration()

    def maybe_try_complete(self) -> bool:
        """Completes if it can; True for the one caller that did it.

        Never waits for another thread that is deciding: it leaves a note, and that thread looks
        again. The note is left before giving up and read after the lock is free, so either this
        thread gets the lock on its second attempt or the other one sees the note.
        """
        if self._decider == threading.get_ident():
            self._try_again = True  # called from within `try_complete`: look again afterwards
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
        """Lets the operation wait without a limit."""
        if self._timer_task is not None:
            self._timer_task.cancel()

    def expire_with(self, task: Cancellable) -> None:
        """Ties the operation to the timer task that expires it."""
        self._timer_task = task
        if self.is_completed:  # completed before the task was known, so nobody has cancelled it
            task.cancel()

    def _decide(self) -> bool:
        """Asks `try_complete`, releases the lock, then answers if this call completed it."""
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
