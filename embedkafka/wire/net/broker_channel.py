"""Requests to one broker, one at a time, on a thread that lives only while there is work.

The thread starts with the first request and ends after a second without one, so that an idle
cluster has none. The channel keeps the connection for the next thread.

Owner: the channel's thread makes the calls; `_condition` guards the queue, the flags and which
connection is current.
Invariants: requests are handled in posting order, and every posted one is handled, even after
`end`, when it finds no connection.
Not here: what a request is, and whether a failed one is sent again. The user's `handle` decides.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.locks import leaf_condition
from embedkafka.runtime.threads import end_thread, start_thread

IDLE_MS: Final = 1_000
MAX_QUEUED: Final = 10_000

E = TypeVar("E")
R = TypeVar("R")


class BrokerConnection(Protocol):
    """One connection to a broker; `net.client.BrokerClient` is one.

    `call` raises `OSError` or `ProtocolError` when the connection is of no more use.
    """

    def call(self, request: Any, version: int) -> Any: ...  # Any: one codec, all messages

    def close(self) -> None: ...


class ChannelFull(RuntimeError):
    """Too many requests wait for the broker."""


class BrokerChannel(Generic[E, R]):
    """Hands requests of type R to `handle`, which calls the broker at an endpoint of type E."""

    def __init__(
        self,
        name: str,
        handle: Callable[["BrokerChannel[E, R]", R], None],
        *,
        connect: Callable[[E], BrokerConnection],
        clock: Clock,
        failures: Failures,
    ) -> None:
        self.name = name
        self._handle = handle
        self._connect = connect
        self._clock = clock
        self._failures = failures
        self._condition = leaf_condition(name)
        self._queue: deque[R] = deque()
        self._open = True
        self._has_worker = False
        self._thread: threading.Thread | None = None
        self._connection: BrokerConnection | None = None
        self._endpoint: E | None = None

    @property
    def pending(self) -> int:
        """How many requests wait."""
        return len(self._queue)

    def post(self, request: R) -> bool:
        """Queues `request`; False after `end`, when it will not be handled."""
        with self._condition:
            if not self._open:
                return False
            if len(self._queue) >= MAX_QUEUED:
                raise ChannelFull(f"{self.name} has {MAX_QUEUED} requests waiting")
            self._queue.append(request)
            if self._has_worker:
                self._condition.notify()
            else:
                self._has_worker = True
                self._thread = start_thread(self.name, self._run, self._failures)
            return True

    def end(self) -> None:
        """Takes no more requests and ends the call in progress, without waiting for the thread."""
        with self._condition:
            self._open = False
            connection, self._connection = self._connection, None
            self._condition.notify()
        if connection is not None:
            connection.close()

    def join(self) -> None:
        """Waits for the thread of a channel that was ended."""
        thread = self._thread
        if thread is not None:
            end_thread(thread, self._failures)

    @property
    def is_running(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    @property
    def kept_connection(self) -> BrokerConnection | None:
        """The connection of an earlier call, which the broker may have closed since."""
        return self._connection

    def connect(self, endpoint: E) -> BrokerConnection | None:
        """The kept connection if it leads to `endpoint`, else a new one; None after `end`."""
        with self._condition:
            if not self._open:
                return None
            stale = None
            if self._connection is None or endpoint != self._endpoint:
                stale, self._connection = self._connection, self._connect(endpoint)
                self._endpoint = endpoint
            connection = self._connection
        if stale is not None:
            stale.close()
        return connection

    def drop(self, connection: BrokerConnection) -> None:
        """Closes a connection whose call failed; the next call makes a new one."""
        with self._condition:
            if self._connection is connection:
                self._connection = None
        connection.close()

    def back_off(self, backoff_ms: float) -> None:
        """Waits before another attempt, unless the channel ends."""
        with self._condition:
            in_time, deadline_ms = True, self._clock.monotonic_ms() + backoff_ms
            while self._open and in_time:
                in_time = self._clock.wait_until(self._condition, deadline_ms)

    def _run(self) -> None:
        while self._await_request():
            request = self._queue.popleft()  # only this thread takes requests
            try:
                self._handle(self, request)
            except Exception as error:  # one bad request must not end the channel; it is recorded
                self._failures.record(f"{self.name} handling {request!r}", error)

    def _await_request(self) -> bool:
        """False, and the thread ends, when none has come for a while or the channel has ended."""
        with self._condition:
            in_time, deadline_ms = True, self._clock.monotonic_ms() + IDLE_MS
            while self._open and not self._queue and in_time:
                in_time = self._clock.wait_until(self._condition, deadline_ms)
            self._has_worker = bool(self._queue)
            return self._has_worker
