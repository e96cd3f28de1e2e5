"""Requests that faults hold up, or whose replies they hold up or drop.

Owner: `_lock` (leaf).
Invariants: a request that has lost its connection here is neither handled nor answered later. One
that met its fault before `hang_up` and is held after it loses its connection too.
"""

from typing import Final

from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.wire.net.request_channel import Request

_REASON: Final = "a fault held it up when its test ended"


class HeldRequests:
    """The requests of one cluster that wait for a fault."""

    def __init__(self) -> None:
        self._lock = ranked_lock("held requests", LEAF_RANK)
        self._held: set[Request] = set()
        self.round = 0
        """How often all were dropped."""

    def hold(self, request: Request, *, since: int) -> None:
        """Holds a request that met its fault in the round `since`; hangs up if that is over."""
        with self._lock:
            is_current = since == self.round
            if is_current:
                self._held.add(request)
        if not is_current:
            request.close_connection(_REASON)

    def let_go(self, request: Request) -> bool:
        """Returns whether it may go on; not if it has lost its connection."""
        with self._lock:
            was_held = request in self._held
            self._held.discard(request)
            return was_held

    def lose(self, address: str) -> None:
        """Drops what is under way on the connection from `address`, which has broken."""
        with self._lock:
            self._held = {request for request in self._held if sender(request) != address}

    def hang_up(self) -> None:
        """Closes the connections of all. A client that is still there sends its request again."""
        with self._lock:
            held, self._held = self._held, set()
            self.round += 1
        for request in held:
            request.close_connection(_REASON)


def sender(request: Request) -> str:
    """The address that the request came from."""
    return request.connection_id.split("-")[1]
