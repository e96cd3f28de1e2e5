"""A session on a real ZooKeeper ensemble, through kazoo, so that brokers can be processes.

Kazoo forgets watches when its connection breaks. ZooKeeper's own client would ask the next server
for the changes it missed, and Kafka depends on that. So we keep watches with the last known state
of their znodes. After a reconnect, watches whose znode has changed fire; we set the others again.

Owner: `_lock` (leaf) guards the kept watches and the state; kazoo's threads call back.
Invariants: as in `store`; kazoo calls watches one at a time and in order.
Not here: retrying while the connection is down (`retrying`).
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from embedkafka.runtime.failures import ConfigError, EmbedKafkaError, Failures
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.threads import start_thread
from embedkafka.zk import store
from embedkafka.zk.store import (
    ANY_VERSION,
    CheckOp,
    ConnectionLoss,
    CreateOp,
    EventType,
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
    ZkError,
)

_LOG = logging.getLogger(__name__)

_ERRORS: dict[str, type[ZkError]] = {
    "NoNodeError": store.NoNode,
    "NodeExistsError": store.NodeExists,
    "BadVersionError": store.BadVersion,
    "NotEmptyError": store.NotEmpty,
    "NoChildrenForEphemeralsError": store.NoChildrenForEphemerals,
    "SessionExpiredError": store.SessionExpired,
    "ConnectionClosedError": store.SessionExpired,
    "ConnectionLoss": store.ConnectionLoss,
    "OperationTimeoutError": store.ConnectionLoss,
    "KazooTimeoutError": store.ConnectionLoss,
}
"""Kazoo's exceptions by name, so that this module loads without kazoo."""

_SHORTEST_SESSION_MS: Final = 1_000
"""Kazoo may delay a heartbeat by 0.4 s, which alone would expire shorter sessions."""

_RECONNECTING: Final = {"max_tries": -1, "delay": 0.1, "max_delay": 0.5}
"""By default kazoo doubles its wait each time, and misses the end of a short outage."""

_BOTH_WAYS: Final = 2
"""`socket.SHUT_RDWR`"""


