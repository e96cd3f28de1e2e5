"""Where delayed operations wait: watch lists by key, and a timer for the timeouts.

Owner: `_lock` (leaf) guards the watch lists; operations are never called while it is held.
Invariants: an operation is tried again once it is in every list, so no change is missed between
the first try and watching. Each operation expires at most once. A failing operation is recorded; it
affects neither the thread that woke it nor the other operations under its key.
Not here: the timer's thread, and the decision whether an operation can complete.
"""

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

from embedkafka.runtime.failures import Failures
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.purgatory.operation import DelayedOperation
from embedkafka.runtime.scheduler import Timer

PURGE_INTERVAL = 1000

Op = TypeVar("Op", bound=DelayedOperation)


class Purgatory(Generic[Op]):
    """Watches operations of one kind. A timed-out operation completes on the timer's thread."""

    def __init__(
        self,
        name: str,
        timer: Timer,
        failures: Failures,
        *,
        purge_interval: int = PURGE_INTERVAL,
    ) -> None:
        self.name = name
        self._timer = timer
        self._failures = failures
        self._purge_interval = purge_interval
        self._lock = ranked_lock(f"purgatory {name}", LEAF_RANK)
        self._watchers: dict[Hashable, dict[Op, None]] = {}
        self._watched_since_purge = 0
        self._open = True

    @property
    def watched(self) -> int:
        """Entries in the watch lists: one per operation and key, until purged."""
        with self._lock:
            return sum(map(len, self._watchers.values()))

    @property
    def delayed(self) -> int:
        """Operations that are still waiting."""
        return len(self.waiting())

    def waiting(self) -> list[Op]:
        """The operations that have not completed."""
        return [operation for operation in self._operations() if not operation.is_completed]

    def try_complete_else_watch(self, operation: Op, keys: Collection[Hashable]) -> bool:
        """True if this call completed `operation`; otherwise it waits under each of `keys`."""
        assert keys, "an operation without keys could only time out"
        if operation.maybe_try_complete():
            return True
        if not self._watch(operation, keys):
            return operation.force_complete()
        if operation.maybe_try_complete():
            return True
        if not operation.is_completed:
            operation.expire_with(self._timer.add(operation.delay_ms, operation.expire))
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Tries every operation under `key` after a change; returns how many completed."""
        if (
            key not in self._watchers
        ):  # the usual case; safe without the lock, see `try_complete_else_watch`
            return 0
        with self._lock:
            operations = list(self._watchers.get(key, ()))
        completed = 0
        for operation in operations:
            try:
                completed += operation.maybe_try_complete()
            except Exception as error:  # the caller serves another client, so only record it
                self._record(operation, error)
        self._forget_completed(key, operations)
        return completed

    def shutdown(self, *, complete: bool = True) -> None:
        """Completes every waiting operation, or drops it.

        Operations that arrive later complete at once.
        """
        with self._lock:
            self._open = False
            operations = self._operations()
            self._watchers.clear()
        for operation in operations:
            if not complete:
                operation.cancel_timeout()
                continue
            try:
                operation.force_complete()
            except Exception as error:  # the other operations must be answered too
                self._record(operation, error)

    def _record(self, operation: Op, error: Exception) -> None:
        self._failures.record(f"{type(operation).__name__} in purgatory {self.name}", error)

    def _watch(self, operation: Op, keys: Collection[Hashable]) -> bool:
        with self._lock:
            if not self._open:
                return False
            for key in keys:
                self._watchers.setdefault(key, {})[operation] = None
            self._watched_since_purge += 1
            if self._watched_since_purge >= self._purge_interval:
                self._purge()
        return True

    def _purge(self) -> None:
        """Drops operations that timed out or completed under another key."""
        self._watched_since_purge = 0
        for key in list(self._watchers):
            self._keep_waiting(key, [op for op in self._watchers[key] if op.is_completed])

    def _forget_completed(self, key: Hashable, operations: list[Op]) -> None:
        completed = [operation for operation in operations if operation.is_completed]
        if completed:
            with self._lock:
                self._keep_waiting(key, completed)

    def _keep_waiting(self, key: Hashable, completed: list[Op]) -> None:
        watchers = self._watchers.get(key)
        if watchers is None:
            return
        for operation in completed:
            watchers.pop(operation, None)
        if not watchers:
            del self._watchers[key]

    def _operations(self) -> list[Op]:
        """Each operation once, in watch order per key."""
        with self._lock:
            return list({op: None for ops in self._watchers.values() for op in ops})
