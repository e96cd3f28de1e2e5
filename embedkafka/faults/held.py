"""Requests that faults hold up, or whose replies they hold up or drop.

Owner: `_lock` (leaf).
Invariants: a request that has lost its connection here is neither handled nor answered later.
"""

from embedkafka.net.request_channel import Request
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock


class HeldRequests:
    """The requests of one cluster that wait for a fault."""

    def __init__(self) -> None:
        self._lock = ranked_lock("held requests", LEAF_RANK)
        self._held: set[Request] = set()

    def hold(self, request: Request) -> None:
        with self._lock:
            self._held.add(request)

    def let_go(self, request: Request) -> bool:
        """Returns whether it may go on; not if it has lost its connection."""
        with self._lock:
            was_held = request in self._held
            self._held.discard(request)
            return was_held

    def hang_up(self) -> None:
        """Closes the connections of all. A client that is still there sends its request again."""
        with self._lock:
            held, self._held = self._held, set()
        for request in held:
            request.close_connection("a fault held it up when its test ended")
