"""Wakes delayed requests, and followers in this process, when a partition changes.

Owner: `_lock` (leaf) guards the follower listeners; the purgatories guard their own lists.
Invariants: callers hold no lock, because waiting requests complete, and followers in this process
fetch, on the caller's thread.
"""

from collections.abc import Callable

from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.delayed import DelayedDeleteRecords, DelayedFetch, DelayedProduce
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.purgatory.purgatory import Purgatory
from embedkafka.runtime.scheduler import Timer

FollowerListener = Callable[[TopicPartition], None]


class PartitionNotifier:
    """Turns changes of a partition into completed requests."""

    def __init__(self, config: ReplicaConfig, timer: Timer, failures: Failures) -> None:
        self.produce: Purgatory[DelayedProduce] = Purgatory(
            "produce",
            timer,
            failures,
            purge_interval=config.producer_purgatory_purge_interval_requests,
        )
        self.fetch: Purgatory[DelayedFetch] = Purgatory(
            "fetch", timer, failures, purge_interval=config.fetch_purgatory_purge_interval_requests
        )
        self.delete_records: Purgatory[DelayedDeleteRecords] = Purgatory(
            "delete-records",
            timer,
            failures,
            purge_interval=config.delete_records_purgatory_purge_interval_requests,
        )
        self._lock = ranked_lock("follower listeners", LEAF_RANK)
        self._listeners: dict[TopicPartition, tuple[FollowerListener, ...]] = {}

    def listen(self, topic_partition: TopicPartition, listener: FollowerListener) -> None:
        """Calls `listener` whenever a follower would find news; adding it twice has no effect."""
        with self._lock:
            known = self._listeners.get(topic_partition, ())
            if listener not in known:
                self._listeners[topic_partition] = (*known, listener)

    def forget(self, topic_partition: TopicPartition, listener: FollowerListener) -> None:
        with self._lock:
            known = self._listeners.get(topic_partition, ())
            left = tuple(other for other in known if other != listener)
            if left:
                self._listeners[topic_partition] = left
            else:
                self._listeners.pop(topic_partition, None)

    def on_append(self, topic_partition: TopicPartition, *, high_watermark_advanced: bool) -> None:
        self._wake_followers(topic_partition)
        if high_watermark_advanced:
            self.on_high_watermark(topic_partition)
        else:
            self.fetch.check_and_complete(topic_partition)

    def on_high_watermark(self, topic_partition: TopicPartition) -> None:
        self.produce.check_and_complete(topic_partition)
        self.fetch.check_and_complete(topic_partition)

    def on_follower_progress(self, topic_partition: TopicPartition) -> None:
        """A partition followed here has moved; consumers may read it here as well (KIP-392)."""
        self.fetch.check_and_complete(topic_partition)

    def on_follower_log_start(self, topic_partition: TopicPartition) -> None:
        self.delete_records.check_and_complete(topic_partition)

    def on_log_start(self, topic_partition: TopicPartition) -> None:
        """The leader deleted records; its followers should do so soon."""
        self._wake_followers(topic_partition)

    def on_unheard_follower(self, topic_partition: TopicPartition) -> None:
        """The leader does not know a follower's position; the follower should fetch again."""
        self._wake_followers(topic_partition)

    def on_leadership_change(self, topic_partition: TopicPartition) -> None:
        """Every waiting request must check the partition's new state."""
        self._wake_followers(topic_partition)
        self.produce.check_and_complete(topic_partition)
        self.fetch.check_and_complete(topic_partition)
        self.delete_records.check_and_complete(topic_partition)

    def shutdown(self, *, complete: bool) -> None:
        """Answers waiting requests, or drops them; followers notice that this broker is gone."""
        for topic_partition in list(self._listeners):
            self._wake_followers(topic_partition)
        self.fetch.shutdown(complete=complete)
        self.produce.shutdown(complete=complete)
        self.delete_records.shutdown(complete=complete)

    def _wake_followers(self, topic_partition: TopicPartition) -> None:
        for listener in self._listeners.get(topic_partition, ()):
            listener(topic_partition)
