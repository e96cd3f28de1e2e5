"""Accepts connections on one listening socket and hands them to the processors of its plane.

Owner: the thread of the plane's first processor, whose selector watches the listening socket.
Invariants: the quota counts a connection before a processor gets it, and refuses one whose address
has too many; while the broker is full, connections wait in the kernel's queue.
Not here: reading and writing (`processor.py`).
"""

import itertools
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from embedkafka.wire.net.limits import ConnectionQuota
from embedkafka.wire.net.time_share import TimeShare
from embedkafka.wire.net.transport import Encrypt, Listener, OutOfDescriptors, Stream

_LOG = logging.getLogger(__name__)

# Accept at most this many per turn of the selector, so that open connections get their turn.
_BATCH: Final = 64


Later = Callable[[float, Callable[[], None]], None]
"""Runs a function after so many milliseconds."""


class ConnectionOwner(Protocol):
    """A processor, as the acceptor sees it. Callable from any thread."""

    @property
    def has_room(self) -> bool: ...

    def adopt(self, stream: Stream, *, listener: str, number: int) -> None: ...


class Acceptor:
    """Accepts on `listener`, named `name`, and deals connections out to `owners`."""

    def __init__(
        self,
        name: str,
        listener: Listener,
        owners: Sequence[ConnectionOwner],
        quota: ConnectionQuota,
        encrypt: Encrypt | None = None,
        *,
        now_ms: float = 0.0,
    ) -> None:
        """`now_ms` is when it starts."""
        self.name = name
        self.listener = listener
        self.owners = owners
        self._quota = quota
        self._encrypt = encrypt
        self._numbers = itertools.count()
        self._turns = itertools.count()
        self._held: set[Stream] = set()
        self.blocked = TimeShare(now_ms)
        """The time in which it accepted nothing, because of a limit."""

    def accept(self, now_ms: float, when_room: Callable[[], None], later: Later) -> float | None:
        """Accepts waiting connections; returns the milliseconds to pause before accepting more.

        None means that the broker is full: pause until `when_room` is called. A connection of an
        address that makes too many is held, and closed `later`. Raises `OutOfDescriptors` if no
        descriptor is free.
        """
        for _ in range(_BATCH):
            if not self._quota.has_room(when_room, self.name):
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
            hold_ms = self._quota.note_arrival_from(stream.peer_host, now_ms)
            if hold_ms:
                self._held.add(stream)
                later(hold_ms, partial(self._drop, stream))
            else:
                self._hand_over(stream)
            pause_ms = self._quota.note_arrival(now_ms, self.name)
            if pause_ms:
                return pause_ms
        return 0.0

    def close_held(self) -> None:
        """Closes the connections that were to be closed later."""
        for stream in list(self._held):
            self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        if stream in self._held:
            self._held.discard(stream)
            stream.close()

    def _hand_over(self, stream: Stream) -> None:
        if self._quota.admit(stream.peer_host, self.name):
            if self._encrypt is not None:
                stream = self._encrypt(stream)
            self._next_owner().adopt(stream, listener=self.name, number=next(self._numbers))
            return
        _LOG.warning(
            "%s refused %s: too many connections from that address", self.name, stream.peer
        )
        stream.close()

    def _next_owner(self) -> ConnectionOwner:
        """The next processor with room; the first of a plane always has, for it runs this."""
        owners = self.owners
        while not (owner := owners[next(self._turns) % len(owners)]).has_room:
            pass
        return owner
