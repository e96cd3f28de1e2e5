"""What the group coordinator needs from the rest of the broker; `server/broker.py` connects it."""

from collections.abc import Callable, Mapping
from typing import Protocol
from uuid import UUID

from embedkafka.protocol.errors import ErrorCode
from embedkafka.runtime.ids import TopicPartition


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
        and answered, in the order of the calls. A batch with a producer id is transactional.
        """
        ...


class PartitionReader(Protocol):
    """Reads the local log of a partition that this broker leads, for loading."""

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        """First offset of the log; raises ApiError when this broker has no such log."""
        ...

    def read(self, topic_partition: TopicPartition, offset: int) -> memoryview:
        """Whole batches from `offset` on, up to the log end; empty there.

        One call returns as much as one fetch would; the next begins after its last batch.
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


class OffsetsLeaders(Protocol):
    """Who leads the partitions of the offsets topic, as far as this broker has heard."""

    def is_elsewhere(self, partition: int) -> bool:
        """Whether another broker is known to lead the partition."""
        ...


class GroupOverrides(Protocol):
    """Settings of single groups, by Kafka's names for them."""

    def find_group_value(self, group_id: str, name: str) -> int | None:
        """What was set for the group; None when the broker's setting holds. Callable often."""
        ...


class TopicCatalog(Protocol):
    """The topics of the cluster, for groups whose coordinator assigns partitions."""

    def topics(self) -> Mapping[str, tuple[UUID, int]]:
        """Id and partition count by name, as of now."""
        ...
