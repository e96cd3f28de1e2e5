"""A tree of znodes on disk: a snapshot in one file, and the changes since then in another.

Every transaction is a line of JSON in `zookeeper.journal`, on disk before it is acknowledged, as in
ZooKeeper, so neither a killed process nor a power cut loses one. Loading applies the same
operations again. When the journal has outgrown the tree, we write a new snapshot and start an empty
journal.

Either may leave an incomplete last line. It was not acknowledged, so we drop it.

Owner: `MemoryZk._lock`.
Invariants: `zookeeper.json` plus the lines with higher transaction ids make up the tree. After a
line could not be written, the next change writes a snapshot.
Not here: the tree itself (`tree`), and the format of a snapshot (`snapshot`).
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
"""A smaller journal never causes a snapshot."""


class Journal:
    """Keeps one tree in `directory`."""

    def __init__(self, directory: Path, *, files: Files, failures: Failures) -> None:
        self._directory = directory
        self._tree_path = directory / TREE_FILE
        self._path = directory / JOURNAL_FILE
        self._files = files
        self._failures = failures
        self._file: File | None = None
        self._closed = False
        self._size = 0
        self._limit = 0

    def load(self) -> Tree:
        """The last tree, without ephemeral znodes: the sessions ended with their process."""
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
        """Writes the transaction that has just changed `tree`; None means the end of a session."""
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
            self._file.sync()
            if self._size > self._limit:
                self.rewrite(tree)
        except OSError as error:
            self._file = None
            self._failures.record(f"writing {self._path}", error)

    def rewrite(self, tree: Tree) -> None:
        """Writes a snapshot and starts an empty journal."""
        data = encode_tree(tree, ephemerals=True)
        self._files.replace(self._tree_path, data, sync=True)
        if self._file is None:
            self._file = self._files.open(self._path)
        self._files.sync(self._directory)  # or a power cut could bring the former tree back
        self._file.truncate(0)
        self._size = 0
        self._limit = max(_SHORTEST_BYTES, 2 * len(data))

    def close(self, tree: Tree) -> None:
        """Writes a last snapshot."""
        self._closed = True
        self._file = None
        self._files.replace(self._tree_path, encode_tree(tree), sync=True)
        self._files.sync(self._directory)
        self._files.remove(self._path)


def _replay(journal: bytes, tree: Tree) -> None:
    lines = journal.split(b"\n")
    del lines[-1]  # empty, or an incomplete line
    for number, line in enumerate(lines, start=1):
        try:
            zxid, session_id, now_ms, changes = json.loads(line)
            if zxid <= tree.zxid:  # in the snapshot: the process ended before it cut the journal
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
    """Bytes as Latin-1 text: Kafka's payloads stay legible, and others survive."""
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