class KazooZk:
    """One session on the ensemble `hosts`, `host:port,...[/chroot]`; waits for the connection."""

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_ms: int = 18_000,
        connect_timeout_ms: int = 18_000,
        name: str = "ek-zk",
        failures: Failures,
    ) -> None:
        session_timeout_ms = max(session_timeout_ms, _SHORTEST_SESSION_MS)
        self._name = name
        self._failures = failures
        self._session_timeout_s = session_timeout_ms / 1000
        self._connect_timeout_s = connect_timeout_ms / 1000
        self._is_cut = False
        self._socket: Any = None  # kazoo has no types
        self._lock = ranked_lock("KazooZk", LEAF_RANK)
        self._watches: dict[tuple[str, Watch], _KeptWatch] = {}
        self._listeners: list[SessionListener] = []
        self._state = SessionState.CONNECTED
        self._client = self._make_client(hosts)
        self._connect(hosts)
        self._client.add_listener(self._on_kazoo_state)

    @property
    def session_id(self) -> int:
        return int(self._client.client_id[0])

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
        return str(
            self._call(
                path,
                lambda: self._client.create_async(
                    path, data, ephemeral=ephemeral, sequence=sequence
                ),
            )
        )

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        kept = self._keep(path, watch)
        data, stat = self._call(path, lambda: self._client.get_async(path, watch=kept))
        if kept is not None:
            kept.data_zxid = stat.mzxid
        return data or b"", Stat(*stat)

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        self._require_usable("")
        pending = [self._client.get_async(path) for path in paths]
        found: list[tuple[bytes, Stat] | None] = []
        for path, answer in zip(paths, pending, strict=True):
            try:
                data, stat = self._await_answer(path, answer)
                found.append((data or b"", Stat(*stat)))
            except NoNode:
                found.append(None)
        return found

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return Stat(*self._call(path, lambda: self._client.set_async(path, data, version)))

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._call(path, lambda: self._client.delete_async(path, version))

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        kept = self._keep(path, watch)
        stat = self._call(path, lambda: self._client.exists_async(path, watch=kept))
        if kept is not None:
            kept.data_zxid = _NO_ZNODE if stat is None else stat.mzxid
        return None if stat is None else Stat(*stat)

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        kept = self._keep(path, watch)
        names, stat = self._call(
            path, lambda: self._client.get_children_async(path, watch=kept, include_data=True)
        )
        if kept is not None:
            kept.child_zxid = stat.pzxid
        return list(names)

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        transaction = self._client.transaction()
        for op in ops:
            if isinstance(op, CreateOp):
                transaction.create(op.path, op.data, ephemeral=op.ephemeral, sequence=op.sequence)
            elif isinstance(op, SetOp):
                transaction.set_data(op.path, op.data, op.version)
            elif isinstance(op, CheckOp):
                transaction.check(op.path, op.version)
            else:
                transaction.delete(op.path, op.version)
        results = self._call("", transaction.commit_async)
        for index, (op, result) in enumerate(zip(ops, results, strict=True)):
            error = _error_of(result, op.path) if isinstance(result, Exception) else None
            if error is not None:
                error.op_index = index
                raise error
        return [_op_result(op, result) for op, result in zip(ops, results, strict=True)]

    def on_session_change(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def renew(self) -> None:
        """Kazoo opens the next session itself; this waits for it, then lets calls through."""
        with self._lock:
            if self._state is not SessionState.EXPIRED:
                return
        if not self._client._live.wait(self._connect_timeout_s):
            raise ConnectionLoss
        with self._lock:
            self._state = SessionState.CONNECTED
        self._announce(SessionState.CONNECTED)

    def pause(self) -> None:
        """Disconnects the client; unless resumed, the session expires after its timeout."""
        with self._lock:
            self._is_cut = True
            connected = self._socket
        if connected is not None:
            with suppress(OSError):  # it may already be broken
                connected.shutdown(_BOTH_WAYS)

    def resume(self) -> None:
        """Reconnects the client, which now learns whether its session has expired."""
        with self._lock:
            self._is_cut = False

    def drop(self) -> None:
        """Ends without closing the session, which is left to expire."""
        self.pause()
        self.close()

    def close(self) -> None:
        with self._lock:
            if self._state is SessionState.CLOSED:
                return
            self._state = SessionState.CLOSED
            self._watches.clear()
        self._client.stop()
        self._client.close()

    # -- the connection

    def _make_client(self, hosts: str) -> Any:
        try:
            from kazoo.client import KazooClient
            from kazoo.handlers.threading import SequentialThreadingHandler
        except ImportError as missing:
            raise ConfigError(
                "kazoo is needed for a real ZooKeeper: pip install embedkafka[zookeeper]"
            ) from missing
        handler = SequentialThreadingHandler()
        self._open_socket = handler.create_connection
        handler.create_connection = self._open_connection
        handler.spawn = self._spawn
        try:
            return KazooClient(
                hosts=hosts,
                timeout=self._session_timeout_s,
                handler=handler,
                connection_retry=_RECONNECTING,
            )
        except ValueError as error:
            raise ConfigError(f"{hosts!r} is not HOST:PORT[/CHROOT]: {error}") from error

    def _connect(self, hosts: str) -> None:
        client = self._client
        client.start_async().wait(self._connect_timeout_s)
        if not client.connected:
            client.stop()
            client.close()
            raise EmbedKafkaError(
                f"no ZooKeeper answers at {hosts} within {self._connect_timeout_s:g} s"
            )
        if client.chroot:  # created if missing, as Kafka does; kazoo only warns
            chroot, client.chroot = client.chroot, ""
            client.ensure_path(chroot)
            client.chroot = chroot

    def _open_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Kazoo calls this for a socket; faults cut the connection here."""
        if self._is_cut:
            raise ConnectionRefusedError("cut off")
        opened = self._open_socket(*args, **kwargs)
        with self._lock:
            self._socket = opened
            if not self._is_cut:
                return opened
        opened.close()
        raise ConnectionRefusedError("cut off")

    def _spawn(self, run: Callable[..., None], *args: Any, **kwargs: Any) -> threading.Thread:
        return start_thread(self._name, lambda: run(*args, **kwargs), self._failures)

    # -- requests and watches

    def _call(self, path: str, request: Callable[[], Any]) -> Any:
        """The result of an asynchronous kazoo request, or our error."""
        self._require_usable(path)
        return self._await_answer(path, request())

    def _require_usable(self, path: str) -> None:
        if self._state in (SessionState.EXPIRED, SessionState.CLOSED):
            raise SessionExpired(path)
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLoss(path)  # kazoo would hold on to the request and its caller

    def _await_answer(self, path: str, answer: Any) -> Any:
        try:
            return answer.get(timeout=self._session_timeout_s)
        except Exception as error:
            raise _error_of(error, path) or error from error

    def _keep(self, path: str, watch: Watch | None) -> "_KeptWatch | None":
        """One object per path and callback, so that kazoo treats it as one watch."""
        if watch is None:
            return None
        with self._lock:
            kept = self._watches.get((path, watch))
            if kept is None:
                kept = self._watches[path, watch] = _KeptWatch(self, path, watch)
            return kept

    def _spend(self, kept: "_KeptWatch", kind: EventType) -> bool:
        """Whether the watch was waiting for such an event; it no longer waits for this kind."""
        with self._lock:
            if self._watches.get((kept.path, kept.watch)) is not kept:
                return False
            if kind is not EventType.CHILD:
                kept.data_zxid = None
            if kind in (EventType.CHILD, EventType.DELETED):
                kept.child_zxid = None
            if kept.data_zxid is None and kept.child_zxid is None:
                del self._watches[kept.path, kept.watch]
            return True

    def _on_kazoo_state(self, kazoo_state: str) -> None:
        """Runs on kazoo's connection thread, which must not block."""
        with self._lock:
            before = self._state
            if before in (SessionState.EXPIRED, SessionState.CLOSED):
                return
            if kazoo_state == "LOST":
                self._watches.clear()
                self._state = SessionState.EXPIRED
            elif kazoo_state == "SUSPENDED":
                self._state = SessionState.SUSPENDED
            else:
                self._state = SessionState.CONNECTED
            now = self._state
        if before is SessionState.SUSPENDED and now is SessionState.CONNECTED:
            start_thread(f"{self._name}-rearm", self._rearm, self._failures)
        self._announce(now)

    def _announce(self, state: SessionState) -> None:
        for listener in list(self._listeners):
            listener(state)

    def _rearm(self) -> None:
        """Sets watches again after a reconnect, and fires those that missed a change."""
        with self._lock:
            waiting = list(self._watches.values())
        for kept in waiting:
            try:
                if kept.data_zxid is not None:
                    self._rearm_data(kept, kept.data_zxid)
                if kept.child_zxid is not None:
                    self._rearm_children(kept, kept.child_zxid)
            except (ConnectionLoss, SessionExpired):
                return  # the next reconnect repeats all of it

    def _rearm_data(self, kept: "_KeptWatch", seen_zxid: int) -> None:
        stat = self._call(kept.path, lambda: self._client.exists_async(kept.path, watch=kept))
        zxid = _NO_ZNODE if stat is None else stat.mzxid
        if zxid == seen_zxid:
            return
        if stat is None:
            kept.fire(EventType.DELETED)
        else:
            kept.fire(EventType.CREATED if seen_zxid == _NO_ZNODE else EventType.CHANGED)

    def _rearm_children(self, kept: "_KeptWatch", seen_zxid: int) -> None:
        try:
            _, stat = self._call(
                kept.path,
                lambda: self._client.get_children_async(kept.path, watch=kept, include_data=True),
            )
        except NoNode:
            kept.fire(EventType.DELETED)
            return
        if stat.pzxid != seen_zxid:
            kept.fire(EventType.CHILD)


_NO_ZNODE = 0
"""The zxid kept for a watch on a znode that does not exist yet."""


class _KeptWatch:
    """The callback for kazoo; it outlives a broken connection."""

    __slots__ = ("_owner", "child_zxid", "data_zxid", "path", "watch")

    def __init__(self, owner: KazooZk, path: str, watch: Watch) -> None:
        self._owner = owner
        self.path = path
        self.watch = watch
        self.data_zxid: int | None = None
        self.child_zxid: int | None = None

    def __call__(self, event: Any) -> None:  # Any: kazoo has no types
        if event.type != "NONE":  # which only reports a change of connection
            self.fire(EventType[event.type])

    def fire(self, kind: EventType) -> None:
        if not self._owner._spend(self, kind):
            return
        try:
            self.watch(WatchEvent(kind, self.path))
        except Exception as error:  # kazoo would only log it
            self._owner._failures.record(f"watch on {self.path}", error)


def _error_of(error: Exception, path: str) -> ZkError | None:
    """Our error for kazoo's; None if it is not ZooKeeper's, such as a rolled back operation."""
    for cls in type(error).__mro__:
        ours = _ERRORS.get(cls.__name__)
        if ours is not None:
            return ours(path)
    return None


def _op_result(op: Op, result: Any) -> OpResult:  # Any: kazoo has no types
    if isinstance(op, CreateOp):
        return str(result)
    if isinstance(op, SetOp):
        return Stat(*result)
    return None
