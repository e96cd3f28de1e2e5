"""The link from a broker to ZooKeeper, which several faults may cut at a time.

Owner: `_lock` guards the reasons. It is held while the session is paused or resumed, so that the
session's state always matches the reasons.
"""

from enum import Enum, auto
from typing import Protocol

from embedkafka.runtime.locks import SESSION_RANK, ranked_lock
from embedkafka.zk.store import ZkStore


class Cut(Enum):
    """Why a broker cannot reach ZooKeeper."""

    PAUSED = auto()
    PARTITIONED = auto()
    DEAD = auto()


class Session(ZkStore, Protocol):
    """A session that can be cut off from the ensemble."""

    def pause(self) -> None:
        """Cuts the session off; it expires unless it is resumed in time."""
        ...

    def resume(self) -> None: ...

    def drop(self) -> None:
        """Leaves the session to expire, and releases its threads."""
        ...


class SessionLink:
    """One session, paused while there is any reason; a long pause makes it expire."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._lock = ranked_lock("cuts of a session", SESSION_RANK)
        self._reasons: set[Cut] = set()

    @property
    def is_cut(self) -> bool:
        return bool(self._reasons)

    def cut(self, reason: Cut) -> None:
        with self._lock:
            self._reasons.add(reason)
            self.session.pause()

    def mend(self, reason: Cut) -> None:
        with self._lock:
            self._reasons.discard(reason)
            if not self._reasons:
                self.session.resume()
