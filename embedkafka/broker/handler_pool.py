"""Request handler threads, for `num.io.threads` above zero.

Owner: each thread owns the request it took from the channel.
Not here: the inline mode, in which a processor calls the dispatcher itself.
"""

import threading
from collections.abc import Callable

from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.threads import end_thread, start_thread
from embedkafka.wire.net.processor import Sink
from embedkafka.wire.net.request_channel import Request, RequestChannel
from embedkafka.wire.net.time_share import TimeShare


class HandlerPool:
    """`count` threads that take requests from `channel` and hand them to `handle`."""

    def __init__(
        self,
        name: str,
        count: int,
        channel: RequestChannel,
        handle: Callable[[Request], None],
        clock: Clock,
        failures: Failures,
    ) -> None:
        self._name = name
        self._count = count
        self._channel = channel
        self._handle = handle
        self._clock = clock
        self._failures = failures
        self._threads: list[threading.Thread] = []
        self._busy: dict[int, TimeShare] | None = None
        self._measured_since_ms = 0.0

    @property
    def count(self) -> int:
        return self._count

    @property
    def sink(self) -> Sink:
        """Where processors put requests: the queue, or without threads the handler itself."""
        return self._channel if self._count else self._handle

    @property
    def queue_size(self) -> int:
        """How many requests wait for a thread."""
        return len(self._channel)

    def measure(self, *, on: bool) -> None:
        """Starts to measure how much time the threads have to spare, or ends it."""
        self._measured_since_ms = self._clock.monotonic_ms()
        self._busy = {} if on else None

    @property
    def idle_share(self) -> float:
        """The part of the time, while that is measured, in which the threads only waited."""
        busy, now_ms = self._busy, self._clock.monotonic_ms()
        if not busy or not self._count:
            return 1.0
        worked = sum(each.share(now_ms) for each in busy.copy().values())
        return max(0.0, 1.0 - worked / self._count)

    def start(self) -> None:
        self._add_threads(self._count)

    def resize(self, count: int) -> None:
        """Changes the number of threads; a busy one ends after its request."""
        before, self._count = self._count, count
        if self._threads:
            self._add_threads(count - before)
            for _ in range(count, before):
                self._channel.dismiss()

    def _add_threads(self, count: int) -> None:
        for _ in range(count):
            name = f"{self._name}-{len(self._threads)}"
            self._threads.append(start_thread(name, self._run, self._failures))

    def close(self) -> None:
        """Closes the channel, and waits for the threads, which that ends."""
        self._channel.close()
        for thread in self._threads:
            end_thread(thread, self._failures)

    def _run(self) -> None:
        while (request := self._channel.receive()) is not None:
            busy = self._find_busy()
            if busy is not None:
                busy.begin(self._clock.monotonic_ms())
            try:
                self._handle(request)
            except Exception as error:  # one bad request must not end the thread; it is recorded
                self._failures.record(f"{self._name} handling {request.connection_id}", error)
                request.close_connection()
            if busy is not None:
                busy.end(self._clock.monotonic_ms())

    def _find_busy(self) -> TimeShare | None:
        """The time of the calling thread, while it is measured."""
        busy = self._busy
        if busy is None:
            return None
        return busy.setdefault(threading.get_ident(), TimeShare(self._measured_since_ms))
