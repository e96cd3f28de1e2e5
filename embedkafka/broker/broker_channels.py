"""Requests from one broker to another: transaction markers, and questions about transactions.

Each purpose has its own channels: a broker answers a connection's requests one after the other,
and some answers take their time.

Owner: `_lock` (leaf) guards the map of channels.
Invariants: `on_done` is called once for every request, with None when the broker was not reached.
A kept connection that the broker has closed is replaced.
Not here: queue, connection and thread (`net.broker_channel`); other retries and the meaning of
requests, which the senders know.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from embedkafka.broker.metadata_cache import Endpoint, MetadataCache
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.values import dataclass
from embedkafka.wire.net.broker_channel import BrokerChannel, ChannelFull
from embedkafka.wire.net.channel_authenticator import NewLogin
from embedkafka.wire.net.client import BrokerClient, BrokerDisconnected
from embedkafka.wire.net.transport import Transport
from embedkafka.wire.protocol.errors import ProtocolError

_TIMEOUT_MS: Final = 10_000

_LOG = logging.getLogger(__name__)

OnDone = Callable[[Any], None]  # Any: the response class follows from the request's, or None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    endpoint: Endpoint
    request: object
    version: int
    on_done: OnDone


_Channel = BrokerChannel[Endpoint, _Call]


class BrokerChannels:
    """Sends requests to any broker of the cluster."""

    def __init__(
        self,
        name: str,
        metadata: MetadataCache,
        listener: str,
        clock: Clock,
        failures: Failures,
        transport: Transport | None = None,
        new_login: NewLogin | None = None,
    ) -> None:
        self._name = name
        self._metadata = metadata
        self._listener = listener
        self._clock = clock
        self._failures = failures
        self._transport = transport
        self._new_login = new_login
        self._lock = ranked_lock(name, LEAF_RANK)
        self._channels: dict[BrokerId, _Channel] = {}
        self._open = True

    def send(self, broker_id: BrokerId, request: object, version: int, on_done: OnDone) -> None:
        """Sends without waiting; `on_done` is called on any thread."""
        endpoint = self._metadata.snapshot.find_endpoint(broker_id, self._listener)
        if endpoint is None or not self._post(
            broker_id,
            _Call(endpoint=endpoint, request=request, version=version, on_done=on_done),
        ):
            on_done(None)

    def close(self) -> None:
        """Ends the calls in progress; queued requests count as not reached."""
        with self._lock:
            self._open = False
            channels = list(self._channels.values())
        for channel in channels:
            channel.end()
        for channel in channels:
            channel.join()

    def _post(self, broker_id: BrokerId, call: _Call) -> bool:
        channel = self._find_channel(broker_id)
        try:
            return channel is not None and channel.post(call)
        except ChannelFull as error:
            _LOG.warning("%s", error)
            return False

    def _find_channel(self, broker_id: BrokerId) -> _Channel | None:
        with self._lock:
            if not self._open:
                return None
            channel = self._channels.get(broker_id)
            if channel is None:
                channel = self._channels[broker_id] = BrokerChannel(
                    f"{self._name}-{broker_id}",
                    _carry_out,
                    connect=self._connect,
                    clock=self._clock,
                    failures=self._failures,
                )
            return channel

    def _connect(self, endpoint: Endpoint) -> BrokerClient:
        return BrokerClient(
            endpoint.host,
            endpoint.port,
            self._clock,
            self._name,
            request_timeout_ms=_TIMEOUT_MS,
            transport=self._transport,
            new_login=self._new_login,
        )


def _carry_out(channel: _Channel, call: _Call) -> None:
    response, kept = None, channel.kept_connection
    while (connection := channel.connect(call.endpoint)) is not None:
        try:
            response = connection.call(call.request, call.version)
            break
        except (OSError, ProtocolError) as error:
            channel.drop(connection)
            # Brokers close idle connections, and only the next call notices.
            if connection is not kept or not isinstance(error, BrokerDisconnected):
                break
    call.on_done(response)
