"""What the transaction coordinator needs from the rest of the broker."""

from collections.abc import Callable
from typing import Final, Protocol

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.transactions import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from embedkafka.runtime.ids import BrokerId, TopicPartition

NO_LEADER: Final = BrokerId(-1)


class ProducerIdBlocks(Protocol):
    """Blocks of producer ids that no other broker has (`/latest_producer_id_block`)."""

    def allocate(self) -> range:
        """The next block; raises ApiError when there is none to be had at the moment."""
        ...


class PartitionWriter(Protocol):
    """Appends to partitions that this broker leads, as with acks=all."""

    def append(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        on_done: Callable[[ErrorCode, int], None],
    ) -> None:
        """Appends `batch`; `on_done(error, base_offset)` is called once, on any thread.

        Without error the in-sync replicas have the batch. Batches of one partition are appended,
        and answered, in the order of the calls.
        """
        ...


class PartitionReader(Protocol):
    """Reads the local log of a partition that this broker leads, for loading."""

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        """First offset of the log; raises ApiError when this broker has no such log."""
        ...

    def read(self, topic_partition: TopicPartition, offset: int) -> memoryview:
        """Whole batches from `offset` on, up to the log end; empty there."""
        ...


class CoordinatorLeaders(Protocol):
    """Who leads the partitions of the transactions' topic, as far as this broker has heard."""

    def is_elsewhere(self, partition: int) -> bool:
        """Whether another broker is known to lead the partition."""
        ...


class MarkerSender(Protocol):
    """Brings transaction markers to the leaders of partitions, this broker among them."""

    def find_leader(self, topic_partition: TopicPartition) -> BrokerId | None:
        """The partition's leader, NO_LEADER while it has none, None when it does not exist."""
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


class TimerTask(Protocol):
    def cancel(self) -> object: ...


class CoordinatorTimer(Protocol):
    """One-shot timers in the cluster's time (`purgatory.timer.Timer`)."""

    def add(self, delay_ms: float, callback: Callable[[], object]) -> TimerTask:
        """Calls `callback` on the timer's thread after `delay_ms`."""
        ...


class CoordinatorLoop(Protocol):
    """The `coordinator` event loop: `EventLoop[Callable[[], None]]` that calls what is posted."""

    def post(self, event: Callable[[], None]) -> bool:
        """Queues `event`; False when the loop has stopped."""
        ...

    def assert_inside(self) -> None: ...
