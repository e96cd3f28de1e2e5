"""How the controller reaches brokers."""

from collections.abc import Callable
from typing import Protocol

from embedkafka.broker.controller.request_batch import Outgoing
from embedkafka.wire.net.broker_channel import BrokerConnection
from embedkafka.zk.payloads import BrokerEndpoint, BrokerInfo

Connect = Callable[[BrokerEndpoint], BrokerConnection]


class Channels(Protocol):
    """Ordered delivery of requests to registered brokers."""

    def add_broker(self, info: BrokerInfo) -> None: ...

    def remove_broker(self, broker_id: int) -> None: ...

    def send(self, outgoing: Outgoing) -> None: ...

    def close(self) -> None: ...
