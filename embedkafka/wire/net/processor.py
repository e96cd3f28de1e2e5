"""A selector thread and the connections it owns: reads requests, delivers them, writes replies.

Owner: the processor's thread owns the selector, its channels and the acceptors it runs. Other
threads reach it through `post`, which queues a function and wakes the selector if it sleeps.
Invariants: a connection has one request in progress at a time (it is muted), so replies keep the
order of requests; a misbehaving client ends its connection, never the thread.
Not here: frames (`connection.py`), the meaning of a request (the handler), handler threads.

A request costs two system calls besides the selector's: one to receive, one to send. We withdraw
interest in a muted connection only when its client sends more, and have interest in writing only
while a reply is partly sent.
"""

import heapq
import itertools
import logging
import selectors
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, Final

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.threads import await_thread, end_thread, start_thread
from embedkafka.wire.net.acceptor import Acceptor
from embedkafka.wire.net.channel import Channel
from embedkafka.wire.net.channel_authenticator import NewAuthenticator, Verdict
from embedkafka.wire.net.connection import CHUNK_BYTES, BadFrame, ForeignProtocol
from embedkafka.wire.net.limits import ConnectionQuota, Limits
from embedkafka.wire.net.request_channel import Request, RequestChannel
from embedkafka.wire.net.time_share import TimeShare
from embedkafka.wire.net.transport import OutOfDescriptors, Stream
from embedkafka.wire.net.waker import Waker
from embedkafka.wire.protocol.wire_types import Part

_LOG = logging.getLogger(__name__)

_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE

# A stopping broker finishes writing replies: at most this many rounds, and only while some client
# takes bytes within this time. It is real time, because the cluster's clock may stand still.
_DRAIN_TURNS: Final = 1000
_LONGEST_WAIT_S: Final = 86_400.0  # selectors take milliseconds as a C int
_DRAIN_TURN_S: Final = 0.1

# No event announces free descriptors, so an acceptor that ran out tries again after this.
_REST_MS: Final = 50.0

# As many new connections as Kafka's processors queue. A busy one leaves the next to the others.
_MOST_ADOPTED: Final = 20

_HINT_INTERVAL_MS: Final = 60_000
_INTRODUCTION_BYTES: Final = 512

Sink = Callable[[Request], None] | RequestChannel


class _Response(partial[None]):
    """A reply of another thread, on its way to the processor."""


