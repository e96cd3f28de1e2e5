"""Accepts connections on one listening socket and hands them to the processors of its plane.

Owner: the thread of the plane's first processor, whose selector watches the listening socket.
Invariants: the quota counts a connection before a processor gets it, and refuses one whose address
has too many; while the broker is full, connections wait in the kernel's queue.
Not here: reading and writing (`processor.py`).
"""

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from embedkafka.net.limits import ConnectionQuota
from embedkafka.net.transport import Listener, OutOfDescriptors, Stream

_LOG = logging.getLogger(__name__)

# Accept at most this many per turn of the selector, so that open connections get their turn.
_BATCH: Final = 64


class ConnectionOwner(Protocol):
    """A processor, as the acceptor sees it. Callable from any thread."""

    def adopt(self, stream: Stream, *, listener: str, number: int) -> None: ...


class Acceptor:
    """Accepts on `listener`, named `name`, and deals connections out to `owners`."""

    def __init__(
        self,
        name: str,
        listener: Listener,
        owners: Sequence[ConnectionOwner],
        quota: ConnectionQuota,
    ) -> None:
        self.name = name
        self.listener = listener
        self.owners = owners
        self._quota = quota
        self._numbers = itertools.count()

    def accept(self, now_ms: float, when_room: Callable[[], None]) -> float | None:
        """Accepts waiting connections; returns the milliseconds to pause before accepting more.

        None means that the broker is full: pause until `when_room` is called. Raises
        `OutOfDescriptors` if no descriptor is free.
        """
        for _ in range(_BATCH):
            if not self._quota.has_room(when_room):
                return None
            try:
                stream = self.listener.accept()
            except BlockingIOError:
                return 0.0
            except OutOfDescriptors:
                raise
            except OSError as error:  # the client has already gone, or was turned away
                _LOG.warning("%s could not accept a connection: %s", self.name, error)
                return 0.0
            self._hand_over(stream)
            pause_ms = self._quota.note_arrival(now_ms)
            if pause_ms:
                return pause_ms
        return 0.0

    def _hand_over(self, stream: Stream) -> None:
        if self._quota.admit(stream.peer_host):
            number, owners = next(self._numbers), self.owners
            owners[number % len(owners)].adopt(stream, listener=self.name, number=number)
            return
        _LOG.warning(
            "%s refused %s: too many connections from that address", self.name, stream.peer
        )
        stream.close()
