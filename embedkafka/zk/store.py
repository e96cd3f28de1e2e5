"""The interface to ZooKeeper: one session's view of a tree of znodes.

A `ZkStore` is one session. `memory.MemoryZk.connect()` opens one in process, `kazoo_store.KazooZk`
one on a real ensemble; `tests/unit/zk/contract.py` holds both to the same behaviour.

Invariants: watches fire once, after the change, in the order of the changes, and carry no data.
After `SessionState.EXPIRED` every call raises `SessionExpired` until the owner calls `renew()`, so
that calls queued before the expiry cannot slip into the next session.
Not here: znode paths and payloads of Kafka (`paths`, `payloads`) and typed access (`kafka_zk`).
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from embedkafka.runtime.values import NamedTuple, dataclass

ANY_VERSION = -1


class ZkError(Exception):
    """ZooKeeper refused a request. In a `multi`, `op_index` names the failing operation."""

    def __init__(self, path: str = "", *, op_index: int = 0) -> None:
        super().__init__(path)
        self.path = path
        self.op_index = op_index


class NoNode(ZkError):
    """The znode, or the parent of the one to create, does not exist."""


class NodeExists(ZkError):
    """The znode to create already exists."""


class BadVersion(ZkError):
    """The znode's version is not the one the caller expects."""


class NotEmpty(ZkError):
    """The znode to delete has children."""


class NoChildrenForEphemerals(ZkError):
    """An ephemeral znode cannot be a parent."""


class ConnectionLoss(ZkError):
    """The ensemble is unreachable; the request may or may not have been carried out."""


class SessionExpired(ZkError):
    """The session has ended, along with its ephemeral znodes."""


class EventType(Enum):
    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILD = "child"


class WatchEvent(NamedTuple):
    """A change of the znode at `path`; its watch has been removed."""

    type: EventType
    path: str


class SessionState(Enum):
    """CONNECTED also announces a renewed session; SUSPENDED may become either of the others."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"


class Stat(NamedTuple):
    """ZooKeeper's book-keeping of one znode; Kafka's broker epoch is a `czxid`."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


@dataclass(frozen=True, slots=True)
class CreateOp:
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@dataclass(frozen=True, slots=True)
class SetOp:
    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class DeleteOp:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class CheckOp:
    path: str
    version: int = ANY_VERSION


Op = CreateOp | SetOp | DeleteOp | CheckOp
"""One step of a `multi`; its result is the created path, the new `Stat`, or None."""

OpResult = str | Stat | None
Watch = Callable[[WatchEvent], None]
SessionListener = Callable[[SessionState], None]


class ZkStore(Protocol):
    """One session. Any thread may call any method; callbacks must only post."""

    @property
    def session_id(self) -> int: ...

    @property
    def state(self) -> SessionState:
        """EXPIRED until the owner renews it, even while it cannot."""
        ...

    def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
    ) -> str:
        """Creates a znode and returns its path, which ends in ten digits if sequential.

        None is ZooKeeper's null. We read it back as empty bytes, but Kafka tells the two apart: it
        starts with a null `/latest_producer_id_block`, and fails on an empty one.
        """
        ...

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]: ...

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        """Reads many znodes, not atomically; None for those that do not exist."""
        ...

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat: ...

    def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The znode's stat; sets the watch even if the znode does not exist."""
        ...

    def children(self, path: str, watch: Watch | None = None) -> list[str]: ...

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Does all of `ops` or none; raises the error of the failing one."""
        ...

    def on_session_change(self, listener: SessionListener) -> None: ...

    def renew(self) -> None:
        """Opens the next session after an expiry; watches and ephemeral znodes are gone."""
        ...

    def close(self) -> None:
        """Ends the session and deletes its ephemeral znodes."""
        ...