class Phase(Enum):
    """How much the thread still does: everything, only finish writing, or nothing."""

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
        authenticators: Mapping[str, NewAuthenticator] | None = None,
    ) -> None:
        """`authenticators` holds those of the listeners that ask clients to authenticate."""
        self.name = name
        self.is_control_plane = is_control_plane
        self._sink = sink
        self._clock = clock
        self._failures = failures
        self._limits = limits
        self._quota = quota
        self._authenticators = authenticators or {}
        self._deliver = self._enqueue if isinstance(sink, RequestChannel) else self._handle
        self._phase = Phase.RUNNING
        self._ended = False
        self._thread: threading.Thread | None = None
        self._thread_id: int | None = None
        self._selector = selectors.DefaultSelector()
        self._waker = Waker()
        self._selecting = False
        self._posted: deque[Callable[[], None]] = deque()
        self._busy: TimeShare | None = None
        self._standing = threading.Event()
        self._resumed = threading.Event()
        self._resumed.set()
        self._acceptors: list[Acceptor] = []
        self._resting: dict[Acceptor, float] = {}
        self._adopted: deque[tuple[Stream, str, int]] = deque()
        self._channels: set[Channel] = set()
        self._serving: Channel | None = None
        self._unread: deque[Channel] = deque()
        self._stalled: deque[Request] = deque()
        self._silent_until_ms: dict[str, float] = {}
        self._delayed: list[tuple[float, int, Callable[[], None]]] = []
        self._delayed_numbers = itertools.count()
        self._idle_check_ms: float | None = None
        self._now_ms = clock.monotonic_ms()
        self._scratch = memoryview(bytearray(CHUNK_BYTES))

    # The life of the thread, controlled by the thread that started it.

    def add_acceptor(self, acceptor: Acceptor) -> None:
        """Runs `acceptor` on this thread; called before `start`."""
        self._acceptors.append(acceptor)

    def start(self) -> None:
        self._thread = start_thread(self.name, self._run, self._failures)

    def pause(self) -> None:
        """Freezes the thread: once this returns, it reads and answers nothing."""
        if not self._resumed.is_set():
            return
        self._standing.clear()
        self._resumed.clear()
        self.post(self._stand_still)
        if self._thread is not None and not self._is_inside and not self._ended:
            await_thread(self._thread, self._standing.wait, self._failures)

    def resume(self) -> None:
        self._resumed.set()

    def stop(self, phase: Phase) -> None:
        """Makes the thread end soon: `STOPPING` finishes writing, `KILLED` resets connections."""
        self._phase = phase
        self._resumed.set()
        self.wake()

    def join(self) -> None:
        """Waits for the thread to end; if it does not, aborts its connections."""
        if self._thread is None:
            self._release()
        elif not end_thread(self._thread, self._failures):
            self.cut_off()

    def cut_off(self) -> None:
        """Ends every connection for its client, even while the thread is busy."""
        for channel in list(self._channels):
            channel.stream.abort()

    # Called from any thread.

    @property
    def has_room(self) -> bool:
        """Whether the next connection should come here; those that its thread accepts should."""
        return self._is_inside or len(self._adopted) < _MOST_ADOPTED

    def adopt(self, stream: Stream, *, listener: str, number: int) -> None:
        """Takes over an admitted connection."""
        self._adopted.append((stream, listener, number))
        if self._is_inside:
            self._open_adopted()
        elif self._ended:
            self._refuse_adopted()
        else:
            self.post(self._open_adopted)

    def reply(self, channel: Channel, parts: Sequence[Part]) -> None:
        if self._is_inside:
            self._guard(channel, self._send, parts)
        else:
            self.post(_Response(self._guard, channel, self._send, parts))

    def no_reply(self, channel: Channel) -> None:
        if self._is_inside:
            self._guard(channel, self._unmute)
        else:
            self.post(partial(self._guard, channel, self._unmute))

    def close_for(self, channel: Channel, reason: str) -> None:
        if self._is_inside:
            self._close(channel, reason, logging.WARNING)
        else:
            self.post(partial(self._close, channel, reason, logging.WARNING))

    def post(self, action: Callable[[], None]) -> None:
        """Runs `action` soon on the processor's thread, unless that has ended."""
        if self._ended:
            return
        self._posted.append(action)
        if self._selecting:
            self._selecting = False
            self._waker.wake()

    def channels(self) -> list[Channel]:
        """The connections that are open; those of clients that have just left may be among them."""
        return list(self._channels)

    def measure(self, *, on: bool) -> None:
        """Starts to measure how much time the thread has to spare, or ends it."""
        self._busy = TimeShare(self._clock.monotonic_ms()) if on else None

    @property
    def idle_share(self) -> float:
        """The part of the time, while that is measured, in which it only waited."""
        busy = self._busy
        return 1.0 if busy is None else 1.0 - busy.share(self._clock.monotonic_ms())

    @property
    def response_count(self) -> int:
        """How many replies of other threads wait for this one."""
        return sum(isinstance(action, _Response) for action in self._posted.copy())

    def close_excess(self) -> None:
        """Closes the longest unused connections while the broker is over its limit."""
        self.post(self._close_excess)

    def close_clients(self, which: Callable[[Any], bool], reason: str) -> None:
        """Closes the connections whose principal is one of `which`; Any: as in `ReplyPort`."""
        self.post(partial(self._close_clients, which, reason))

    def wake(self) -> None:
        """Makes the thread look at the clock again."""
        self.post(_nothing)

    # Everything below runs on the processor's thread.

    @property
    def _is_inside(self) -> bool:
        return threading.get_ident() == self._thread_id

    def _run(self) -> None:
        self._thread_id = threading.get_ident()
        try:
            self._selector.register(self._waker, _READ, self._on_wake)
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
        while self._delayed and self._delayed[0][0] <= self._now_ms:
            heapq.heappop(self._delayed)[-1]()
        while self._unread and self._phase is Phase.RUNNING:
            self._guard(self._unread.popleft(), self._serve_buffered)
        if self._idle_check_ms is not None and self._now_ms >= self._idle_check_ms:
            self._close_idle()
        if self._resting:
            self._accept_again()

    def _select(self, timeout_s: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._busy is not None:
            self._busy.end(self._clock.monotonic_ms())
        self._selecting = True
        if self._posted:  # posted before the flag was set, so without a wake-up
            timeout_s = 0
        events = self._selector.select(timeout_s)
        self._selecting = False
        self._now_ms = self._clock.monotonic_ms()
        if self._busy is not None:
            self._busy.begin(self._now_ms)
        return events

    def _timeout_s(self) -> float | None:
        due_ms = self._idle_check_ms
        if self._resting or self._delayed:
            known = [] if due_ms is None else [due_ms]
            due_ms = min(
                [*self._resting.values(), *(item[0] for item in self._delayed[:1]), *known]
            )
        if due_ms is None:
            return None
        wait_s = max(0.0, due_ms - self._clock.monotonic_ms()) / 1000
        return min(wait_s, _LONGEST_WAIT_S)

    def _after(self, delay_ms: float, channel: Channel, action: Callable[..., None]) -> None:
        """Runs `action` for the channel when the clock has moved on, if it is still open."""
        self._later(delay_ms, partial(self._guard, channel, action))

    def _later(self, delay_ms: float, run: Callable[[], None]) -> None:
        due_ms, number = self._now_ms + delay_ms, next(self._delayed_numbers)
        heapq.heappush(self._delayed, (due_ms, number, run))

    def _on_wake(self, mask: int) -> None:
        self._waker.drain()

    def _run_posted(self) -> None:
        while self._posted and self._phase is not Phase.KILLED:
            action = self._posted.popleft()
            try:
                action()
            except Exception as error:  # the thread serves other clients; the failure is recorded
                self._failures.record(f"{self.name} running {action}", error)

    def _stand_still(self) -> None:
        self._standing.set()
        self._resumed.wait()

    # Opening and closing connections.

    def _watch(self, acceptor: Acceptor) -> None:
        acceptor.blocked.end(self._now_ms)
        self._selector.register(acceptor.listener, _READ, partial(self._on_acceptable, acceptor))

    def _watch_again(self, acceptor: Acceptor) -> None:
        if self._phase is Phase.RUNNING:
            self._watch(acceptor)

    def _accept_again(self) -> None:
        for acceptor, at_ms in list(self._resting.items()):
            if at_ms <= self._now_ms:
                del self._resting[acceptor]
                self._watch(acceptor)

    def _on_acceptable(self, acceptor: Acceptor, mask: int) -> None:
        try:
            pause_ms = acceptor.accept(
                self._now_ms, partial(self.post, partial(self._watch_again, acceptor)), self._later
            )
        except OutOfDescriptors as error:
            _LOG.warning("%s leaves connections waiting: %s", acceptor.name, error)
            pause_ms = _REST_MS
        except Exception as error:  # the thread serves other clients; the failure is recorded
            self._failures.record(f"{self.name} accepting on {acceptor.name}", error)
            return
        if pause_ms is None or pause_ms > 0:
            acceptor.blocked.begin(self._now_ms)
            self._selector.unregister(acceptor.listener)
        if pause_ms:
            self._resting[acceptor] = self._now_ms + pause_ms

    def _open_adopted(self) -> None:
        max_idle_ms = self._limits.connections_max_idle_ms
        while self._adopted:
            stream, listener, number = self._adopted.popleft()
            new_authenticator = self._authenticators.get(listener)
            channel = Channel(
                self,
                stream,
                listener,
                number,
                max_request_bytes=self._limits.socket_request_max_bytes,
                now_ms=self._now_ms,
                authenticator=None if new_authenticator is None else new_authenticator(stream),
            )
            self._channels.add(channel)
            self._set_interest(channel, _READ)
            if self._idle_check_ms is None and max_idle_ms is not None:
                self._idle_check_ms = self._now_ms + max_idle_ms

    def _refuse_adopted(self) -> None:
        while self._adopted:
            stream, listener, _ = self._adopted.popleft()
            self._quota.release(stream.peer_host, listener)
            stream.reset()

    def _close(self, channel: Channel, reason: str, level: int) -> None:
        if not channel.closed:
            _LOG.log(level, "%s closes the connection of %s: %s", self.name, channel.peer, reason)
            self._forget(channel)
            channel.stream.close()

    def _forget(self, channel: Channel) -> None:
        self._set_interest(channel, 0)
        channel.closed = True
        channel.forget_reply()
        self._channels.discard(channel)
        self._quota.release(channel.client_address, channel.listener)

    def _close_excess(self) -> None:
        limited = [one for one in self._channels if not self._quota.spares(one.listener)]
        for unused in sorted(limited, key=lambda channel: channel.last_active_ms):
            if not self._quota.has_excess:
                break
            self._close(unused, "the broker has too many", logging.INFO)

    def _close_clients(self, which: Callable[[Any], bool], reason: str) -> None:
        for channel in [one for one in self._channels if which(one.principal)]:
            self._close(channel, reason, logging.INFO)

    def _close_idle(self) -> None:
        """Closes connections idle for `max_idle_ms`, and notes when to look again."""
        max_idle_ms = self._limits.connections_max_idle_ms
        assert max_idle_ms is not None, "without a limit no check is due"
        oldest_ms: float | None = None
        for channel in list(self._channels):
            # A client that waits for an answer, say in a rebalance, is not idle.
            active_ms = self._now_ms if channel.awaits_reply else channel.last_active_ms
            if active_ms + max_idle_ms <= self._now_ms:
                self._close(channel, f"idle for {max_idle_ms} ms", logging.INFO)
            elif oldest_ms is None or active_ms < oldest_ms:
                oldest_ms = active_ms
        self._idle_check_ms = None if oldest_ms is None else oldest_ms + max_idle_ms

    def _set_interest(self, channel: Channel, events: int) -> None:
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

    def _on_event(self, channel: Channel, mask: int) -> None:
        if mask & _WRITE:
            self._guard(channel, self._write)
        elif channel.is_refused:
            self._guard(channel, Channel.discard, self._scratch)
        elif channel.muted:
            if not channel.closed:
                self._set_interest(channel, channel.interest & ~_READ)
        else:
            self._guard(channel, self._read)

    def _guard(self, channel: Channel, action: Callable[..., None], *arguments: object) -> None:
        """Runs `action` for an open channel; an error ends only this connection."""
        if channel.closed:
            return
        try:
            action(channel, *arguments)
        except EOFError as error:
            self._close(channel, str(error), logging.DEBUG)
        except BadFrame as error:
            self._on_bad_frame(channel, error)
        except OSError as error:
            self._close(channel, str(error), logging.INFO)
        except Exception as error:  # our bug, recorded; only this client suffers
            self._failures.record(f"{self.name} serving {channel.peer}", error)
            self._close(channel, repr(error), logging.ERROR)

    def _on_bad_frame(self, channel: Channel, error: BadFrame) -> None:
        is_known = isinstance(error, ForeignProtocol)
        level = self._level_of(str(error)) if is_known else logging.WARNING
        authenticator = channel.authenticator
        if error.has_bad_size and authenticator is not None and channel.principal is None:
            delay_ms = authenticator.failure_delay_ms
            self._hold(delay_ms, channel, lambda held: self._close(held, str(error), level))
        else:
            self._close(channel, str(error), level)

    def _hold(self, delay_ms: float, channel: Channel, end: Callable[[Channel], None]) -> None:
        """Ends a refused connection after a delay, or earlier if the client leaves."""
        channel.muted = channel.is_refused = True
        self._set_interest(channel, _READ)
        self._after(delay_ms, channel, end)

    def _level_of(self, hint: str) -> int:
        """A misconfigured client reconnects many times a second; warn once a minute."""
        if self._now_ms < self._silent_until_ms.get(hint, self._now_ms):
            return logging.DEBUG
        self._silent_until_ms[hint] = self._now_ms + _HINT_INTERVAL_MS
        return logging.WARNING

    def _read(self, channel: Channel) -> None:
        frame = channel.receive(self._scratch)
        channel.last_active_ms = self._now_ms
        if frame is not None:
            self._serve(channel, frame)
        elif channel.stream.holds_output:  # of a handshake
            self._set_interest(channel, _WRITE)

    def _serve_buffered(self, channel: Channel) -> None:
        self._serve(channel, channel.next_frame(self._scratch))

    def _serve(self, channel: Channel, frame: memoryview | None) -> None:
        """Delivers `frame` and the frames buffered behind it, until one awaits its answer."""
        self._serving = channel
        if channel.introduction is None and frame is not None:
            channel.introduction = bytes(frame[:_INTRODUCTION_BYTES])
        try:
            while frame is not None:
                channel.muted = True
                if channel.authenticator is None or self._may_pass(channel, frame):
                    self._deliver(Request(frame, channel, self._now_ms))
                frame = (
                    None if channel.muted or channel.closed else channel.next_frame(self._scratch)
                )
        finally:
            self._serving = None
        if not channel.muted and not channel.closed:
            self._set_interest(channel, _READ)

    def _may_pass(self, channel: Channel, frame: memoryview) -> bool:
        """Shows a frame to the connection's authenticator; False if that has answered it."""
        authenticator = channel.authenticator
        assert authenticator is not None
        verdict = authenticator.receive(frame, self._now_ms)
        channel.principal = authenticator.principal
        if channel.principal is not None:
            channel.reader.max_bytes = self._limits.socket_request_max_bytes
        if authenticator.is_settled:
            channel.authenticator = None
        if verdict is None:
            return True
        if verdict.failure is not None:
            self._hold(verdict.delay_ms, channel, partial(self._refuse, verdict))
        elif verdict.reply is None:
            self._unmute(channel)
        else:
            self._send(channel, verdict.reply)
        return False

    def _refuse(self, verdict: Verdict, channel: Channel) -> None:
        """Ends the connection of a client that failed to authenticate."""
        if verdict.reply is not None:
            channel.queue(verdict.reply)
            channel.write()
        self._close(channel, str(verdict.failure), logging.INFO)

    def _handle(self, request: Request) -> None:
        assert not isinstance(self._sink, RequestChannel)
        try:
            self._sink(request)
        except Exception as error:  # the handler's bug, recorded; only this client suffers
            self._failures.record(f"{self.name} handling {request}", error)
            request.close_connection(f"its request failed: {error!r}")

    def _enqueue(self, request: Request) -> None:
        assert isinstance(self._sink, RequestChannel)
        if not self._sink.offer(request, self._on_room):
            self._stalled.append(request)

    def _on_room(self) -> None:
        self.post(self._deliver_stalled)

    def _deliver_stalled(self) -> None:
        for _ in range(len(self._stalled)):
            self._deliver(self._stalled.popleft())

    def _send(self, channel: Channel, parts: Sequence[Part]) -> None:
        if channel.watcher is not None:
            channel.watcher.taken()
        channel.queue(parts)
        self._write(channel)

    def _write(self, channel: Channel) -> None:
        """Writes as much as the socket takes; after all of it, reads the next request."""
        channel.last_active_ms = self._now_ms
        if channel.write():
            if channel.watcher is not None:
                watcher, channel.watcher = channel.watcher, None
                watcher.sent()
            self._unmute(channel)
        else:
            self._set_interest(channel, _WRITE)

    def _unmute(self, channel: Channel) -> None:
        if channel.throttle_ms:
            delay_ms, channel.throttle_ms = channel.throttle_ms, 0.0
            self._after(delay_ms, channel, self._unmute)
            return
        channel.muted = False
        if channel is self._serving:
            return  # `_serve` continues with the next frame
        if channel.has_more:
            self._unread.append(channel)
        else:
            self._set_interest(channel, _READ)

    # The end.

    def _drain(self) -> None:
        """Waits briefly for clients to take the rest of partly written replies."""
        self._run_posted()
        self._selector.unregister(self._waker)
        self._close_acceptors()
        for _ in range(_DRAIN_TURNS):
            for channel in [channel for channel in self._channels if not channel.is_writing]:
                self._close(channel, "the broker stops", logging.DEBUG)
            if not self._channels:
                return
            events = self._select(_DRAIN_TURN_S)
            if not events:
                return
            for key, mask in events:
                key.data(mask)

    def _close_acceptors(self) -> None:
        watched = self._selector.get_map()
        while self._acceptors:
            acceptor = self._acceptors.pop()
            acceptor.close_held()
            listener = acceptor.listener
            if listener in watched:
                self._selector.unregister(listener)
            listener.close()

    def _release(self) -> None:
        """Closes every descriptor; resets the open connections."""
        self._ended = True
        self._standing.set()
        self._close_acceptors()
        for channel in list(self._channels):
            self._forget(channel)
            channel.stream.reset()
        self._refuse_adopted()
        self._selector.close()
        self._waker.close()
        self._posted.clear()


def _nothing() -> None:
    """Posted to wake the thread."""
