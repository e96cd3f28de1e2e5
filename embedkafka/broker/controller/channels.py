"""Sends control requests to each broker in order, and retries until they arrive.

Owner: the controller's loop owns the map of channels.
Invariants: requests reach a broker in queue order, each at least once. A request whose answer was
lost is sent again; brokers recognise it by its leader epochs. When a broker is gone, its channel
drops the queued requests.
Not here: queue, connection and thread (`net.broker_channel`), the requests (`request_batch`),
handling of answers (`core`).
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from embedkafka.broker.controller.event_log import ControllerEventLog
from embedkafka.broker.controller.ports import Connect
from embedkafka.broker.controller.request_batch import ControlResponse, Outgoing
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.wire.net.broker_channel import BrokerChannel
from embedkafka.wire.protocol.errors import ProtocolError
from embedkafka.zk.payloads import BrokerEndpoint, BrokerInfo

RETRY_BACKOFF_MS: Final = 100

_LOG = logging.getLogger(__name__)

OnResponse = Callable[[Outgoing, ControlResponse], None]
Channel = BrokerChannel[BrokerEndpoint, Outgoing]


class ControllerChannels:
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
        event_log: ControllerEventLog | None = None,
    ) -> None:
        self._controller_id = controller_id
        self._connect = connect
        self._listener = listener
        self._on_response = on_response
        self._clock = clock
        self._failures = failures
        self._event_log = event_log or ControllerEventLog()
        self._posted_ms: dict[int, float] = {}
        self._channels: dict[int, Channel] = {}
        self._ending: list[Channel] = []

    def add_broker(self, info: BrokerInfo) -> None:
        if info.id in self._channels:
            return
        self._channels[info.id] = BrokerChannel(
            f"ek-b{self._controller_id}-channel-{info.id}",
            partial(self._deliver, info.endpoint(self._listener)),
            connect=self._connect,
            clock=self._clock,
            failures=self._failures,
        )

    def remove_broker(self, broker_id: int) -> None:
        """Drops queued requests and ends a call in progress, without waiting for the thread."""
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.end()
            self._ending = [other for other in self._ending if other.is_running]
            self._ending.append(channel)

    def send(self, outgoing: Outgoing) -> None:
        channel = self._channels.get(outgoing.broker)
        if channel is None:
            _LOG.info("Broker %d is offline; dropped %s", outgoing.broker, outgoing.request)
        else:
            if self._event_log.is_on:
                self._posted_ms[id(outgoing)] = self._clock.monotonic_ms()
            channel.post(outgoing)

    def queue_sizes(self) -> dict[int, int]:
        """How many requests wait for each broker; callable from any thread."""
        return {broker: channel.pending for broker, channel in self._channels.copy().items()}

    def close(self) -> None:
        """Ends every channel and waits for their threads."""
        for broker_id in list(self._channels):
            self.remove_broker(broker_id)
        for channel in self._ending:
            channel.join()
        self._ending.clear()

    def _deliver(self, endpoint: BrokerEndpoint, channel: Channel, outgoing: Outgoing) -> None:
        """Sends until the broker answers or is gone."""
        if self._posted_ms:
            self._note_sending(outgoing)
        while (connection := channel.connect(endpoint)) is not None:
            try:
                response: ControlResponse = connection.call(outgoing.request, outgoing.version)
            except (OSError, ProtocolError) as error:
                _LOG.info("%s reconnects to %s: %r", channel.name, endpoint, error)
                channel.drop(connection)
                channel.back_off(RETRY_BACKOFF_MS)
            else:
                self._on_response(outgoing, response)
                return

    def _note_sending(self, outgoing: Outgoing) -> None:
        posted_ms = self._posted_ms.pop(id(outgoing), None)
        if posted_ms is not None:
            queued_ms = self._clock.monotonic_ms() - posted_ms
            self._event_log.note_sending(self._controller_id, outgoing.broker, queued_ms)
