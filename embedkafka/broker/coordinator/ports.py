"""What coordinators need from the broker, and what hosting needs from a coordinator."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from embedkafka.broker.coordinator.decision import Decision
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.scheduler import Timer
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.records.batch import Batch

S_contra = TypeVar("S_contra", contravariant=True)
E_contra = TypeVar("E_contra", contravariant=True)


class PartitionLogs(Protocol):
    """The logs of partitions that this broker leads."""

    def append(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        on_done: Callable[[ErrorCode, int], None],
    ) -> None:
        """Appends as with acks=all; `on_done(error, base_offset)` is called once, on any thread.

        Without an error the in-sync replicas have the batch. Batches of one partition are appended
        and answered in the order of the calls. A batch with a producer id is transactional.
        """
        ...

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        """First offset of the log; raises ApiError if this broker has no such log."""
        ...

    def read(self, topic_partition: TopicPartition, offset: int) -> memoryview:
        """Whole batches from `offset` on; empty at the log end.

        One call returns as much as one fetch would. The next starts after its last batch.
        """
        ...


class CoordinatorLoop(Protocol):
    """The `coordinator` event loop: an `EventLoop[Callable[[], None]]` that calls its events."""

    def post(self, event: Callable[[], None]) -> bool:
        """Queues `event`; False if the loop has stopped."""
        ...

    def assert_inside(self) -> None: ...


class KnownLeaders(Protocol):
    """The leaders of a coordinator's topic, as far as this broker knows."""

    @property
    def is_informed(self) -> bool:
        """Whether the controller has announced all topics since this broker registered."""
        ...

    def is_elsewhere(self, partition: int) -> bool:
        """Whether another broker is known to lead the partition."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorParts:
    """What the coordinators of one broker share."""

    loop: CoordinatorLoop
    clock: Clock
    timer: Timer
    logs: PartitionLogs
    failures: Failures


class CoordinatorShard(Protocol):
    """One partition's state and rules. Any: each coordinator has its own type of effects."""

    def replay_batch(self, batch: Batch) -> None:
        """Applies one batch of the log."""
        ...

    def on_loaded(self, *, now_ms: int) -> Decision[Any]:
        """The log has been replayed to its end: the shard starts to answer."""
        ...

    def on_unloaded(self) -> Decision[Any]:
        """This broker no longer leads the partition; only answers are carried out."""
        ...


class Effects(Protocol[S_contra, E_contra]):
    """Carries out a coordinator's decisions besides answers and appends: timers, markers."""

    def carry_out(self, partition: int, shard: S_contra, effect: E_contra) -> None: ...

    def cancel(self, partition: int) -> None:
        """The shard was released: its effects must not report back any more."""
        ...
