"""Whose process this is: a forked child has the memory of its parent, and none of its threads.

So it owns nothing that it inherits. It ends, locks and removes nothing, and what needs a thread of
the parent raises instead of waiting for it.
"""

import os
from collections.abc import Callable

from embedkafka.runtime.failures import ClusterClosed


class Owner:
    """The process that made this."""

    __slots__ = ("pid",)

    def __init__(self) -> None:
        self.pid = os.getpid()

    @property
    def is_here(self) -> bool:
        return os.getpid() == self.pid

    def require_here(self) -> None:
        if not self.is_here:
            raise ClusterClosed(
                f"the cluster runs in process {self.pid}, from which this one was forked: connect "
                "your own clients to its bootstrap_servers, which can be read here too"
            )


def after_fork(run: Callable[[], None]) -> Callable[[], None]:
    """Decorates what is called in every forked child, before anything else runs there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=run)
    return run
