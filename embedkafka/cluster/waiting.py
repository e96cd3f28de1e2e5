"""Waits until the cluster is in some state; a timeout says what was missing.

Owner: `_changed` (leaf) guards the count of changes; probes run without it.
Invariants: nothing polls. A probe runs once, and again after each change; a change during a probe
is not missed.
Not here: the probes (`cluster_state`).
"""

from collections.abc import Callable

from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import AwaitTimeout, ClusterClosed
from embedkafka.runtime.locks import leaf_condition
from embedkafka.runtime.patience import patient

Probe = Callable[[], str | None]
"""Returns None if the cluster is in the wanted state, or else what it found instead."""

PATIENCE_S = 30.0


class Waiting:
    """Lets any number of threads wait for a state; `describe` adds to the message of a timeout."""

    def __init__(self, describe: Callable[[], str]) -> None:
        self._describe = describe
        self._changed = leaf_condition("cluster changes")
        self._changes = 0
        self._closed = False

    def close(self) -> None:
        """Raises `ClusterClosed` in every thread that waits, now or later."""
        self._closed = True
        self.on_change()

    def on_change(self) -> None:
        """Makes waiting threads probe again. Any thread may call this, holding no lock."""
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    def await_state(self, what: str, probe: Probe, timeout_s: float = PATIENCE_S) -> None:
        """Returns once `probe` succeeds; raises `AwaitTimeout` with what it found last."""
        timeout_s = patient(timeout_s)
        deadline_ms = REAL_TIME.monotonic_ms() + timeout_s * 1000
        while True:
            seen_changes = self._changes
            if self._closed:
                raise ClusterClosed(f"the cluster was closed during a wait for {what}")
            last_seen = probe()
            if last_seen is None:
                return
            if not self.await_change(seen_changes, deadline_ms):
                raise AwaitTimeout(
                    f"waited {timeout_s:g} s for {what}; last seen: {last_seen}\n{self._describe()}"
                )

    @property
    def changes(self) -> int:
        """How many changes there have been."""
        return self._changes

    def await_change(self, seen_changes: int, deadline_ms: float) -> bool:
        """Returns whether there were more changes, at the latest at the deadline, in real time."""
        with self._changed:
            while self._changes == seen_changes:
                if not REAL_TIME.wait_until(self._changed, deadline_ms):
                    return self._changes != seen_changes
            return True
