"""A coordinator that is made when it is first needed.

Few tests have groups and transactions, and a sixth of the modules of a first cluster are about
them.

Owner: `_lock` guards that the coordinator is made once.
Invariants: a coordinator that is made after `stop` has stopped too.
Not here: what it coordinates (`groups/service.py`, `transactions/service.py`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from embedkafka.broker.metadata_cache import MetadataCache
from embedkafka.runtime.locks import COORDINATOR_RANK, ranked_lock

if TYPE_CHECKING:
    from embedkafka.broker.coordinator.runtime import CoordinatorRuntime


class Coordinator(Protocol):
    """What groups and transactions have in common."""

    coordinator: "CoordinatorRuntime[Any, Any]"  # Any: both kinds of shards

    def start(self, *, partition_count: int | None = None) -> None: ...

    def stop(self) -> None: ...


C = TypeVar("C", bound=Coordinator)


class LazyCoordinator(Generic[C]):
    """One coordinator of a broker, or none yet."""

    def __init__(self, topic: str, make: Callable[[], C], metadata: MetadataCache) -> None:
        self._make = make
        self._metadata = metadata
        self._lock = ranked_lock(f"coordinator of {topic}", COORDINATOR_RANK)
        self._partition_count: int | None = None
        self._has_stopped = False
        self.made: C | None = None

    def start(self, partition_count: int | None) -> None:
        """`partition_count` is that of its topic, or None if the topic does not exist yet."""
        self._partition_count = partition_count

    def stop(self) -> None:
        with self._lock:
            self._has_stopped = True
            if self.made is not None:
                self.made.stop()

    def get(self) -> C:
        """The coordinator; any thread may need it first."""
        return self.made or self._begin()

    def on_leading(self, partition: int, epoch: int) -> None:
        self.get().coordinator.on_leading(partition, epoch)

    def on_resigned(self, partition: int, epoch: int) -> None:
        if self.made is not None:
            self.made.coordinator.on_resigned(partition, epoch)

    def _begin(self) -> C:
        with self._lock:
            if self.made is None:
                made = self._make()
                made.start(partition_count=self._partition_count)
                if self._has_stopped:
                    made.stop()
                self._metadata.subscribe(made.coordinator.on_metadata_changed)
                self.made = made
            return self.made
