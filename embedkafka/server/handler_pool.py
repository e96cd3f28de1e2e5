"""Request handler threads, for `num.io.threads` above zero.

Owner: each thread owns the request it took from the channel.
Not here: the inline mode, in which a processor calls the dispatcher itself.
"""

import threading
from collections.abc import Callable

from embedkafka.net.processor import Sink
from embedkafka.net.request_channel import Request, RequestChannel
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.threads import end_thread, start_thread


class HandlerPool:
    """`count` threads that take requests from `channel` and hand them to `handle`."""

    def __init__(
        self,
        name: str,
        count: int,
        channel: RequestChannel,
        handle: Callable[[Request], None],
        failures: Failures,
    ) -> None:
        self._name = name
        self._count = count
        self._channel = channel
        self._handle = handle
        self._failures = failures
        self._threads: list[threading.Thread] = []

    @property
    def count(self) -> int:
        return self._count

    @property
    def sink(self) -> Sink:
        """Where processors put requests: the queue, or without threads the handler itself."""
        return self._channel if self._count else self._handle

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
            try:
                self._handle(request)
            except Exception as error:  # one bad request must not end the thread; it is recorded
                self._failures.record(f"{self._name} handling {request.connection_id}", error)
                request.close_connection()
