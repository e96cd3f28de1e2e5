"""One sender per broker: control requests in order, retried until they arrive.

A channel's thread starts with its first request and ends by itself after a second without one,
so that an idle cluster has none. It keeps its connection for the next thread.

Owner: the channel's thread owns its connection; `_condition` guards the queue and the flags.
Invariants: requests reach a broker in the order in which they were queued, each at least once:
one whose answer was lost is sent again, which brokers tell by leader epochs. Requests to a
broker that is gone are dropped with its channel.
Not here: what is sent (`request_batch`), what an answer means (`loop`).
"""

import logging
import threading
from collections import deque
from collections.abc import Callable

from embedkafka.controller.ports import BrokerConnection, Connect
from embedkafka.controller.request_batch import ControlResponse, Outgoing
from embedkafka.protocol.errors import ProtocolError
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.threads import end_thread, start_thread
from embedkafka.zk.payloads import BrokerEndpoint, BrokerInfo

IDLE_MS = 1_000
RETRY_BACKOFF_MS = 100
MAX_QUEUED = 10_000

_LOG = logging.getLogger(__name__)

OnResponse = Callable[[Outgoing, ControlResponse], None]


class BrokerChannels:
    """The channels of one active controller, by broker."""

    def __init__(
        self,
        controller_id: int,
        *,
        connect: Connect,
        listener: str,
        on_response: OnResponse,
        clock: Clock,
        failures: Failures,
    ) -> None:
        self._controller_id = controller_id
        self._connect = connect
        self._listener = listener
        self._on_response = on_response
        self._clock = clock
        self._failures = failures
        self._channels: dict[int, _Channel] = {}
        self._ending: list[_Channel] = []

    def add_broker(self, info: BrokerInfo) -> None:
        if info.id in self._channels:
            return
        self._channels[info.id] = _Channel(
            f"ek-b{self._controller_id}-channel-{info.id}",
            info.endpoint(self._listener),
            self._connect,
            self._on_response,
            self._clock,
            self._failures,
        )

    def remove_broker(self, broker_id: int) -> None:
        """Drops what is queued and ends a call in progress, without waiting for its thread."""
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.end()
            self._ending = [other for other in self._ending if other.is_running]
            self._ending.append(channel)

    def send(self, outgoing: Outgoing) -> None:
        channel = self._channels.get(outgoing.broker)
        if channel is None:
            _LOG.info("Broker %d is offline: not sent: %s", outgoing.broker, outgoing.request)
        else:
            channel.send(outgoing)

    def close(self) -> None:
        """Ends every channel and waits for their threads."""
        for broker_id in list(self._channels):
            self.remove_broker(broker_id)
        for channel in self._ending:
            channel.join()
        self._ending.clear()


class _Channel:
    """The way to one broker."""

    def __init__(
        self,
        name: str,
        endpoint: BrokerEndpoint,
        connect: Connect,
        on_response: OnResponse,
        clock: Clock,
        failures: Failures,
    ) -> None:
        self._name = name
        self._endpoint = endpoint
        self._connect = connect
        self._on_response = on_response
        self._clock = clock
        self._failures = failures
        self._condition = threading.Condition(threading.Lock())
        self._queue: deque[Outgoing] = deque()
        self._open = True
        self._thread: threading.Thread | None = None
        self._connection: BrokerConnection | None = None

    def send(self, outgoing: Outgoing) -> None:
        with self._condition:
            if not self._open:
                return
            if len(self._queue) >= MAX_QUEUED:
                raise RuntimeError(f"{self._name} has {MAX_QUEUED} requests waiting")
            self._queue.append(outgoing)
            if self._thread is None:
                self._thread = start_thread(self._name, self._run, self._failures)
            else:
                self._condition.notify()

    @property
    def is_running(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    def end(self) -> None:
        with self._condition:
            self._open = False
            self._queue.clear()
            connection, self._connection = self._connection, None
            self._condition.notify()
        if connection is not None:
            connection.close()

    def join(self) -> None:
        thread = self._thread
        if thread is not None:
            end_thread(thread, self._failures)

    def _run(self) -> None:
        while (outgoing := self._take()) is not None:
            response = self._call(outgoing)
            if response is not None:
                self._on_response(outgoing, response)

    def _take(self) -> Outgoing | None:
        """The next request; None, and no thread any more, after a while without one."""
        with self._condition:
            in_time, deadline_ms = True, self._clock.monotonic_ms() + IDLE_MS
            while self._open and not self._queue and in_time:
                in_time = self._clock.wait_until(self._condition, deadline_ms)
            if self._open and self._queue:
                return self._queue.popleft()
            self._thread = None
            return None

    def _call(self, outgoing: Outgoing) -> ControlResponse | None:
        """Sends until there is an answer; None when the broker is gone."""
        while True:
            connection = self._require_connection()
            if connection is None:
                return None
            try:
                response: ControlResponse = connection.call(outgoing.request, outgoing.version)
                return response
            except (OSError, ProtocolError) as error:
                _LOG.info("%s reconnects to %s: %r", self._name, self._endpoint, error)
                self._drop(connection)
                if not self._back_off():
                    return None

    def _require_connection(self) -> BrokerConnection | None:
        with self._condition:
            if not self._open:
                return None
            if self._connection is None:
                self._connection = self._connect(self._endpoint)
            return self._connection

    def _drop(self, connection: BrokerConnection) -> None:
        with self._condition:
            if self._connection is connection:
                self._connection = None
        connection.close()

    def _back_off(self) -> bool:
        """Waits a little; False when the channel has ended meanwhile."""
        with self._condition:
            in_time, deadline_ms = True, self._clock.monotonic_ms() + RETRY_BACKOFF_MS
            while self._open and in_time:
                in_time = self._clock.wait_until(self._condition, deadline_ms)
            return self._open
