"""The threads, ports and files of a started cluster. All are released, however the program ends.

Normally `close()` releases them. If a program ends without it, `atexit` does; if nothing refers to
a cluster any more, the garbage collector does. The next process removes the temporary files that a
killed one left (`runtime.temporary`). This module catches no signals: that is up to the program.

Owner: the process that made them; `_closing` lets one thread at a time close them. `_live` holds
those that are open; only single, atomic operations change it.
Not here: how brokers end (`brokers`).
"""

import atexit
import logging
import warnings
from collections.abc import Callable

from embedkafka.cluster.brokers import Brokers
from embedkafka.runtime.failures import ClusterClosed, Failures
from embedkafka.runtime.forks import Owner
from embedkafka.runtime.locks import outermost_lock
from embedkafka.runtime.switch_interval import shorten_interval
from embedkafka.runtime.temporary import TemporaryDirectory
from embedkafka.runtime.threads import start_thread

_LOG = logging.getLogger(__name__)

NOT_RUNNING = (
    "the cluster is not running: use it inside `with EmbeddedKafka() as kafka:`, or between "
    "start() and close()"
)


class ClusterResources:
    """What one cluster holds from its start to `close`."""

    def __init__(self, *, keep: bool, failures: Failures) -> None:
        """With `keep` the data outlives the cluster, so the brokers leave it in order."""
        self.owner = Owner()
        self.brokers: Brokers | None = None
        self._keep = keep
        self._failures = failures
        self._closing = outermost_lock()
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
        """Stops every broker and removes temporary files; a second call does nothing."""
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
        """Closes on a thread made for it.

        The garbage collector may call this on any thread, even on one of the cluster's.
        """
        if self in _live and self.owner.is_here:
            warnings.warn(
                "an EmbeddedKafka was not closed: use it in a `with` statement, or call close()",
                ResourceWarning,
                stacklevel=2,
            )
            start_thread("ek-abandoned", self.close, self._failures)


_live: set[ClusterResources] = set()


def describe_live() -> dict[int, str]:
    """The clusters of this process that are open: by their ids, their directories."""
    return {id(resources): str(resources.directory.path) for resources in list(_live)}


def close_all() -> None:
    """Closes every cluster of this process, because the process is ending."""
    for resources in list(_live):
        try:
            resources.close()
        except Exception:  # the others must be closed too
            _LOG.exception("A cluster could not be closed")


def _nothing() -> None:
    """Does nothing: the interval was not shortened."""


atexit.register(close_all)
