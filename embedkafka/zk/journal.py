"""A tree of znodes on disk: whole in one file, and what has changed since then in another.

Every transaction is a line of JSON in `zookeeper.journal`, written before anyone hears of it, so a
killed process loses none. Reading it back is applying the same operations again. When the journal
has outgrown the tree, the tree is written whole and the journal begins again.

A killed process may leave half a line, always the last: it was not acknowledged, and is dropped. No
line is synced, so after a power cut the last ones may be missing, as records of the logs may be.

Owner: `MemoryZk._lock`.
Invariants: `zookeeper.json` and the lines with higher transaction ids are the tree. A line that
could not be written is made up for by writing the tree whole on the next change.
Not here: what is in a tree (`tree`), and how it looks when written whole (`snapshot`).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from embedkafka.runtime.failures import Failures
from embedkafka.runtime.files import File, Files
from embedkafka.zk.snapshot import BadSnapshot, decode_tree, encode_tree
from embedkafka.zk.store import CheckOp, CreateOp, DeleteOp, Op, SetOp, ZkError
from embedkafka.zk.tree import Tree

TREE_FILE: Final = "zookeeper.json"
JOURNAL_FILE: Final = "zookeeper.journal"

_SHORTEST_BYTES: Final = 1024 * 1024
"""A journal up to here is not worth writing the tree for."""


class Journal:
    """Keeps one tree in `directory`."""

    def __init__(self, directory: Path, *, files: Files, failures: Failures) -> None:
        self._tree_path = directory / TREE_FILE
        self._path = directory / JOURNAL_FILE
        self._files = files
        self._failures = failures
        self._file: File | None = None
        self._closed = False
        self._size = 0
        self._limit = 0

    def load(self) -> Tree:
        """The tree as it was last; without sessions, for they ended with their process."""
        tree = Tree()
        if self._files.exists(self._tree_path):
            try:
                tree = decode_tree(self._files.read(self._tree_path))
            except BadSnapshot as error:
                raise BadSnapshot(f"{TREE_FILE} is damaged: {error}") from error
        if self._files.exists(self._path):
            _replay(self._files.read(self._path), tree)
        for session_id in tree.sessions():
            tree.end_session(session_id, now_ms=0)
        return tree

    def append(self, tree: Tree, *, session_id: int, now_ms: int, ops: Sequence[Op] | None) -> None:
        """Writes down the transaction that has just changed `tree`; None is a session's end."""
        if self._closed:
            return
        try:
            if self._file is None:
                self.rewrite(tree)
                return
            changes = None if ops is None else [_encode(op) for op in ops if _changes(op)]
            line = json.dumps([tree.zxid, session_id, now_ms, changes]).encode() + b"\n"
            self._file.write(line, self._size)
            self._size += len(line)
            if self._size > self._limit:
                self.rewrite(tree)
        except OSError as error:
            self._file = None
            self._failures.record(f"writing {self._path}", error)

    def rewrite(self, tree: Tree) -> None:
        """Writes the tree whole, and begins the journal again."""
        data = encode_tree(tree, ephemerals=True)
        self._files.replace(self._tree_path, data)
        if self._file is None:
            self._file = self._files.open(self._path)
        self._file.truncate(0)
        self._size = 0
        self._limit = max(_SHORTEST_BYTES, 2 * len(data))

    def close(self, tree: Tree) -> None:
        """Leaves the tree whole, in one file."""
        self._closed = True
        self._file = None
        self._files.replace(self._tree_path, encode_tree(tree))
        self._files.remove(self._path)


def _replay(journal: bytes, tree: Tree) -> None:
    lines = journal.split(b"\n")
    del lines[-1]  # empty, or the half of a line
    for number, line in enumerate(lines, start=1):
        try:
            zxid, session_id, now_ms, changes = json.loads(line)
            if zxid <= tree.zxid:  # the tree was written whole, and the journal not cut any more
                continue
            if zxid != tree.zxid + 1:
                raise ValueError(f"transaction {zxid} after {tree.zxid}")
            if changes is None:
                tree.end_session(session_id, now_ms=now_ms)
            else:
                ops = [_decode(change) for change in changes]
                tree.apply(ops, session_id=session_id, now_ms=now_ms)
        except (ValueError, KeyError, TypeError, ZkError) as error:
            raise BadSnapshot(f"{JOURNAL_FILE} is damaged, line {number}: {error!r}") from error


def _changes(op: Op) -> bool:
    return not isinstance(op, CheckOp)


def _encode(op: Op) -> list[object]:
    """Bytes as text of the same numbers: Kafka's own can be read, and any others are kept."""
    if isinstance(op, CreateOp):
        return ["create", op.path, op.data.decode("latin-1"), op.ephemeral, op.sequence]
    if isinstance(op, SetOp):
        return ["set", op.path, op.data.decode("latin-1")]
    return ["delete", op.path]


def _decode(change: list[Any]) -> Op:  # Any: JSON values have no common type
    kind, path, *rest = change
    if kind == "create":
        data, ephemeral, sequence = rest
        return CreateOp(path, data.encode("latin-1"), ephemeral, sequence)
    if kind == "set":
        return SetOp(path, rest[0].encode("latin-1"))
    if kind == "delete":
        return DeleteOp(path)
    raise ValueError(f"there is no operation {kind!r}")
