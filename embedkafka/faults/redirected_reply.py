"""Requests whose replies go another way than straight to the client."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from embedkafka.runtime.buffers import BytesLike
from embedkafka.wire.net.request_channel import ReplyWatcher, Request
from embedkafka.wire.protocol.client_software import ClientSoftware
from embedkafka.wire.protocol.wire_types import Part

OnReply = Callable[[Sequence[Part]], None]

_NEVER_IN_MEMORY: Final = 1 << 20
"""The size of a part that no one reads before sending it."""


def diverted(request: Request, on_reply: OnReply) -> Request:
    """The same request; its reply goes to `on_reply` instead of the client."""
    return Request(request.frame, _Diverted(request, on_reply), request.received_ms)


class _Diverted:
    """The `ReplyPort` of a diverted request."""

    def __init__(self, request: Request, on_reply: OnReply) -> None:
        self._request = request
        self._on_reply = on_reply
        self.id = request.connection_id
        self.listener = request.listener
        self.is_control_plane = request.is_control_plane
        self.client_address = request.client_address

    @property
    def throttle_ms(self) -> float:
        return 0.0

    @throttle_ms.setter
    def throttle_ms(self, delay_ms: float) -> None:
        self._request.mute(delay_ms)

    @property
    def watcher(self) -> ReplyWatcher | None:
        return None

    @watcher.setter
    def watcher(self, watcher: ReplyWatcher | None) -> None:
        if watcher is not None:
            self._request.watch(watcher)

    @property
    def principal(self) -> Any:  # Any: as in `ReplyPort`
        return self._request.principal

    @principal.setter
    def principal(self, principal: Any) -> None:  # Any: as in `ReplyPort`
        self._request.principal = principal

    @property
    def software(self) -> ClientSoftware:
        return self._request.software

    @software.setter
    def software(self, software: ClientSoftware) -> None:
        self._request.software = software

    def reply(self, parts: Sequence[Part]) -> None:
        self._on_reply(parts)

    def no_reply(self) -> None:
        self._request.no_reply()

    def close_for(self, reason: str) -> None:
        self._request.close_connection(reason)


def size_of(parts: Sequence[Part]) -> int:
    """The bytes of a reply."""
    return sum(len(part) if isinstance(part, BytesLike) else part.size for part in parts)


def joined(parts: Sequence[Part]) -> bytes:
    """A reply as one piece, read from files where it must be."""
    return b"".join(bytes(p) if isinstance(p, BytesLike) else p.read() for p in parts)


class BrokenOff:
    """A part of a reply that cannot be sent: the processor closes the connection there."""

    position = 0
    size = _NEVER_IN_MEMORY

    def fileno(self) -> int:
        raise ConnectionAbortedError("a fault broke off the reply")

    def read(self) -> bytes:
        raise ConnectionAbortedError("a fault broke off the reply")
