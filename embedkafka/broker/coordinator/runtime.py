"""A coordinator as the rest of the broker sees it: leadership and requests, from any thread.

Each method posts to the `coordinator` loop. `reply` is called once, mostly on the loop.

Owner: the `coordinator` loop, which all coordinators of a broker share.
Not here: the requests themselves (`groups/service.py`, `transactions/service.py`).
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Generic, TypeVar

from embedkafka.broker.coordinator.decision import Decision
from embedkafka.broker.coordinator.hosting import HostedShard, ShardHost
from embedkafka.broker.coordinator.ports import CoordinatorParts, CoordinatorShard
from embedkafka.runtime.event_loop import ask
from embedkafka.runtime.hashing import coordinator_partition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode

R = TypeVar("R")
S = TypeVar("S", bound=CoordinatorShard)
E = TypeVar("E")


class CoordinatorRuntime(Generic[S, E]):
    """Coordinates the keys that hash to this broker's partitions of one internal topic."""

    def __init__(
        self, host: ShardHost[S, E], parts: CoordinatorParts, *, partition_count: int
    ) -> None:
        self._host = host
        self._loop, self._clock, self._timer = parts.loop, parts.clock, parts.timer
        self._partition_count = partition_count
        self._is_open = True

    def start(self, partition_count: int | None) -> None:
        """`partition_count` is that of the topic, or None if the topic does not exist yet."""
        self._partition_count = partition_count or self._partition_count

    def stop(self) -> None:
        """Releases every shard, and sends waiting clients to look for another coordinator."""
        self._loop.post(self._close)

    def partition_for(self, key: str) -> int:
        """The partition whose leader coordinates the group or transactional id."""
        return coordinator_partition(key, self._partition_count)

    # Leadership

    def on_leading(self, partition: int, epoch: int) -> None:
        """This broker leads the partition from `epoch` on: loads the shard."""
        self._loop.post(partial(self._host.lead, partition, epoch))

    def on_resigned(self, partition: int, epoch: int | None = None) -> None:
        """This broker no longer leads the partition, since `epoch` (None: any epoch)."""
        self._loop.post(partial(self._host.resign, partition, epoch))

    def on_metadata_changed(self) -> None:
        """The broker's metadata has changed, perhaps the topic's leaders."""
        self._loop.post(self._host.on_leaders_changed)

    # Requests

    def submit(
        self,
        key: str,
        decide: Callable[[S, int], Decision[E]],
        reply: Callable[[R], None],
        refuse: Callable[[ErrorCode], R],
        *,
        may_wait: bool = True,
    ) -> None:
        """Runs `decide` with the key's shard and the time, or refuses the request.

        A request that comes too early waits for the shard if it `may_wait`. Requests about soft
        state need not: the former coordinator's is lost.
        """

        def run() -> None:
            try:
                hosted = self._require(key)
            except ApiError as error:
                reply(refuse(error.code))
            else:
                self._decide(hosted, decide)

        if not self.post(run, keys=[key] if may_wait else []):
            reply(refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def post(self, action: Callable[[], None], *, keys: Iterable[str] = ()) -> bool:
        """Runs `action` on the loop when it is settled which of the keys' shards can answer.

        False if the loop has stopped.
        """

        def run() -> None:
            if self._is_open:
                self._host.when_settled(map(self.partition_for, keys), action)
            else:
                action()

        return self._loop.post(run)

    def ask(self, read: Callable[[], R]) -> R | None:
        """What `read` finds on the loop; None if the loop has stopped or is busy for long."""
        return ask(self._loop.post, read)

    def every(self, interval_ms: int, check: Callable[[S, int], Decision[E]]) -> None:
        """Runs `check` on every active shard, every `interval_ms`."""

        def run() -> None:
            if self._is_open:
                self.decide_all(check)
                self.every(interval_ms, check)

        self._timer.add(interval_ms, partial(self._loop.post, run))

    # On the loop

    def require(self, key: str) -> S:
        """The shard, to read only; raises ApiError with the client's error code."""
        return self._require(key).shard

    def active_shards(self) -> Iterator[S]:
        """Every shard that may answer, to read only."""
        return (hosted.shard for hosted in self._host.active())

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def is_loading(self) -> bool:
        return self._host.is_loading

    def decide_all(self, decide: Callable[[S, int], Decision[E]]) -> None:
        for hosted in self._host.active():
            self._decide(hosted, decide)

    def decide(self, partition: int, decide: Callable[[S, int], Decision[E]]) -> None:
        """Decides an event that an effect of the partition's shard has caused."""
        self._decide(self._host.require(partition), decide)

    def _decide(self, hosted: HostedShard[S], decide: Callable[[S, int], Decision[E]]) -> None:
        self._host.carry_out(hosted, decide(hosted.shard, self._clock.now_ms()))

    def _require(self, key: str) -> HostedShard[S]:
        if not self._is_open:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._host.require(self.partition_for(key))

    def _close(self) -> None:
        self._is_open = False
        self._host.resign_all()
