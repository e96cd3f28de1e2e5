"""Reads and writes many znodes at once, on any store, and as a controller that may be deposed.

Owner: none.
Not here: Kafka's znodes (`kafka_zk`).
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from embedkafka.zk import paths
from embedkafka.zk.store import (
    ANY_VERSION,
    BadVersion,
    CheckOp,
    DeleteOp,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    OpResult,
    Watch,
    ZkError,
    ZkStore,
)

_T = TypeVar("_T")

OPS_PER_MULTI: Final = 500
"""Keeps a transaction well below ZooKeeper's limit of 1 MiB per request."""


class ControllerMoved(Exception):
    """Another broker has become controller, so nothing was written."""


def find(store: ZkStore, path: str, watch: Watch | None = None) -> bytes | None:
    """The znode's data; None if it does not exist."""
    try:
        return store.get(path, watch)[0]
    except NoNode:
        return None


def children(store: ZkStore, path: str, watch: Watch | None = None) -> list[str]:
    """The children's names; empty if the znode does not exist."""
    try:
        return store.children(path, watch)
    except NoNode:
        return []


def below(store: ZkStore, path: str) -> Iterator[str]:
    """The znode and all below it, children first."""
    for name in children(store, path):
        yield from below(store, f"{path}/{name}")
    yield path


def notifications(store: ZkStore, path: str, watch: Watch | None) -> Iterator[tuple[str, bytes]]:
    """Names and contents of a folder of sequential znodes, in order."""
    names = sorted(children(store, path, watch))
    found = store.get_many([f"{path}/{name}" for name in names])
    for name, node in zip(names, found, strict=True):
        if node is not None:
            yield name, node[0]


def create_with_parents(
    store: ZkStore, path: str, data: bytes | None, *, exist_ok: bool = False
) -> None:
    try:
        store.create(path, data)
    except NodeExists:
        if not exist_ok:
            raise
    except NoNode:
        create_with_parents(store, path.rpartition("/")[0], None, exist_ok=True)
        create_with_parents(store, path, data, exist_ok=exist_ok)


def write_as_controller(store: ZkStore, ops: Sequence[Op], epoch_version: int) -> list[OpResult]:
    """A transaction of the active controller; errors keep the index within check + ops."""
    if epoch_version == ANY_VERSION:
        return store.multi(ops)
    check = CheckOp(paths.CONTROLLER_EPOCH, epoch_version)
    try:
        return store.multi([check, *ops])[1:]
    except ZkError as error:
        if error.op_index == 0 and isinstance(error, BadVersion):
            raise ControllerMoved(f"epoch znode is past version {epoch_version}") from error
        raise


def delete_all(store: ZkStore, doomed: Sequence[str], epoch_version: int) -> None:
    """Deletes znodes as the controller; missing ones are fine."""
    for chunk in chunks(doomed, OPS_PER_MULTI):
        waiting = list(chunk)
        while waiting:
            try:
                write_as_controller(store, [DeleteOp(path) for path in waiting], epoch_version)
            except NoNode as error:
                del waiting[error.op_index - 1]
                continue
            break


def delete_tree(store: ZkStore, path: str, epoch_version: int) -> None:
    """Deletes a znode with everything below it, as the controller."""
    doomed = list(below(store, path))
    try:
        delete_all(store, doomed, epoch_version)
    except NotEmpty:
        delete_tree(store, path, epoch_version)  # a child has appeared


def chunks(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
