"""The ZooKeeper of a cluster in this process: in memory, perhaps kept in files, or a real one.

Owner: none; each session belongs to the broker that opened it.
Not here: the contents (`zk.kafka_zk`), and what cuts a session off (`faults.session_link`).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from embedkafka.faults.session_link import Session
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import ConfigError, EmbedKafkaError, Failures
from embedkafka.runtime.files import DirectoryLock, Files
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.threads import start_thread
from embedkafka.zk.memory import MemorySession, MemoryZk
from embedkafka.zk.paths import PRODUCER_ID_BLOCK
from embedkafka.zk.snapshot import BadSnapshot, decode_tree
from embedkafka.zk.store import SessionState, ZkStore

if TYPE_CHECKING:
    from embedkafka.zk.kazoo_store import KazooZk

RESTORE_MARK: Final = "restoring"
"""A file in a cluster's directory while a restore is in progress there."""


_NO_SNAPSHOTS: Final = (
    "snapshots need the built-in ZooKeeper: make the cluster without `zookeeper=`"
)


class Ensemble(Protocol):
    """Opens sessions on one tree of znodes."""

    def observe(self) -> ZkStore:
        """A session for the cluster itself; it lasts as long as the cluster."""
        ...

    def connect(self, broker_id: BrokerId, session_timeout_ms: int) -> Session: ...

    def expire(self, session: Session) -> None:
        """Ends a session that its broker has left behind, if the ensemble can do that."""
        ...

    def snapshot(self) -> bytes:
        """The tree, as brokers must find it again; raises if the ensemble has no snapshots."""
        ...

    def restoring(self, snapshot: bytes) -> AbstractContextManager[None]:
        """Restores the tree; in the block the caller restores the logs. No broker may run."""
        ...

    def close(self) -> None: ...


class MemoryEnsemble:
    """A `MemoryZk`. With a `directory` its tree is kept there, and loaded at the start."""

    def __init__(
        self, directory: Path | None, *, files: Files, clock: Clock, failures: Failures
    ) -> None:
        self._lock: DirectoryLock | None = None
        self._files = files
        self._mark = None if directory is None else directory / RESTORE_MARK
        if directory is None:
            self._zookeeper = MemoryZk(clock, failures)
            return
        try:
            files.make_directory(directory)
            self._lock = files.lock_directory(directory)
            self._require_whole(directory)
            from embedkafka.zk.journal import Journal  # for a tree that is kept

            journal = Journal(directory, files=files, failures=failures)
            self._zookeeper = MemoryZk(clock, failures, journal)
        except (OSError, BadSnapshot) as error:
            self._unlock()
            raise ConfigError(f"the directory {directory} cannot be used: {error}") from error

    def observe(self) -> MemorySession:
        return self._zookeeper.connect()

    def connect(self, broker_id: BrokerId, session_timeout_ms: int) -> MemorySession:
        return self._zookeeper.connect(session_timeout_ms)

    def expire(self, session: Session) -> None:
        if isinstance(session, MemorySession):
            session.expire()

    def snapshot(self) -> bytes:
        return self._zookeeper.snapshot()

    @contextmanager
    def restoring(self, snapshot: bytes) -> Iterator[None]:
        """Restores all but the producer ids: clients may still use those given out since.

        If anything fails or the process is killed, the mark stays until a later restore succeeds.
        """
        if self._mark is not None:
            self._files.replace(self._mark, b"")
        self._restore(snapshot)
        yield
        if self._mark is not None:
            self._files.remove(self._mark)

    def _restore(self, snapshot: bytes) -> None:
        session = self._zookeeper.connect()
        (block,) = session.get_many([PRODUCER_ID_BLOCK])
        self._zookeeper.restore(decode_tree(snapshot))
        if block is not None and session.exists(PRODUCER_ID_BLOCK) is not None:
            session.set(PRODUCER_ID_BLOCK, block[0])
        session.close()

    def close(self) -> None:
        try:
            self._zookeeper.close()
        finally:
            self._unlock()

    def _require_whole(self, directory: Path) -> None:
        if self._files.exists(directory / RESTORE_MARK):
            raise BadSnapshot(
                "a restore() here was interrupted, and left a mixture of the earlier state and the "
                "snapshot. Remove the directory to begin again"
            )

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()


class RealEnsemble:
    """Sessions on real ZooKeeper servers, which keep the tree themselves."""

    def __init__(self, hosts: str, failures: Failures, *, connect_timeout_ms: int) -> None:
        self._hosts = hosts
        self._failures = failures
        self._connect_timeout_ms = connect_timeout_ms

    def observe(self) -> "KazooZk":
        from embedkafka.zk.kazoo_store import KazooZk  # for a real ZooKeeper

        session = KazooZk(
            self._hosts,
            connect_timeout_ms=self._connect_timeout_ms,
            name="ek-zk",
            failures=self._failures,
        )

        def on_change(state: SessionState) -> None:
            if state is SessionState.EXPIRED:
                start_thread("ek-zk-renew", session.renew, self._failures)

        session.on_session_change(on_change)
        return session

    def connect(self, broker_id: BrokerId, session_timeout_ms: int) -> "KazooZk":
        from embedkafka.zk.kazoo_store import KazooZk  # as above

        return KazooZk(
            self._hosts,
            session_timeout_ms=session_timeout_ms,
            connect_timeout_ms=self._connect_timeout_ms,
            name=f"ek-b{broker_id}-zk",
            failures=self._failures,
        )

    def expire(self, session: Session) -> None:
        """Leaves it to expire: that is up to the servers."""

    def snapshot(self) -> bytes:
        raise EmbedKafkaError(_NO_SNAPSHOTS)

    def restoring(self, snapshot: bytes) -> AbstractContextManager[None]:
        raise EmbedKafkaError(_NO_SNAPSHOTS)

    def close(self) -> None:
        """The servers keep running."""
