"""What transactions need from the rest of the broker, besides `coordinator.ports`."""

from collections.abc import Callable
from typing import Protocol

from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.wire.protocol.messages.transactions import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class ProducerIdBlocks(Protocol):
    """Blocks of producer ids, unique to this broker (`/latest_producer_id_block`)."""

    def allocate(self) -> range:
        """The next block; raises ApiError if none can be allocated now."""
        ...


class MarkerTransport(Protocol):
    """Sends transaction markers to the leaders of partitions, including this broker."""

    def find_leader(self, topic_partition: TopicPartition) -> BrokerId | None:
        """The partition's leader; NO_LEADER while none is known; None if it was deleted."""
        ...

    def send(
        self,
        broker_id: BrokerId,
        request: WriteTxnMarkersRequest,
        on_done: Callable[[WriteTxnMarkersResponse | None], None],
    ) -> None:
        """Sends without waiting; `on_done` is called once, on any thread.

        None stands for a broker that could not be reached or did not answer.
        """
        ...
