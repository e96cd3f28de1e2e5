"""ZooKeeper's rules as a state machine without threads, time or I/O: znodes, owners, watches.

Owner: the holder of the tree; `memory.MemoryZk` guards it with its lock.
Invariants: every write has a new zxid; a failed transaction leaves no trace; a watch fires once,
and the caller delivers the events that a write returns.
Not here: session timeouts and the delivery of events (`memory`).
"""

from collections.abc import Sequence

from embedkafka.runtime.values import dataclass
from embedkafka.zk.store import (
    BadVersion,
    CheckOp,
    CreateOp,
    EventType,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    OpResult,
    SetOp,
    Stat,
    Watch,
    WatchEvent,
    ZkError,
)

ROOT = "/"

Watcher = tuple[int, Watch]
"""A session and its callback; equal watchers on one path are one watch."""


class Znode:
    """One node; `creates` counts all children ever created, to number sequential ones."""

    __slots__ = (
        "children",
        "creates",
        "ctime",
        "czxid",
        "data",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(self, data: bytes, *, zxid: int, now_ms: int, owner: int = 0) -> None:
        self.data = data
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = now_ms
        self.version = 0
        self.creates = 0
        self.owner = owner
        self.children: dict[str, None] = {}

    def stat(self) -> Stat:
        """ZooKeeper's stat, in which `cversion` counts creations and deletions of children."""
        count = len(self.children)
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            self.creates * 2 - count,
            0,
            self.owner,
            len(self.data),
            count,
            self.pzxid,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """A watch that fired, and the event for its owner."""

    watcher: Watcher
    event: WatchEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The outcome of a transaction: a result per operation, and the watches it fired."""

    results: list[OpResult]
    fired: list[Fired]


class Tree:
    """All znodes of one ensemble, with their watches."""

    def __init__(self) -> None:
        self.zxid = 0
        self._nodes: dict[str, Znode] = {ROOT: Znode(b"", zxid=0, now_ms=0)}
        self._data_watches: dict[str, dict[Watcher, None]] = {}
        self._child_watches: dict[str, dict[Watcher, None]] = {}
        self._ephemerals: dict[int, dict[str, None]] = {}

    def find(self, path: str) -> Znode | None:
        return self._nodes.get(path)

    def require(self, path: str) -> Znode:
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def paths(self) -> list[str]:
        """Every path, parents before children."""
        return sorted(self._nodes)

    def znodes(self) -> list[tuple[str, Znode]]:
        """Every znode with its path, parents before children."""
        return sorted(self._nodes.items())

    def sessions(self) -> list[int]:
        """The sessions that have ephemeral znodes."""
        return [session_id for session_id, paths in self._ephemerals.items() if paths]

    def put_back(self, path: str, node: Znode) -> None:
        """Adds a znode of an earlier tree unchanged; its parent exists."""
        self._nodes[path] = node
        if node.owner:
            self._ephemerals.setdefault(node.owner, {})[path] = None
        if path != ROOT:
            parent_path, name = _split(path)
            self._nodes[parent_path].children[name] = None

    def follow(self, former: "Tree") -> None:
        """Replaces another tree and takes over its watches, which fire on later changes."""
        self.zxid = max(self.zxid, former.zxid)
        self._data_watches = former._data_watches
        self._child_watches = former._child_watches

    def ephemerals(self, session_id: int) -> list[str]:
        return list(self._ephemerals.get(session_id, ()))

    def watch_data(self, path: str, watcher: Watcher) -> None:
        self._data_watches.setdefault(path, {})[watcher] = None

    def watch_children(self, path: str, watcher: Watcher) -> None:
        self._child_watches.setdefault(path, {})[watcher] = None

    def apply(self, ops: Sequence[Op], *, session_id: int, now_ms: int) -> Applied:
        """Does all of `ops` under one zxid, or raises the first error and changes nothing."""
        zxid = self.zxid + 1
        step = _Transaction(self._nodes, self._ephemerals, zxid, now_ms, session_id)
        results: list[OpResult] = []
        for index, op in enumerate(ops):
            try:
                results.append(step.apply(op))
            except ZkError as error:
                step.undo()
                error.op_index = index
                raise
        self.zxid = zxid
        return Applied(results=results, fired=self._fire(step.changes))

    def end_session(self, session_id: int, *, now_ms: int) -> list[Fired]:
        """Forgets the session's watches and deletes its ephemeral znodes in one transaction."""
        for watches in (self._data_watches, self._child_watches):
            for path in list(watches):
                kept = {key: None for key in watches[path] if key[0] != session_id}
                if kept:
                    watches[path] = kept
                else:
                    del watches[path]
        paths = self.ephemerals(session_id)
        self.zxid += 1
        step = _Transaction(self._nodes, self._ephemerals, self.zxid, now_ms, session_id)
        for path in reversed(paths):
            step.delete(path, version=-1)
        self._ephemerals.pop(session_id, None)
        return self._fire(step.changes)

    def _fire(self, changes: list[WatchEvent]) -> list[Fired]:
        fired: list[Fired] = []
        data, child = self._data_watches, self._child_watches
        if not data and not child:
            return fired
        for event in changes:
            path = event.path
            watchers: dict[Watcher, None] = {}
            if event.type is EventType.CHILD:
                watchers = child.pop(path, watchers)
            else:
                watchers = data.pop(path, watchers)
                if event.type is EventType.DELETED:
                    watchers = {**watchers, **child.pop(path, {})}
            fired += [Fired(watcher=watcher, event=event) for watcher in watchers]
        return fired


class _Transaction:
    """Applies operations one by one and remembers how to undo them."""

    __slots__ = ("_ephemerals", "_nodes", "_now_ms", "_session_id", "_undo", "_zxid", "changes")

    def __init__(
        self,
        nodes: dict[str, Znode],
        ephemerals: dict[int, dict[str, None]],
        zxid: int,
        now_ms: int,
        session_id: int,
    ) -> None:
        self._nodes = nodes
        self._ephemerals = ephemerals
        self._zxid = zxid
        self._now_ms = now_ms
        self._session_id = session_id
        self._undo: list[tuple[Op, str, tuple[Znode, int, int] | tuple[bytes, int, int]]] = []
        self.changes: list[WatchEvent] = []

    def apply(self, op: Op) -> OpResult:
        if isinstance(op, CreateOp):
            return self.create(op)
        if isinstance(op, SetOp):
            return self.set(op)
        if isinstance(op, CheckOp):
            self._require(op.path, op.version)
            return None
        self.delete(op.path, op.version)
        return None

    def create(self, op: CreateOp) -> str:
        parent_path, name = _split(op.path)
        parent = self._nodes.get(parent_path)
        if parent is None:
            raise NoNode(op.path)
        path = op.path
        if op.sequence:
            suffix = f"{parent.creates:010d}"
            path, name = path + suffix, name + suffix
        if path in self._nodes:
            raise NodeExists(path)
        if parent.owner:
            raise NoChildrenForEphemerals(path)
        owner = self._session_id if op.ephemeral else 0
        node = Znode(op.data, zxid=self._zxid, now_ms=self._now_ms, owner=owner)
        self._undo.append((op, path, (node, parent.pzxid, parent.creates)))
        self._nodes[path] = node
        parent.children[name] = None
        parent.pzxid = self._zxid
        parent.creates += 1
        if owner:
            self._ephemerals.setdefault(owner, {})[path] = None
        self.changes.append(WatchEvent(EventType.CREATED, path))
        self.changes.append(WatchEvent(EventType.CHILD, parent_path))
        return path

    def set(self, op: SetOp) -> Stat:
        node = self._require(op.path, op.version)
        self._undo.append((op, op.path, (node.data, node.mzxid, node.mtime)))
        node.data = op.data
        node.version += 1
        node.mzxid = self._zxid
        node.mtime = self._now_ms
        self.changes.append(WatchEvent(EventType.CHANGED, op.path))
        return node.stat()

    def delete(self, path: str, version: int) -> None:
        node = self._require(path, version)
        if node.children or path == ROOT:
            raise NotEmpty(path)
        parent_path, name = _split(path)
        parent = self._nodes[parent_path]
        self._undo.append((_DELETED, path, (node, parent.pzxid, parent.creates)))
        del self._nodes[path]
        del parent.children[name]
        parent.pzxid = self._zxid
        if node.owner:
            self._ephemerals.get(node.owner, {}).pop(path, None)
        self.changes.append(WatchEvent(EventType.DELETED, path))
        self.changes.append(WatchEvent(EventType.CHILD, parent_path))

    def undo(self) -> None:
        for op, path, before in reversed(self._undo):
            first, second, third = before
            if isinstance(first, bytes):
                node = self._nodes[path]
                node.data, node.mzxid, node.mtime = first, second, third
                node.version -= 1
                continue
            parent_path, name = _split(path)
            parent = self._nodes[parent_path]
            parent.pzxid, parent.creates = second, third
            if op is _DELETED:
                self._nodes[path] = first
                parent.children[name] = None
                if first.owner:
                    self._ephemerals.setdefault(first.owner, {})[path] = None
            else:
                del self._nodes[path]
                del parent.children[name]
                if first.owner:
                    del self._ephemerals[first.owner][path]

    def _require(self, path: str, version: int) -> Znode:
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(path)
        if version not in (-1, node.version):
            raise BadVersion(path)
        return node


_DELETED = CheckOp("", 0)
"""Marks a deletion in the undo list."""


def _split(path: str) -> tuple[str, str]:
    """The parent's path and the node's name; a bad path is the caller's bug."""
    parent, slash, name = path.rpartition("/")
    if not slash or (parent and parent[0] != "/") or path == ROOT:
        raise ValueError(f"not an absolute znode path: {path!r}")
    return parent or ROOT, name
