"""Locks with ranks. A thread takes them in rising rank, so that no two threads deadlock.

Owner: each thread owns the list of ranks it holds.
Invariants: a thread that holds rank r takes only ranks above r (the same lock may be re-entered).
Not here: leaf locks inside `runtime`; nothing is called while those are held.

The check costs about a microsecond. Only locks made after `check_lock_ranks(True)` have it; the
tests of this project turn it on.
"""

import threading
from types import TracebackType
from typing import Any, Protocol

COORDINATOR_RANK = 8
OPERATION_RANK = 10
PARTITION_RANK = 20
LOG_RANK = 30
ACL_RANK = 35
SESSION_RANK = 40
LEAF_RANK = 50
CLOCK_RANK = 60
"""Clocks wait on any condition, so their locks rank above all others."""

_checking = False
_held = threading.local()


class Lock(Protocol):
    """A re-entrant lock, used in a `with`."""

    def __enter__(self) -> bool: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


def check_lock_ranks(enabled: bool) -> None:
    """Turns the order check on or off for locks made from now on."""
    global _checking
    _checking = enabled


def ranked_lock(name: str, rank: int) -> Lock:
    """A re-entrant lock; with checking on, one that asserts the rank order."""
    if _checking:
        return RankedLock(name, rank)
    return threading.RLock()


def outermost_lock() -> Lock:
    """A re-entrant lock for the threads of the user, who hold no other of ours.

    It has no rank: Ctrl-C raises in those threads, and inside a lock that is written in Python it
    would leave the lock taken, or listed as taken.
    """
    return threading.RLock()


def leaf_condition(name: str) -> threading.Condition:
    """A condition on a leaf lock; with checking on, one that asserts the rank order."""
    if _checking:
        lock: Any = RankedLock(name, LEAF_RANK)  # Any: typeshed allows two classes of locks only
        return threading.Condition(lock)
    return threading.Condition(threading.Lock())


class RankedLock:
    """A re-entrant lock that asserts that ranks rise within a thread."""

    def __init__(self, name: str, rank: int) -> None:
        self.name = name
        self.rank = rank
        self._lock = threading.RLock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        held = self._held_here()
        if self not in held:
            for other in held:
                assert other.rank < self.rank, (
                    f"{threading.current_thread().name} takes {self} while it holds {other}: "
                    "locks are taken in rising rank"
                )
        taken = self._lock.acquire(blocking, timeout)
        if taken:
            held.append(self)
        return taken

    def release(self) -> None:
        held = self._held_here()
        for position in range(len(held) - 1, -1, -1):
            if held[position] is self:
                del held[position]
                break
        self._lock.release()

    def locked(self) -> bool:
        """For `threading.Condition`, which takes this method from its lock since Python 3.14."""
        if self._is_owned():
            return True
        free = self._lock.acquire(blocking=False)
        if free:
            self._lock.release()
        return not free

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def _is_owned(self) -> bool:
        """For `threading.Condition`, which would otherwise try to acquire the lock to find out."""
        return self in self._held_here()

    def __str__(self) -> str:
        return f"{self.name} (rank {self.rank})"

    @staticmethod
    def _held_here() -> "list[RankedLock]":
        locks: list[RankedLock] | None = getattr(_held, "locks", None)
        if locks is None:
            locks = _held.locks = []
        return locks
