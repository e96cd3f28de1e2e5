"""A selector thread and the connections it owns: reads requests, delivers them, writes replies.

Owner: the processor's thread owns the selector, every `_Channel` and the acceptors it runs. Other
threads reach it through `post`, which queues a function and wakes the selector if it sleeps.
Invariants: one request of a connection is in progress at a time (the connection is muted), so
replies keep the order of requests; what a client does ends its own connection, never the thread.
Not here: frames (`connection.py`), what a request means (the handler), handler threads.

A request costs two system calls besides the selector's: one to receive, one to send. Interest in a
muted connection is withdrawn only if the client in fact sends more, and interest in writing exists
only while a reply is partly sent.
"""

import logging
import selectors
import threading
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial
from typing import Final

from embedkafka.net.acceptor import Acceptor
from embedkafka.net.connection import CHUNK_BYTES, BadFrame, FrameReader, FrameWriter, Gather
from embedkafka.net.limits import ConnectionQuota, Limits
from embedkafka.net.request_channel import Request, RequestChannel
from embedkafka.net.transport import Stream
from embedkafka.net.waker import Waker
from embedkafka.protocol.wire_types import Part
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.threads import start_thread

_LOG = logging.getLogger(__name__)

_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE
ANONYMOUS: Final = "User:ANONYMOUS"

# A stopping broker waits for clients to take what is written: so many turns, none longer than this.
_DRAIN_TURNS: Final = 20
_DRAIN_TURN_S: Final = 0.05

Sink = Callable[[Request], None] | RequestChannel


class Phase(Enum):
    """What the thread does: `STOPPING` only writes, `KILLED` nothing more."""

    RUNNING = auto()
    STOPPING = auto()
    KILLED = auto()


