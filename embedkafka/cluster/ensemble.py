"""The ZooKeeper of a cluster in this process: one in memory, kept in a file, or a real one.

Owner: nobody; every session is owned by the broker it was opened for.
Not here: what is stored (`zk.kafka_zk`), and what cuts a session off (`faults.session`).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol

from embedkafka.faults.session_link import Session
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import ConfigError, EmbedKafkaError, Failures
from embedkafka.runtime.files import DirectoryLock, Files
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.threads import start_thread
from embedkafka.zk.journal import Journal
from embedkafka.zk.kazoo_store import KazooZk
from embedkafka.zk.memory import MemorySession, MemoryZk
from embedkafka.zk.paths import PRODUCER_ID_BLOCK
from embedkafka.zk.snapshot import BadSnapshot, decode_tree
from embedkafka.zk.store import SessionState, ZkStore

RESTORE_MARK: Final = "restoring"
"""A file in the directory of a cluster while it is neither what it was nor what it will be."""


class Ensemble(Protocol):
    """Gives sessions that share one tree of znodes."""

    def observe(self) -> ZkStore:
        """A session for whoever looks on; it does not end before the cluster."""
        ...

    def connect(self, broker_id: BrokerId, session_timeout_ms: int) -> Session: ...

    def snapshot(self) -> bytes:
        """All that brokers have to find again when they start; not every ensemble can tell."""
        ...

    def restoring(self, snapshot: bytes) -> AbstractContextManager[None]:
        """Makes it what it was; the caller does the same with the logs, and no broker runs."""
        ...

    def close(self) -> None: ...


class MemoryEnsemble:
    """A `MemoryZk`. With a `directory` it is kept there, and begins as an earlier one ended."""

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
            journal = Journal(directory, files=files, failures=failures)
            self._zookeeper = MemoryZk(clock, failures, journal)
        except (OSError, BadSnapshot) as error:
            self._unlock()
            raise ConfigError(f"the directory {directory} cannot be used: {error}") from error

    def observe(self) -> MemorySession:
        return self._zookeeper.connect()

    def connect(self, broker_id: BrokerId, session_timeout_ms: int) -> MemorySession:
        return self._zookeeper.connect(session_timeout_ms)

    def snapshot(self) -> bytes:
        return self._zookeeper.snapshot()

    @contextmanager
    def restoring(self, snapshot: bytes) -> Iterator[None]:
        """All but the producer ids, which clients that live on may have: none is given twice.

        The mark stays when anything fails or the process is killed, until a later one succeeds.
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
                "a restore() here did not come to its end, and left some of what was there before "
                "and some of the snapshot. Remove the directory to begin again"
            )

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()


class RealEnsemble:
    """Sessions on ZooKeeper servers, which keep by themselves what they know."""

    def __init__(self, hosts: str, failures: Failures, *, connect_timeout_ms: int) -> None:
        self._hosts = hosts
        self._failures = failures
        self._connect_timeout_ms = connect_timeout_ms

    def observe(self) -> KazooZk:
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

    def connect(self, broker_id: BrokerId, session_timeout_ms: int) -> KazooZk:
        return KazooZk(
            self._hosts,
            session_timeout_ms=session_timeout_ms,
            connect_timeout_ms=self._connect_timeout_ms,
            name=f"ek-b{broker_id}-zk",
            failures=self._failures,
        )

    def snapshot(self) -> bytes:
        raise EmbedKafkaError("a cluster on a real ZooKeeper has no snapshots")

    def restoring(self, snapshot: bytes) -> AbstractContextManager[None]:
        raise EmbedKafkaError("a cluster on a real ZooKeeper has no snapshots")

    def close(self) -> None:
        """They stay."""
