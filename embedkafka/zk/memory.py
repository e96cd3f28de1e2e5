"""ZooKeeper inside the process: `MemoryZk` is the server, `MemorySession` one client's session.

Sessions need no heartbeat, because a client in the same process cannot vanish without closing.
Tests make a session fail: `pause()` disconnects the client (its calls raise `ConnectionLoss`) and
starts the session timeout on the cluster's clock, `resume()` reconnects it, `expire()` ends the
session at once. After an expiry the owner calls `renew()`.

Owner: `MemoryZk._lock` (leaf) guards the tree, the sessions and their queues of events.
Invariants: a session's callbacks get events in the order of the changes, one at a time and never
under the lock. Without an `executor`, the changing thread delivers them before its call returns,
unless another thread is already delivering for that session.
Not here: the rules of znodes and watches (`tree`).
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.scheduler import ThreadScheduler
from embedkafka.zk.snapshot import encode_tree
from embedkafka.zk.store import (
    ANY_VERSION,
    ConnectionLoss,
    CreateOp,
    DeleteOp,
    NoNode,
    Op,
    OpResult,
    SessionExpired,
    SessionListener,
    SessionState,
    SetOp,
    Stat,
    Watch,
    WatchEvent,
)
from embedkafka.zk.tree import Fired, Tree, Watcher, Znode

if TYPE_CHECKING:
    from embedkafka.zk.journal import Journal

DEFAULT_SESSION_TIMEOUT_MS = 18_000
"""Kafka's `zookeeper.session.timeout.ms`."""

Executor = Callable[[Callable[[], None]], None]


class MemoryZk:
    """One ensemble. `close()` ends its only thread, which the first `pause()` starts."""

    def __init__(self, clock: Clock, failures: Failures, journal: "Journal | None" = None) -> None:
        """Loads the tree from `journal`, and keeps it there."""
        self._journal = journal
        self._tree = Tree() if journal is None else journal.load()
        if journal is not None:
            journal.rewrite(self._tree)
        self._clock = clock
        self._failures = failures
        self._lock = ranked_lock("MemoryZk", LEAF_RANK)
        self._sessions: dict[int, MemorySession] = {}
        self._last_session_id = 0
        self._scheduler = ThreadScheduler("ek-zk-sessions", clock, failures)

    def connect(
        self,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        executor: Executor | None = None,
    ) -> "MemorySession":
        """Opens a session; its callbacks run on `executor`, or on the changing thread."""
        return MemorySession(self, session_timeout_ms, executor)

    def close(self) -> None:
        """Closes the journal, from which the next ensemble can load the tree."""
        self._scheduler.shutdown()
        if self._journal is not None:
            with self._lock:
                self._journal.close(self._tree)

    def snapshot(self) -> bytes:
        """A snapshot without sessions, for `snapshot.decode_tree`."""
        with self._lock:
            return encode_tree(self._tree)

    def restore(self, tree: Tree) -> None:
        """Replaces the tree; sessions and their watches stay.

        Transaction ids continue, so that later registrations are younger than all earlier ones.
        """
        with self._lock:
            tree.follow(self._tree)
            self._tree = tree
            if self._journal is not None:
                self._journal.rewrite(tree)

    def paths(self) -> list[str]:
        """Every znode, for tests and reports."""
        with self._lock:
            return self._tree.paths()

    def _open(self, session: "MemorySession") -> int:
        with self._lock:
            return self._add(session)

    def _add(self, session: "MemorySession") -> int:
        self._last_session_id += 1
        self._sessions[self._last_session_id] = session
        return self._last_session_id

    def _write(self, session: "MemorySession", ops: Sequence[Op]) -> list[OpResult]:
        with self._lock:
            session_id = session._require_usable()
            now_ms = self._clock.now_ms()
            applied = self._tree.apply(ops, session_id=session_id, now_ms=now_ms)
            if self._journal is not None:
                self._journal.append(self._tree, session_id=session_id, now_ms=now_ms, ops=ops)
            told = self._queue(applied.fired) if applied.fired else ()
        for other in told:
            other._deliver()
        return applied.results

    def _end(self, session_id: int) -> "list[MemorySession]":
        """Deletes the session's ephemeral znodes, if it still exists; returns who hears of it.

        The caller holds the lock: who learns that a session has ended finds nothing left of it.
        """
        if self._sessions.pop(session_id, None) is None:
            return []
        now_ms = self._clock.now_ms()
        fired = self._tree.end_session(session_id, now_ms=now_ms)
        if self._journal is not None:
            self._journal.append(self._tree, session_id=session_id, now_ms=now_ms, ops=None)
        return self._queue(fired)

    def _queue(self, fired: list[Fired]) -> "list[MemorySession]":
        told: dict[MemorySession, None] = {}
        for item in fired:
            session_id, watch = item.watcher
            session = self._sessions.get(session_id)
            if session is not None:
                session._events.append((watch, item.event))
                told[session] = None
        return list(told)


