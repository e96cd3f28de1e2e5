"""Brings transaction markers to the leaders of partitions (`txn.ports.MarkerSender`).

Owner: one event loop per target broker owns the connection to it; `_lock` (leaf) guards the map.
Invariants: `on_done` is called once for every request, with None when the broker was not reached.
Not here: retries; the transaction coordinator decides on those.
"""

import threading
from collections.abc import Callable
from functools import partial

from embedkafka.net.client import BrokerClient
from embedkafka.net.transport import Transport
from embedkafka.protocol.errors import ProtocolError
from embedkafka.protocol.messages.transactions import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.event_loop import EventLoop
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.server.metadata_cache import Endpoint, MetadataCache

_VERSION = 1
_TIMEOUT_MS = 10_000

OnDone = Callable[[WriteTxnMarkersResponse | None], None]


class MarkerChannels:
    """Sends to any broker of the cluster; its threads exist after the first transaction only."""

    def __init__(
        self,
        broker_id: BrokerId,
        metadata: MetadataCache,
        listener: str,
        clock: Clock,
        failures: Failures,
        transport: Transport | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._listener = listener
        self._clock = clock
        self._failures = failures
        self._transport = transport
        self._lock = threading.Lock()
        self._channels: dict[BrokerId, _Channel] = {}
        self._open = True

    def find_leader(self, topic_partition: TopicPartition) -> BrokerId | None:
        info = self._metadata.snapshot.find_partition(*topic_partition)
        return None if info is None else BrokerId(info.leader)

    def send(self, broker_id: BrokerId, request: WriteTxnMarkersRequest, on_done: OnDone) -> None:
        endpoint = self._metadata.snapshot.find_endpoint(broker_id, self._listener)
        channel = self._find_channel(broker_id)
        if endpoint is None or channel is None or not channel.send(endpoint, request, on_done):
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
                name = f"ek-b{self._broker_id}-markers-{broker_id}"
                channel = _Channel(name, self._clock, self._failures, self._transport)
                self._channels[broker_id] = channel
            return channel


class _Channel:
    """Requests to one broker, one after the other."""

    def __init__(
        self, name: str, clock: Clock, failures: Failures, transport: Transport | None
    ) -> None:
        self._name = name
        self._clock = clock
        self._transport = transport
        self._loop: EventLoop[Callable[[], None]] = EventLoop(name, lambda run: run(), failures)
        self._client: BrokerClient | None = None
        self._endpoint: Endpoint | None = None
        self._loop.start()

    def send(self, endpoint: Endpoint, request: WriteTxnMarkersRequest, on_done: OnDone) -> bool:
        return self._loop.post(partial(self._call, endpoint, request, on_done))

    def close(self) -> None:
        client = self._client
        if client is not None:
            client.close()
        self._loop.stop()
        self._drop()

    def _call(self, endpoint: Endpoint, request: WriteTxnMarkersRequest, on_done: OnDone) -> None:
        if endpoint != self._endpoint:
            self._drop()
        if self._client is None:
            self._endpoint = endpoint
            self._client = BrokerClient(
                endpoint.host,
                endpoint.port,
                self._clock,
                self._name,
                request_timeout_ms=_TIMEOUT_MS,
                transport=self._transport,
            )
        try:
            response: WriteTxnMarkersResponse | None = self._client.call(request, _VERSION)
        except (OSError, ProtocolError):
            self._drop()
            response = None
        on_done(response)

    def _drop(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None
        self._endpoint = None
