"""Waiting for facts about the cluster, with reasons when they do not come.

Owner: `_changed` (leaf) guards the count of changes; probes run without it.
Invariants: nothing is polled: a fact is looked at once, and again after each change. A change that
comes while it is looked at is not missed.
Not here: what the facts are (`facts`).
"""

from collections.abc import Callable

from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import AwaitTimeout, ClusterClosed
from embedkafka.runtime.locks import leaf_condition

Probe = Callable[[], str | None]
"""Looks for a fact: None when it is there, else what is there instead."""

PATIENCE_S = 30.0


class Waiting:
    """Lets any number of threads wait for anything that shows in the cluster's metadata.

    `describe` is asked when somebody has waited in vain.
    """

    def __init__(self, describe: Callable[[], str]) -> None:
        self._describe = describe
        self._changed = leaf_condition("cluster changes")
        self._changes = 0
        self._closed = False

    def close(self) -> None:
        """Nothing that is waited for will come: `ClusterClosed` for everyone who waits."""
        self._closed = True
        self.on_change()

    def on_change(self) -> None:
        """Something may have become true; from any thread, with no lock held."""
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    def await_fact(self, what: str, probe: Probe, timeout_s: float = PATIENCE_S) -> None:
        """Returns when `probe` finds its fact, or raises `AwaitTimeout` with what it found last."""
        deadline_ms = REAL_TIME.monotonic_ms() + timeout_s * 1000
        while True:
            seen_changes = self._changes
            if self._closed:
                raise ClusterClosed(f"the cluster was closed while {what} was awaited")
            last_seen = probe()
            if last_seen is None:
                return
            if not self._await_change(seen_changes, deadline_ms):
                raise AwaitTimeout(
                    f"waited {timeout_s:g} s for {what}; last seen: {last_seen}\n{self._describe()}"
                )

    def _await_change(self, seen_changes: int, deadline_ms: float) -> bool:
        with self._changed:
            while self._changes == seen_changes:
                if not REAL_TIME.wait_until(self._changed, deadline_ms):
                    return self._changes != seen_changes
            return True