class MemorySession:
    """A `ZkStore` on a `MemoryZk`."""

    def __init__(self, server: MemoryZk, timeout_ms: int, executor: Executor | None) -> None:
        self._server = server
        self._timeout_ms = timeout_ms
        self._executor = executor
        self._events: deque[tuple[Watch, WatchEvent]] = deque()
        self._delivering = False
        self._listeners: list[SessionListener] = []
        self._state = SessionState.CONNECTED
        self._lost = False
        self._unreachable = False
        self._pauses = 0
        self._session_id = server._open(self)

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
    ) -> str:
        results = self._server._write(self, (CreateOp(path, data or b"", ephemeral, sequence),))
        return str(results[0])

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        server = self._server
        with server._lock:
            watcher = self._watcher(watch)
            node = server._tree.require(path)
            if watcher is not None:
                server._tree.watch_data(path, watcher)
            return node.data, node.stat()

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        server = self._server
        with server._lock:
            self._require_usable()
            nodes = [server._tree.find(path) for path in paths]
            return [None if node is None else (node.data, node.stat()) for node in nodes]

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        results = self._server._write(self, (SetOp(path, data, version),))
        stat = results[0]
        assert isinstance(stat, Stat)
        return stat

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._server._write(self, (DeleteOp(path, version),))

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        server = self._server
        with server._lock:
            watcher = self._watcher(watch)
            if watcher is not None:
                server._tree.watch_data(path, watcher)
            node = server._tree.find(path)
            return None if node is None else node.stat()

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        server = self._server
        with server._lock:
            watcher = self._watcher(watch)
            node: Znode | None = server._tree.find(path)
            if node is None:
                raise NoNode(path)
            if watcher is not None:
                server._tree.watch_children(path, watcher)
            return list(node.children)

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        return self._server._write(self, ops)

    def on_session_change(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def close(self) -> None:
        with self._server._lock:
            if self._state is SessionState.CLOSED:
                return
            self._state = SessionState.CLOSED
            self._events.clear()
            told = self._server._end(self._session_id)
        for other in told:
            other._deliver()

    def renew(self) -> None:
        with self._server._lock:
            if self._state is not SessionState.EXPIRED:
                return
            if self._unreachable:
                raise ConnectionLoss
            self._lost = False
            self._state = SessionState.CONNECTED
            self._session_id = self._server._add(self)
        self._announce(SessionState.CONNECTED)

    def pause(self) -> None:
        """Disconnects the client; unless resumed, the session expires after its timeout."""
        with self._server._lock:
            if self._state not in (SessionState.CONNECTED, SessionState.EXPIRED):
                return
            self._unreachable = True
            self._pauses += 1
            pause = self._pauses
            expired = self._state is SessionState.EXPIRED
            if not expired:
                self._state = SessionState.SUSPENDED
        if not expired:  # else there is no session to lose, but the owner cannot renew it now
            self._server._scheduler.once(
                f"expire session {self._session_id}",
                self._timeout_ms,
                lambda: self._time_out(pause),
            )
        self._announce(SessionState.SUSPENDED)

    def resume(self) -> None:
        """Reconnects the client, which now learns whether its session has expired."""
        with self._server._lock:
            if not self._unreachable or self._state is SessionState.CLOSED:
                return
            self._unreachable = False
            self._state = SessionState.EXPIRED if self._lost else SessionState.CONNECTED
            state = self._state
        self._announce(state)
        self._deliver()

    def drop(self) -> None:
        """Leaves the unused session to expire."""
        self.pause()

    def expire(self) -> None:
        """Ends the session on the server's side; a paused client learns of it when it resumes."""
        with self._server._lock:
            if self._lost or self._state is SessionState.CLOSED:
                return
            self._lost = True
            self._events.clear()
            paused = self._state is SessionState.SUSPENDED
            if not paused:
                self._state = SessionState.EXPIRED
            told = self._server._end(self._session_id)
        for other in told:
            other._deliver()
        if not paused:
            self._announce(SessionState.EXPIRED)

    def _time_out(self, pause: int) -> None:
        if self._state is SessionState.SUSPENDED and self._pauses == pause:
            self.expire()

    def _announce(self, state: SessionState) -> None:
        for listener in list(self._listeners):
            listener(state)

    def _require_usable(self) -> int:
        if self._state is SessionState.CONNECTED:
            return self._session_id
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLoss
        raise SessionExpired

    def _watcher(self, watch: Watch | None) -> Watcher | None:
        session_id = self._require_usable()
        return None if watch is None else (session_id, watch)

    def _deliver(self) -> None:
        if self._executor is None:
            self._drain()
        else:
            self._executor(self._drain)

    def _drain(self) -> None:
        """Calls back in order; another thread that arrives leaves its events to this one."""
        with self._server._lock:
            if self._delivering:
                return
            self._delivering = True
        while (item := self._next_event()) is not None:
            watch, event = item
            try:
                watch(event)
            except Exception as error:  # a bug in the watcher must not break the changing thread
                self._server._failures.record(f"watch on {event.path}", error)

    def _next_event(self) -> tuple[Watch, WatchEvent] | None:
        with self._server._lock:
            if self._events and self._state is not SessionState.SUSPENDED:
                return self._events.popleft()
            self._delivering = False
            return None
