"""How the controller reaches brokers."""

from collections.abc import Callable
from typing import Any, Protocol

from embedkafka.controller.request_batch import Outgoing
from embedkafka.zk.payloads import BrokerEndpoint, BrokerInfo


class BrokerConnection(Protocol):
    """One connection to a broker's control plane; `net.client.BrokerClient` is one.

    `call` raises `OSError` or `ProtocolError` when the connection is of no more use.
    """

    def call(self, request: Any, version: int) -> Any: ...  # Any: one codec, all messages

    def close(self) -> None: ...


Connect = Callable[[BrokerEndpoint], BrokerConnection]


class Channels(Protocol):
    """Ordered delivery of requests to registered brokers."""

    def add_broker(self, info: BrokerInfo) -> None: ...

    def remove_broker(self, broker_id: int) -> None: ...

    def send(self, outgoing: Outgoing) -> None: ...

    def close(self) -> None: ...
