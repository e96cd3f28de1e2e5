"""What a started cluster holds: threads, ports, files. All of it is let go, however it ends.

`close()` is the good end. A program that ends without it is closed by `atexit`, and a cluster that
nothing refers to any more by the garbage collector. What a killed process leaves in the temporary
directory is removed by the next one (`runtime.temporary`). No signal is caught here: that is the
program's affair.

Owner: the process that made it; `_closing` lets one thread at a time close it. `_live` holds those
that are open, and is changed by single operations only.
Not here: how brokers end (`brokers`).
"""

import atexit
import logging
import warnings
from collections.abc import Callable

from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.switch_interval import shorten_interval
from embedkafka.runtime.failures import ClusterClosed, Failures
from embedkafka.runtime.forks import Owner
from embedkafka.runtime.locks import CLOSING_RANK, ranked_lock
from embedkafka.runtime.temporary import TemporaryDirectory
from embedkafka.runtime.threads import start_thread

_LOG = logging.getLogger(__name__)

NOT_RUNNING = (
    "the cluster is not running: use it inside `with EmbeddedKafka() as kafka:`, or between "
    "start() and close()"
)


class ClusterResources:
    """The possessions of one cluster, from its start to `close`."""

    def __init__(self, *, keep: bool, failures: Failures) -> None:
        """`keep` says that somebody else wants the data; else it is not worth putting in order."""
        self.owner = Owner()
        self.brokers: Brokers | None = None
        self._keep = keep
        self._failures = failures
        self._closing = ranked_lock("closing of a cluster", CLOSING_RANK)
        self._put_interval_back: Callable[[], None] = _nothing
        self.directory = TemporaryDirectory()
        _live.add(self)
        self._put_interval_back = shorten_interval()

    def require_brokers(self) -> Brokers:
        self.owner.require_here()
        if self.brokers is None:
            raise ClusterClosed(NOT_RUNNING)
        return self.brokers

    def close(self) -> None:
        """Stops every broker and removes what it left; a second call does nothing."""
        if not self.owner.is_here:
            return
        with self._closing:
            brokers, self.brokers = self.brokers, None
            try:
                if brokers is not None:
                    brokers.close(keep=self._keep)
            finally:
                self._put_interval_back()
                self.directory.remove()
                _live.discard(self)

    def abandon(self) -> None:
        """Closes from a thread that has nothing else to do.

        The garbage collector runs on any thread, and that may be one of the cluster's own.
        """
        if self in _live and self.owner.is_here:
            warnings.warn("an EmbeddedKafka was not closed", ResourceWarning, stacklevel=2)
            start_thread("ek-abandoned", self.close, self._failures)


_live: set[ClusterResources] = set()


def close_all() -> None:
    """Closes every cluster of this process, which is about to end."""
    for resources in list(_live):
        try:
            resources.close()
        except Exception:  # the others must not suffer for it
            _LOG.exception("A cluster could not be closed")


def _nothing() -> None:
    """Stands for an interval that was not shortened."""


atexit.register(close_all)
