"""Assigns followed partitions to fetcher threads.

Owner: `_lock` (leaf) guards the map of loops and of partitions.
Invariants: a partition is followed by one loop at most, and by none after `stop`.
"""

from collections.abc import Callable, Iterable, Mapping

from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.following.fetcher import Followed, FollowState
from embedkafka.broker.replica.following.fetcher_loop import FetcherLoop
from embedkafka.broker.replica.following.leader_endpoint import LeaderAccess
from embedkafka.broker.replica.quota import ReplicationQuota
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock


class FetcherManager:
    """Runs one thread for all leaders if they wake it, otherwise one thread per leader."""

    def __init__(
        self,
        broker_id: BrokerId,
        leaders: LeaderAccess,
        *,
        config: ReplicaConfig,
        clock: Clock,
        failures: Failures,
        on_progress: Callable[[TopicPartition], None],
        quota: ReplicationQuota,
    ) -> None:
        self._broker_id = broker_id
        self._leaders = leaders
        self._config = config
        self._clock = clock
        self._failures = failures
        self._on_progress = on_progress
        self._quota = quota
        self._lock = ranked_lock("fetchers", LEAF_RANK)
        self._loops: dict[str, FetcherLoop] = {}
        self._loop_of: dict[TopicPartition, FetcherLoop] = {}
        self._open = True

    def follow(self, assignments: Mapping[TopicPartition, tuple[BrokerId, Followed]]) -> None:
        """Follows these leaders; the partitions must not be followed yet."""
        by_loop: dict[FetcherLoop, dict[TopicPartition, tuple[BrokerId, Followed]]] = {}
        with self._lock:
            if not self._open:
                return  # a controller request that arrived while the broker stopped
            for topic_partition, (leader_id, followed) in assignments.items():
                loop = self._loop_for(leader_id)
                by_loop.setdefault(loop, {})[topic_partition] = (leader_id, followed)
                self._loop_of[topic_partition] = loop
        for loop, part in by_loop.items():
            loop.follow(part)

    def unfollow(self, topic_partitions: Iterable[TopicPartition]) -> None:
        by_loop: dict[FetcherLoop, list[TopicPartition]] = {}
        with self._lock:
            for topic_partition in topic_partitions:
                loop = self._loop_of.pop(topic_partition, None)
                if loop is not None:
                    by_loop.setdefault(loop, []).append(topic_partition)
        for loop, part in by_loop.items():
            loop.unfollow(part)

    def find_state(self, topic_partition: TopicPartition) -> FollowState | None:
        loop = self._loop_of.get(topic_partition)
        return loop.find_state(topic_partition) if loop else None

    def is_delayed(self, topic_partition: TopicPartition) -> bool:
        """Whether a followed partition waits after an error."""
        loop = self._loop_of.get(topic_partition)
        return loop is not None and loop.is_delayed(topic_partition)

    @property
    def bytes_in(self) -> int:
        """What was fetched from leaders so far."""
        return sum(loop.bytes_in for loop in self._loops.copy().values())

    def run_once(self) -> bool:
        """Without threads: runs one round per leader; False if nothing was due."""
        busy = [loop for loop in list(self._loops.values()) if not loop.is_idle]
        for loop in busy:
            loop.run_once()
        return bool(busy)

    def run_until_idle(self) -> bool:
        """Without threads: runs rounds until nothing is due; False if nothing was."""
        busy = self.run_once()
        while busy and self.run_once():
            pass
        return busy

    def stop(self) -> None:
        """Stops following for good and joins the threads."""
        with self._lock:
            self._open = False
            loops = list(self._loops.values())
            self._loop_of.clear()
        for loop in loops:
            loop.stop()

    def _loop_for(self, leader_id: BrokerId) -> FetcherLoop:
        name = f"ek-b{self._broker_id}-fetcher"
        if not self._leaders.one_thread:
            name = f"{name}-{leader_id}"
        loop = self._loops.get(name)
        if loop is None:
            loop = self._loops[name] = FetcherLoop(
                name,
                self._leaders,
                config=self._config,
                clock=self._clock,
                failures=self._failures,
                on_progress=self._on_progress,
                quota=self._quota,
            )
        return loop
