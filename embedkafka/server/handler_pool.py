"""Request handler threads, for `num.io.threads` above zero.

Owner: each thread owns the request it took from the channel.
Not here: the inline mode, in which a processor calls the dispatcher itself.
"""

import threading
from collections.abc import Callable

from embedkafka.net.request_channel import Request, RequestChannel
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.threads import start_thread


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

    def start(self) -> None:
        self._threads = [
            start_thread(f"{self._name}-{number}", self._run, self._failures)
            for number in range(self._count)
        ]

    def join(self) -> None:
        """Waits for the threads; closing the channel is what ends them."""
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (request := self._channel.receive()) is not None:
            try:
                self._handle(request)
            except Exception as error:  # one bad request must not end the thread; it is recorded
                self._failures.record(f"{self._name} handling {request.connection_id}", error)
                request.close_connection()
