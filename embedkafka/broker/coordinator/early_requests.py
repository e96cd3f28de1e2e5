"""Parks requests that arrive before their partition is loaded.

A client may learn of a partition's new leader a moment before that broker does. A refused client
would back off for much longer than that moment.

Owner: the event loop that owns the partitions; every method runs there.
Invariants: an action runs once, on the loop: when all its partitions are settled, or after
`WAIT_MS`.
Not here: when a partition is settled (`hosting.py`).
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from embedkafka.runtime.scheduler import Cancellable, Timer

WAIT_MS: Final = 500


class EarlyRequests:
    """Actions that wait for partitions to be settled."""

    def __init__(self, timer: Timer, post: Callable[[Callable[[], None]], object]) -> None:
        self._timer = timer
        self._post = post
        self._waiting: dict[int, list[_Arrival]] = {}

    @property
    def partitions(self) -> Collection[int]:
        """The partitions that actions wait for."""
        return list(self._waiting)

    def wait(self, partitions: Collection[int], action: Callable[[], None]) -> None:
        """Runs `action` when all `partitions` are settled, at the latest after `WAIT_MS`."""
        arrival = _Arrival(set(partitions), action)
        for partition in partitions:
            self._waiting.setdefault(partition, []).append(arrival)
        expire = partial(self._post, partial(self._expire, arrival))
        arrival.timeout = self._timer.add(WAIT_MS, expire)

    def settle(self, partition: int) -> None:
        for arrival in self._waiting.pop(partition, ()):
            arrival.partitions.discard(partition)
            if not arrival.partitions:
                arrival.proceed()

    def settle_all(self) -> None:
        for partition in self.partitions:
            self.settle(partition)

    def _expire(self, arrival: "_Arrival") -> None:
        for partition in arrival.partitions:
            self._waiting[partition].remove(arrival)
            if not self._waiting[partition]:
                del self._waiting[partition]
        if arrival.partitions:
            arrival.proceed()


class _Arrival:
    """One action and the partitions it still waits for."""

    __slots__ = ("_action", "partitions", "timeout")

    def __init__(self, partitions: set[int], action: Callable[[], None]) -> None:
        self.partitions = partitions
        self.timeout: Cancellable | None = None
        self._action = action

    def proceed(self) -> None:
        if self.timeout is not None:
            self.timeout.cancel()
        self._action()
