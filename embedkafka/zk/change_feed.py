"""Follows a folder of sequential znodes in which brokers announce changes to each other.

Owner: the background thread reads; `last_number` is its own.
Invariants: a watch on the folder is set whenever there is a session. Every notification is read at
least once; those made while the store was unreachable, when it returns. Old notifications are
purged, all but the newest. A broker that was away sees a gap in their numbers, and calls `on_gap`.
Not here: what a notification means, which `on_change` decides.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.scheduler import Scheduler
from embedkafka.zk.store import (
    ConnectionLoss,
    NoNode,
    SessionExpired,
    SessionState,
    WatchEvent,
    ZkStore,
)

_LOG = logging.getLogger(__name__)

CHANGE_EXPIRATION_MS: Final = 15 * 60 * 1000


class ChangeFeed:
    """Calls `on_change` with the content of each new znode `<folder>/<prefix><number>`."""

    def __init__(
        self,
        store: ZkStore,
        clock: Clock,
        background: Scheduler,
        *,
        folder: str,
        prefix: str,
        on_change: Callable[[bytes], None],
        on_gap: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._background = background
        self._folder = folder
        self._prefix = prefix
        self._on_change = on_change
        self._on_gap = on_gap
        self._last_number = -1

    def start(self) -> None:
        """Follows changes from now on; what was there before is the caller's to read."""
        self._store.on_session_change(self._on_session_change)
        names = self._store.children(self._folder, self._on_event)
        self._last_number = max(map(self._number, names), default=-1)

    def read(self) -> None:
        """Reads what is new; runs on the background thread."""
        try:
            names = sorted(self._store.children(self._folder, self._on_event))
            new = [name for name in names if self._number(name) > self._last_number]
            missed = bool(new) and self._number(new[0]) > self._last_number + 1
            for name in new:
                missed |= not self._read_one(name)
                self._last_number = self._number(name)
            if missed:
                self._on_gap()
            self._purge(names[:-1])
        except (ConnectionLoss, SessionExpired) as error:
            _LOG.info("%s is read when ZooKeeper is back: %r", self._folder, error)

    def _on_event(self, event: WatchEvent) -> None:
        self._background.once("change-feed", 0, self.read)

    def _on_session_change(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._background.once("change-feed", 0, self.read)

    def _read_one(self, name: str) -> bool:
        """Passes one notification on; False if it has been purged."""
        try:
            data, _ = self._store.get(f"{self._folder}/{name}")
        except NoNode:
            return False
        self._on_change(data)
        return True

    def _purge(self, names: Iterable[str]) -> None:
        """Deletes the notifications that all brokers have had time to read."""
        newest_ms = self._clock.now_ms() - CHANGE_EXPIRATION_MS
        for name in names:
            path = f"{self._folder}/{name}"
            with suppress(NoNode):  # another broker may do the same
                if self._store.get(path)[1].ctime >= newest_ms:
                    return  # names rise with time
                self._store.delete(path)

    def _number(self, name: str) -> int:
        return int(name.removeprefix(self._prefix))
