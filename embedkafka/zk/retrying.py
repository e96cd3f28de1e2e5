"""A store whose calls wait out a broken connection, as Kafka's own ZooKeeper client does.

The controller must not drop an event because the ensemble is briefly unreachable. Request handlers
must not wait; they use the plain store and answer with an error.

Owner: `_condition` guards the connection's state as last announced.
Invariants: a call ends with its result, its error, or `SessionExpired` if the session is over or
`give_up` was called. A create or a multi whose answer was lost is repeated, and then fails with
`NodeExists` or `BadVersion`; `KafkaZk` copes with both.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from embedkafka.runtime.locks import leaf_condition
from embedkafka.zk.store import (
    ANY_VERSION,
    ConnectionLoss,
    Op,
    OpResult,
    SessionExpired,
    SessionListener,
    SessionState,
    Stat,
    Watch,
    ZkStore,
)

T = TypeVar("T")

_LONGEST_WAIT_S = 60.0
"""Per wait; the loop continues until the connection is back or the session is over."""


class RetryingStore:
    """A `ZkStore` around another one."""

    def __init__(self, store: ZkStore) -> None:
        self._store = store
        self._condition = leaf_condition("retries")
        self._suspended = False
        self._given_up = False
        store.on_session_change(self._on_session_change)

    @property
    def session_id(self) -> int:
        return self._store.session_id

    @property
    def state(self) -> SessionState:
        return self._store.state

    def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
    ) -> str:
        return self._retry(
            lambda: self._store.create(path, data, ephemeral=ephemeral, sequence=sequence)
        )

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        return self._retry(lambda: self._store.get(path, watch))

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
        return self._retry(lambda: self._store.get_many(paths))

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return self._retry(lambda: self._store.set(path, data, version))

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._retry(lambda: self._store.delete(path, version))

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        return self._retry(lambda: self._store.exists(path, watch))

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return self._retry(lambda: self._store.children(path, watch))

    def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        return self._retry(lambda: self._store.multi(ops))

    def on_session_change(self, listener: SessionListener) -> None:
        self._store.on_session_change(listener)

    def renew(self) -> None:
        self._retry(self._store.renew)

    def close(self) -> None:
        self.give_up()
        self._store.close()

    def give_up(self) -> None:
        """Ends waiting calls, now and in future, because their caller is stopping."""
        with self._condition:
            self._given_up = True
            self._condition.notify_all()

    def _retry(self, request: Callable[[], T]) -> T:
        while True:
            try:
                return request()
            except ConnectionLoss as lost:
                if not self._await_connection():
                    raise SessionExpired(lost.path) from lost

    def _await_connection(self) -> bool:
        """Whether to try again."""
        with self._condition:
            while self._suspended and not self._given_up:
                self._condition.wait(_LONGEST_WAIT_S)
            return not self._given_up

    def _on_session_change(self, state: SessionState) -> None:
        with self._condition:
            self._suspended = state is SessionState.SUSPENDED
            self._condition.notify_all()
