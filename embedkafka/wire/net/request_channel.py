"""Requests on their way from the processors to the handlers.

Owner: `RequestChannel._condition` (leaf) guards the queue; a `Request` belongs to its handler.
Invariants: at most `capacity` requests queue, and none is added once they hold `max_bytes`; a
processor that found no room is called back once there is some; every request is answered at most
once.
Not here: the handler threads (`broker.handler_pool`), decoding (`broker.dispatch`).
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from embedkafka.runtime.buffers import BytesLike
from embedkafka.runtime.locks import leaf_condition
from embedkafka.wire.protocol.client_software import ClientSoftware
from embedkafka.wire.protocol.wire_types import Part

QUEUED_MAX_REQUESTS = 500

Outline = Sequence[BytesLike | int] | None
"""A reply without its records: of a large part only the size. None if all of it is large."""

_KEPT_BYTES: Final = 16 * 1024
_PLAIN_PARTS: Final = 2


class ReplyPort(Protocol):
    """The connection a request came from, as the request sees it. Callable from any thread."""

    id: str
    listener: str
    is_control_plane: bool
    client_address: str
    throttle_ms: float
    principal: Any  # Any: a `KafkaPrincipal`, of a layer above, or None before authentication
    software: ClientSoftware
    watcher: "ReplyWatcher | None"
    """Watches the next reply."""

    def reply(self, parts: Sequence[Part]) -> None: ...

    def no_reply(self) -> None: ...

    def close_for(self, reason: str) -> None: ...


class ReplyWatcher(Protocol):
    """Hears what becomes of a reply, on the thread that sends it."""

    def taken(self) -> None:
        """The thread that sends has it now."""
        ...

    def sent(self) -> None:
        """The kernel has all of it."""
        ...


class Request:
    """One frame from a client, and the way to answer it.

    The handler answers with `reply`, `no_reply` or `close_connection`: one of them, once, from any
    thread. Until then the processor reads no further request from the connection. Answering a
    client that has left is harmless.
    """

    __slots__ = ("_answered", "_port", "frame", "kept", "received_ms")

    def __init__(self, frame: memoryview, port: ReplyPort, received_ms: float) -> None:
        self.frame = frame
        """The bytes after the length prefix, in a writable buffer of which we are the only user."""
        self.received_ms = received_ms
        """When it was complete, on the clock's monotonic time."""
        self._port = port
        self._answered = False
        self.kept: list[Any] | None = None  # Any: its owner's, who may put other things first
        """A list to which `reply` adds the outline of its answer."""

    def __repr__(self) -> str:
        return f"Request({len(self.frame)} bytes, {self.connection_id})"

    @property
    def connection_id(self) -> str:
        return self._port.id

    @property
    def listener(self) -> str:
        return self._port.listener

    @property
    def is_control_plane(self) -> bool:
        return self._port.is_control_plane

    @property
    def client_address(self) -> str:
        """The client's host, without the port."""
        return self._port.client_address

    @property
    def principal(self) -> Any:  # Any: as in `ReplyPort`
        """The connection's principal, None until authentication sets it."""
        return self._port.principal

    @principal.setter
    def principal(self, principal: Any) -> None:  # Any: as in `ReplyPort`
        self._port.principal = principal

    @property
    def software(self) -> ClientSoftware:
        """What the client runs, as its last ApiVersions request said."""
        return self._port.software

    @software.setter
    def software(self, software: ClientSoftware) -> None:
        self._port.software = software

    def mute(self, delay_ms: float) -> None:
        """Keeps the connection's next request unread for this long after the reply."""
        self._port.throttle_ms = delay_ms

    def watch(self, watcher: ReplyWatcher) -> None:
        """Lets `watcher` hear what becomes of the reply, which comes next."""
        self._port.watcher = watcher

    def reply(self, parts: Sequence[Part]) -> None:
        """Sends `parts` as one frame, with a length prefix.

        A part is bytes-like, or a range of a file (`FileRegion`).
        """
        self._answer()
        if self.kept is not None:
            self.kept.append(outline(parts))
        self._port.reply(parts)

    def no_reply(self) -> None:
        """Completes a request that has no answer (acks=0), so that the next one is read."""
        self._answer()
        self._port.no_reply()

    def close_connection(self, reason: str = "the broker refused the request") -> None:
        """Closes the connection and drops any answer, even one being sent."""
        self._port.close_for(reason)

    def _answer(self) -> None:
        assert not self._answered, f"a request of {self.connection_id} was answered twice"
        self._answered = True


def outline(parts: Sequence[Part]) -> Outline:
    """What is worth keeping of a reply: no files, and no large buffers."""
    if len(parts) == _PLAIN_PARTS and isinstance(body := parts[1], bytes):  # without records
        return parts if len(body) <= _KEPT_BYTES else None  # type: ignore[return-value]  # no file
    return [_small_or_size(part) for part in parts]


def _small_or_size(part: Part) -> BytesLike | int:
    if not isinstance(part, BytesLike):
        return part.size
    return part if len(part) <= _KEPT_BYTES else len(part)


class RequestChannel:
    """A bounded queue of requests: `queued.max.requests` and `queued.max.request.bytes`."""

    def __init__(
        self, capacity: int = QUEUED_MAX_REQUESTS, *, max_bytes: int | None = None
    ) -> None:
        self.capacity = capacity
        self.max_bytes = max_bytes
        self._condition = leaf_condition("request channel")
        self._queue: deque[Request] = deque()
        self._queued_bytes = 0
        self._dismissals = 0
        self._waiting_for_room: dict[Callable[[], None], None] = {}
        self._open = True

    def __len__(self) -> int:
        return len(self._queue)

    def offer(self, request: Request, on_room: Callable[[], None]) -> bool:
        """Queues `request`; False if there is no room, and then `on_room` runs once there is."""
        with self._condition:
            if not self._open:
                return True
            if self._is_full:
                self._waiting_for_room[on_room] = None
                return False
            self._queue.append(request)
            self._queued_bytes += len(request.frame)
            self._condition.notify()
            return True

    @property
    def _is_full(self) -> bool:
        # As in Kafka, the request that exceeds the limit still gets in, as the last one.
        has_bytes = self.max_bytes is None or self._queued_bytes < self.max_bytes
        return len(self._queue) >= self.capacity or not has_bytes

    def dismiss(self) -> None:
        """Makes one `receive` return None, so that its thread ends."""
        with self._condition:
            self._dismissals += 1
            self._condition.notify()

    def receive(self) -> Request | None:
        """Waits for the next request; None means that the thread shall end."""
        with self._condition:
            while self._open and not self._queue and not self._dismissals:
                self._condition.wait()
            if not self._open:
                return None
            if self._dismissals:
                self._dismissals -= 1
                return None
            request = self._queue.popleft()
            self._queued_bytes -= len(request.frame)
            waiting, self._waiting_for_room = self._waiting_for_room, {}
        for on_room in waiting:
            on_room()
        return request

    def close(self) -> None:
        """Ends every `receive` and drops queued requests."""
        with self._condition:
            self._open = False
            self._queue.clear()
            self._queued_bytes = 0
            self._waiting_for_room.clear()
            self._condition.notify_all()
