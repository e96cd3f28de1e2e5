"""Sends the requests of each controller step while the controller is active.

Owner: the controller's event loop.
Invariants: channels exist exactly while the controller is active; without them nothing is sent.
"""

from collections.abc import Callable, Iterable

from embedkafka.broker.controller.context import ControllerContext
from embedkafka.broker.controller.ports import Channels
from embedkafka.broker.controller.request_batch import RequestBatch
from embedkafka.runtime.ids import TopicPartition
from embedkafka.zk.payloads import BrokerInfo


class RequestSender:
    """Batches and channels of one controller."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        controller_id: int,
        listener: str,
        open_channels: Callable[[], Channels],
    ) -> None:
        self._context = context
        self._controller_id = controller_id
        self._listener = listener
        self._open_channels = open_channels
        self._channels: Channels | None = None

    def open(self) -> None:
        self._channels = self._open_channels()

    def close(self) -> None:
        """Drops the requests not sent yet."""
        if self._channels is not None:
            self._channels.close()
            self._channels = None

    def add_broker(self, info: BrokerInfo) -> None:
        if self._channels is not None:
            self._channels.add_broker(info)

    def remove_broker(self, broker_id: int) -> None:
        if self._channels is not None:
            self._channels.remove_broker(broker_id)

    def new_batch(self) -> RequestBatch:
        return RequestBatch(
            self._context, controller_id=self._controller_id, listener=self._listener
        )

    def send(self, batch: RequestBatch) -> None:
        if self._channels is not None:
            for outgoing in batch.build():
                self._channels.send(outgoing)

    def update_metadata(
        self, partitions: Iterable[TopicPartition] = (), *, brokers: Iterable[int] | None = None
    ) -> None:
        """Sends `brokers`, or all, the live brokers and the state of `partitions`."""
        batch = self.new_batch()
        batch.add_update_metadata(self._context.brokers if brokers is None else brokers, partitions)
        self.send(batch)