class Processor:
    """Serves connections on the thread `name`; requests go to `sink`: a function, or a queue."""

    def __init__(
        self,
        name: str,
        sink: Sink,
        clock: Clock,
        failures: Failures,
        limits: Limits,
        quota: ConnectionQuota,
        *,
        is_control_plane: bool = False,
    ) -> None:
        self.name = name
        self.is_control_plane = is_control_plane
        self._deliver = self._delivery(sink)
        self._clock = clock
        self._failures = failures
        self._limits = limits
        self._quota = quota
        self._phase = Phase.RUNNING
        self._thread: threading.Thread | None = None
        self._thread_id: int | None = None
        self._selector = selectors.DefaultSelector()
        self._waker = Waker()
        self._selecting = False
        self._posted: deque[Callable[[], None]] = deque()
        self._resumed = threading.Event()
        self._resumed.set()
        self._acceptors: list[Acceptor] = []
        self._channels: set[_Channel] = set()
        self._serving: _Channel | None = None
        self._unread: deque[_Channel] = deque()
        self._stalled: deque[Request] = deque()
        self._idle_check_ms: float | None = None
        self._now_ms = clock.monotonic_ms()
        self._scratch = memoryview(bytearray(CHUNK_BYTES))

    # Called from any thread.

    def start(self) -> None:
        self._thread = start_thread(self.name, self._run, self._failures)

    def add_acceptor(self, acceptor: Acceptor) -> None:
        """Runs `acceptor` on this thread; before `start`."""
        self._acceptors.append(acceptor)

    def adopt(self, stream: Stream, *, listener: str, number: int) -> None:
        """Takes over a connection that the quota has admitted."""
        self._run_inside(partial(self._open, stream, listener, number))

    def post(self, action: Callable[[], None]) -> None:
        """Runs `action` on the processor's thread, soon."""
        self._posted.append(action)
        if self._selecting:
            self._selecting = False
            self._waker.wake()

    def wake(self) -> None:
        """Makes the thread look at the clock again."""
        self.post(_nothing)

    def pause(self) -> None:
        """Stands still from the moment this returns: nothing is read, nothing is answered."""
        standing = threading.Event()
        self._resumed.clear()
        self.post(partial(self._stand_still, standing))
        if not self._is_inside():
            standing.wait()

    def resume(self) -> None:
        self._resumed.set()

    def stop(self, phase: Phase) -> None:
        """Ends the thread: `STOPPING` writes what is ready to be written, `KILLED` does not."""
        self._phase = phase
        self._resumed.set()
        self.wake()

    def join(self) -> None:
        """Waits for the thread to end, unless the caller is that thread."""
        if self._thread is None:
            self._release()
        elif not self._is_inside():
            self._thread.join()

    def reply(self, channel: "_Channel", parts: Sequence[Part]) -> None:
        self._run_inside(partial(self._guard, channel, partial(self._send, channel, parts)))

    def no_reply(self, channel: "_Channel") -> None:
        self._run_inside(partial(self._guard, channel, partial(self._unmute, channel)))

    def close_for(self, channel: "_Channel", reason: str) -> None:
        self._run_inside(partial(self._close, channel, reason, level=logging.WARNING))

    # Everything below runs on the processor's thread.

    def _is_inside(self) -> bool:
        return threading.get_ident() == self._thread_id

    def _run_inside(self, action: Callable[[], None]) -> None:
        if self._is_inside():
            action()
        else:
            self.post(action)

    def _run(self) -> None:
        self._thread_id = threading.get_ident()
        try:
            self._selector.register(self._waker.fileno(), _READ, self._on_wake)
            for acceptor in self._acceptors:
                self._watch(acceptor)
            while self._phase is Phase.RUNNING:
                self._turn()
            if self._phase is Phase.STOPPING:
                self._drain()
        finally:
            self._release()

    def _turn(self) -> None:
        for key, mask in self._select(self._timeout_s()):
            key.data(mask)
        self._run_posted()
        while self._unread:
            channel = self._unread.popleft()
            self._guard(channel, partial(self._serve, channel, None))
        if self._idle_check_ms is not None and self._now_ms >= self._idle_check_ms:
            self._close_idle()

    def _select(self, timeout_s: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        self._selecting = True
        if self._posted:  # posted before the flag was up, so nobody will wake the selector
            timeout_s = 0
        events = self._selector.select(timeout_s)
        self._selecting = False
        self._now_ms = self._clock.monotonic_ms()
        return events

    def _timeout_s(self) -> float | None:
        if self._idle_check_ms is None:
            return None
        return max(0.0, self._idle_check_ms - self._now_ms) / 1000

    def _on_wake(self, mask: int) -> None:
        self._waker.drain()

    def _run_posted(self) -> None:
        while self._posted:
            action = self._posted.popleft()
            try:
                action()
            except Exception as error:  # the thread serves others, too; the failure is recorded
                self._failures.record(f"{self.name} running {action}", error)

    def _stand_still(self, standing: threading.Event) -> None:
        standing.set()
        self._resumed.wait()

    # Connections come and go.

    def _watch(self, acceptor: Acceptor) -> None:
        self._selector.register(acceptor.listener, _READ, partial(self._on_acceptable, acceptor))

    def _on_acceptable(self, acceptor: Acceptor, mask: int) -> None:
        if not acceptor.accept(partial(self.post, partial(self._watch_again, acceptor))):
            self._selector.unregister(acceptor.listener)

    def _watch_again(self, acceptor: Acceptor) -> None:
        if self._phase is Phase.RUNNING:
            self._watch(acceptor)

    def _open(self, stream: Stream, listener: str, number: int) -> None:
        channel = _Channel(self, stream, listener, number, self._limits.max_request_bytes)
        self._channels.add(channel)
        channel.last_active_ms = self._now_ms
        self._set_interest(channel, _READ)
        if self._idle_check_ms is None and self._limits.max_idle_ms is not None:
            self._idle_check_ms = self._now_ms + self._limits.max_idle_ms

    def _close(self, channel: "_Channel", reason: str, *, level: int = logging.DEBUG) -> None:
        if channel.closed:
            return
        _LOG.log(level, "%s closes the connection of %s: %s", self.name, channel.peer, reason)
        self._drop(channel)
        channel.stream.close()

    def _drop(self, channel: "_Channel") -> None:
        """Forgets a connection, except for closing its stream."""
        channel.closed = True
        self._set_interest(channel, 0)
        channel.writer.clear()
        self._channels.discard(channel)
        self._quota.release(channel.client_address)

    def _close_idle(self) -> None:
        """Closes connections without a request for `max_idle_ms`; the next check is the soonest."""
        max_idle_ms = self._limits.max_idle_ms
        assert max_idle_ms is not None, "without a limit no check is due"
        oldest_ms: float | None = None
        for channel in list(self._channels):
            # A muted client waits for us (say, in a rebalance): that is not being idle.
            active_ms = self._now_ms if channel.muted else channel.last_active_ms
            if active_ms + max_idle_ms <= self._now_ms:
                self._close(channel, f"idle for {max_idle_ms} ms", level=logging.INFO)
            elif oldest_ms is None or active_ms < oldest_ms:
                oldest_ms = active_ms
        self._idle_check_ms = None if oldest_ms is None else oldest_ms + max_idle_ms

    def _set_interest(self, channel: "_Channel", events: int) -> None:
        if events == channel.interest:
            return
        if not channel.interest:
            self._selector.register(channel.stream, events, partial(self._on_event, channel))
        elif not events:
            self._selector.unregister(channel.stream)
        else:
            self._selector.modify(channel.stream, events, partial(self._on_event, channel))
        channel.interest = events

    # Requests and replies.

    def _on_event(self, channel: "_Channel", mask: int) -> None:
        if channel.closed:  # by an earlier event of the same turn
            return
        if mask & _WRITE:
            self._guard(channel, partial(self._write_on, channel))
        elif channel.muted:
            self._set_interest(channel, channel.interest & ~_READ)
        else:
            self._guard(channel, partial(self._read, channel))

    def _guard(self, channel: "_Channel", action: Callable[[], None]) -> None:
        """Runs `action`; what goes wrong with a connection ends that connection."""
        if channel.closed:
            return
        try:
            action()
        except BadFrame as error:
            self._close(channel, str(error), level=logging.WARNING)
        except OSError as error:
            self._close(channel, f"{error}", level=logging.INFO)
        except Exception as error:  # our bug, but it costs this client only; it is recorded
            self._failures.record(f"{self.name} serving {channel.peer}", error)
            self._close(channel, f"{error!r}", level=logging.ERROR)

    def _read(self, channel: "_Channel") -> None:
        target = channel.reader.target()
        buffer = self._scratch if target is None else target
        try:
            count = channel.stream.recv_into(buffer)
        except BlockingIOError:
            return
        if count == 0:
            self._close_ended(channel)
            return
        channel.last_active_ms = self._now_ms
        if target is None:
            frame = channel.reader.feed(buffer[:count])
        else:
            frame = channel.reader.filled(count)
        if frame is not None:
            self._serve(channel, frame)

    def _close_ended(self, channel: "_Channel") -> None:
        if channel.reader.in_frame:
            self._close(channel, "it ended in the middle of a request", level=logging.WARNING)
        else:
            self._close(channel, "it ended")

    def _serve(self, channel: "_Channel", frame: memoryview | None) -> None:
        """Delivers `frame` and what is buffered behind it, until a request stays unanswered."""
        if frame is None:
            frame = channel.reader.next_frame()
        self._serving = channel
        try:
            while frame is not None:
                channel.muted = True
                self._deliver(Request(frame, channel, self._now_ms))
                frame = None if channel.muted or channel.closed else channel.reader.next_frame()
        finally:
            self._serving = None
        if not channel.muted and not channel.closed:
            self._set_interest(channel, _READ)

    def _delivery(self, sink: Sink) -> Callable[[Request], None]:
        if not isinstance(sink, RequestChannel):
            return sink

        def enqueue(request: Request) -> None:
            if not sink.offer(request, self._on_room):
                self._stalled.append(request)

        return enqueue

    def _on_room(self) -> None:
        self.post(self._deliver_stalled)

    def _deliver_stalled(self) -> None:
        for _ in range(len(self._stalled)):
            self._deliver(self._stalled.popleft())

    def _send(self, channel: "_Channel", parts: Sequence[Part]) -> None:
        channel.writer.add(parts)
        self._write_on(channel)

    def _write_on(self, channel: "_Channel") -> None:
        """Writes what the socket takes; when that was all, the next request may be read."""
        writer, stream = channel.writer, channel.stream
        while writer:
            piece = writer.next()
            try:
                if isinstance(piece, Gather):
                    count = stream.send(piece.buffers, more=piece.more)
                else:
                    count = stream.send_file(
                        piece.region.fileno(), position=piece.position, count=piece.count
                    )
                    if count == 0:
                        raise OSError(f"the file ends {piece.count} bytes early")
            except BlockingIOError:
                self._set_interest(channel, channel.interest | _WRITE)
                return
            writer.sent(count)
        self._unmute(channel)

    def _unmute(self, channel: "_Channel") -> None:
        channel.muted = False
        channel.last_active_ms = self._now_ms
        if channel is self._serving:
            return  # `_serve` goes on with the next frame
        if channel.reader.in_frame:
            self._unread.append(channel)
        else:
            self._set_interest(channel, _READ)

    # The end.

    def _drain(self) -> None:
        """Lets clients take the rest of replies that are partly written, for a short while."""
        for acceptor in self._acceptors:
            acceptor.listener.abort()
        self._run_posted()
        for _ in range(_DRAIN_TURNS):
            for channel in [channel for channel in self._channels if not channel.writer]:
                self._close(channel, "the broker stops")
            if not self._channels:
                return
            for key, mask in self._select(_DRAIN_TURN_S):
                if mask & _WRITE or key.data == self._on_wake:
                    key.data(mask)

    def _release(self) -> None:
        """Closes every descriptor; connections break off."""
        for acceptor in self._acceptors:
            acceptor.listener.close()
        for channel in list(self._channels):
            self._drop(channel)
            channel.stream.reset()
        self._phase = Phase.KILLED
        self._selector.close()
        self._waker.close()
        self._posted.clear()


class _Channel:
    """One connection: its stream, its frames, and whether it waits for us."""

    __slots__ = (
        "client_address",
        "closed",
        "id",
        "interest",
        "is_control_plane",
        "last_active_ms",
        "listener",
        "muted",
        "peer",
        "principal",
        "processor",
        "reader",
        "stream",
        "writer",
    )

    def __init__(
        self,
        processor: Processor,
        stream: Stream,
        listener: str,
        number: int,
        max_request_bytes: int,
    ) -> None:
        self.processor = processor
        self.stream = stream
        self.id = f"{stream.local}-{stream.peer}-{number}"
        self.peer = stream.peer
        self.client_address = stream.peer_host
        self.listener = listener
        self.is_control_plane = processor.is_control_plane
        self.principal = ANONYMOUS
        self.reader = FrameReader(max_request_bytes)
        self.writer = FrameWriter()
        self.muted = False
        self.closed = False
        self.interest = 0
        self.last_active_ms = 0.0

    def reply(self, parts: Sequence[Part]) -> None:
        self.processor.reply(self, parts)

    def no_reply(self) -> None:
        self.processor.no_reply(self)

    def close_for(self, reason: str) -> None:
        self.processor.close_for(self, reason)


def _nothing() -> None:
    """Posted to wake the thread."""
