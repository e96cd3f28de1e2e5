"""Tells the owning process from its forked children, which copy its memory but not its threads.

A child owns nothing it inherits: it stops, locks and removes nothing, and calls that need a thread
of the parent raise instead of waiting.
"""

import os
from collections.abc import Callable

from embedkafka.runtime.failures import ClusterClosed


class Owner:
    """The process that created this object."""

    __slots__ = ("pid",)

    def __init__(self) -> None:
        self.pid = os.getpid()

    @property
    def is_here(self) -> bool:
        return os.getpid() == self.pid

    def require_here(self) -> None:
        if not self.is_here:
            raise ClusterClosed(
                f"the cluster runs in process {self.pid}, the parent of this forked process: "
                "connect your own clients to its bootstrap_servers"
            )


def after_fork(run: Callable[[], None]) -> Callable[[], None]:
    """Decorates a function that runs in every forked child before anything else does."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=run)
    return run
