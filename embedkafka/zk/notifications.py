"""Hears of changes that are announced as sequential znodes, such as `/config/changes`.

Every broker follows the same list: it handles each znode once, in order, and removes those that
are old enough for everybody to have seen them. A broker reads the settings anew when it starts,
so what was announced before that is skipped.

Owner: the thread that calls `check`; watches only ask for a call of it.
Not here: what a change means; `server` reads the entity's settings again.
"""

from collections.abc import Callable

from embedkafka.runtime.clock import Clock
from embedkafka.zk import paths, payloads
from embedkafka.zk.store import NoNode, WatchEvent, ZkStore

RETAINED_MS = 15 * 60 * 1000
"""Kafka's change expiration: any broker that lives has handled a znode by then."""


class ChangeNotifications:
    """Follows one directory of sequential znodes.

    `wake` is called, on any thread, when there may be something new; it must get `check` called
    on the thread that owns this object.
    """

    def __init__(
        self,
        store: ZkStore,
        *,
        directory: str,
        prefix: str,
        handle: Callable[[bytes], None],
        wake: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._store = store
        self._directory = directory
        self._prefix = prefix
        self._handle = handle
        self._wake = wake
        self._clock = clock
        self._last = -1

    def start(self) -> None:
        """Skips what was announced so far and listens from now on; also after a lost session."""
        self._last = max([self._last, *map(self._number, self._names())])

    def check(self) -> None:
        """Handles what is new, and removes what is old."""
        names = sorted(self._names(), key=self._number)
        for name in names:
            number = self._number(name)
            if number > self._last:
                self._last = number
                node = self._store.get_many([f"{self._directory}/{name}"])[0]
                if node is not None:
                    self._handle(node[0])
        self._purge(names)

    def _purge(self, names: list[str]) -> None:
        oldest = self._clock.now_ms() - RETAINED_MS
        for name in names:
            path = f"{self._directory}/{name}"
            stat = self._store.exists(path)
            if stat is None:
                continue
            if stat.ctime >= oldest:
                return
            try:
                self._store.delete(path)
            except NoNode:
                continue  # another broker was first

    def _names(self) -> list[str]:
        try:
            return self._store.children(self._directory, self._on_watch)
        except NoNode:
            return []

    def _number(self, name: str) -> int:
        return int(name.removeprefix(self._prefix))

    def _on_watch(self, event: WatchEvent) -> None:
        self._wake()


def config_changes(
    store: ZkStore, *, handle: Callable[[str], None], wake: Callable[[], None], clock: Clock
) -> ChangeNotifications:
    """Follows `/config/changes`; `handle` gets entity paths such as `topics/orders`."""
    return ChangeNotifications(
        store,
        directory=paths.CONFIG_CHANGES,
        prefix=paths.CONFIG_CHANGE_PREFIX,
        handle=lambda data: handle(payloads.decode_config_change(data)),
        wake=wake,
        clock=clock,
    )
