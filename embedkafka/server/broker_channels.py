"""Requests from one broker to another: markers of transactions, and questions about them.

Each purpose has channels of its own, for a broker answers a connection's requests one after the
other, and some answers take their time.

Owner: one event loop per target broker owns the connection to it; `_lock` (leaf) guards the map.
Invariants: `on_done` is called once for every request, with None when the broker was not reached.
A connection that was closed while nobody used it is made anew.
Not here: other retries, and what the requests mean; the senders know.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from embedkafka.net.client import BrokerClient, BrokerDisconnected
from embedkafka.net.transport import Transport
from embedkafka.protocol.errors import ProtocolError
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.event_loop import EventLoop
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import BrokerId
from embedkafka.server.metadata_cache import Endpoint, MetadataCache

_TIMEOUT_MS = 10_000

OnDone = Callable[[Any], None]  # Any: the response class follows from the request's, or None


class BrokerChannels:
    """Sends to any broker of the cluster; a thread for each exists after its first request only."""

    def __init__(
        self,
        name: str,
        metadata: MetadataCache,
        listener: str,
        clock: Clock,
        failures: Failures,
        transport: Transport | None = None,
    ) -> None:
        self._name = name
        self._metadata = metadata
        self._listener = listener
        self._clock = clock
        self._failures = failures
        self._transport = transport
        self._lock = threading.Lock()
        self._channels: dict[BrokerId, _Channel] = {}
        self._open = True

    def send(self, broker_id: BrokerId, request: object, version: int, on_done: OnDone) -> None:
        """Sends without waiting; `on_done` is called on any thread."""
        endpoint = self._metadata.snapshot.find_endpoint(broker_id, self._listener)
        if endpoint is None:
            on_done(None)
            return
        channel = self._find_channel(broker_id)
        if channel is None or not channel.send(endpoint, request, version, on_done):
            on_done(None)

    def close(self) -> None:
        with self._lock:
            self._open = False
            channels = list(self._channels.values())
        for channel in channels:
            channel.close()

    def _find_channel(self, broker_id: BrokerId) -> "_Channel | None":
        with self._lock:
            if not self._open:
                return None
            channel = self._channels.get(broker_id)
            if channel is None:
                name = f"{self._name}-{broker_id}"
                channel = _Channel(name, self._clock, self._failures, self._transport)
                self._channels[broker_id] = channel
            return channel


class _Channel:
    """Requests to one broker, one after the other; `_lock` (leaf) guards which client it has."""

    def __init__(
        self, name: str, clock: Clock, failures: Failures, transport: Transport | None
    ) -> None:
        self._name = name
        self._clock = clock
        self._transport = transport
        self._loop: EventLoop[Callable[[], None]] = EventLoop(name, lambda run: run(), failures)
        self._lock = threading.Lock()
        self._client: BrokerClient | None = None
        self._endpoint: Endpoint | None = None
        self._open = True
        self._loop.start()

    def send(self, endpoint: Endpoint, request: object, version: int, on_done: OnDone) -> bool:
        return self._loop.post(partial(self._call, endpoint, request, version, on_done))

    def close(self) -> None:
        """Ends the call in progress; what is queued behind it counts as not reached."""
        with self._lock:
            self._open = False
            client = self._client
        if client is not None:
            client.close()
        self._loop.stop()

    def _call(self, endpoint: Endpoint, request: object, version: int, on_done: OnDone) -> None:
        response, kept = None, self._client
        while (client := self._connect(endpoint)) is not None:
            try:
                response = client.call(request, version)
                break
            except (OSError, ProtocolError) as error:
                client.close()
                # Brokers hang up on whoever was idle for long: a connection that was kept may be
                # such a one, and only its use tells.
                if client is not kept or not isinstance(error, BrokerDisconnected):
                    break
        on_done(response)

    def _connect(self, endpoint: Endpoint) -> BrokerClient | None:
        """The client for that address, a new one where needed; None after `close`."""
        known = self._client
        if known is not None and not known.is_closed and endpoint == self._endpoint:
            return known
        if known is not None:
            known.close()
        with self._lock:
            if not self._open:
                return None
            self._endpoint = endpoint
            self._client = BrokerClient(
                endpoint.host,
                endpoint.port,
                self._clock,
                self._name,
                request_timeout_ms=_TIMEOUT_MS,
                transport=self._transport,
            )
            return self._client
