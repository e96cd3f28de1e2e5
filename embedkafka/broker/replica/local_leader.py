"""A leader in the same process, which reports news and whose logs are read directly.

Owner: the fetching thread; other threads may call `close`.
Invariants: the listener is in place before the first read, so nothing appended later is missed.
When the broker or the link is another one, the first fetch listens there for all partitions, so
the announcement of that change reaches them all.
"""

from collections.abc import Callable, Sequence

from embedkafka.broker.log.log import FetchIsolation
from embedkafka.broker.replica.fetch import EpochEnd, PartitionData, PartitionFetch
from embedkafka.broker.replica.following.leader_endpoint import LeaderUnavailable, OnNews
from embedkafka.broker.replica.manager import ReplicaManager
from embedkafka.runtime.ids import NO_OFFSET, BrokerId, TopicPartition


class LocalLeader:
    """Reads from the replicas that `resolve` finds for the leader's broker.

    The whole answer has no limit, because records stay in their files until they are appended.
    """

    wakes = True

    def __init__(
        self,
        leader_id: BrokerId,
        follower_id: BrokerId,
        resolve: Callable[[BrokerId], ReplicaManager | None],
        on_news: OnNews,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._leader_id = leader_id
        self._follower_id = follower_id
        self._resolve = resolve
        self._on_news = on_news
        self._broker_epoch = broker_epoch
        self._source: ReplicaManager | None = None
        self._listening: set[TopicPartition] = set()
        self._open = True

    def fetch(self, partitions: Sequence[PartitionFetch]) -> Sequence[PartitionData]:
        source = self._require_source()
        listening = self._listening
        for request in partitions:
            if request.topic_partition not in listening:
                source.waiters.listen(request.topic_partition, self._on_news)
                listening.add(request.topic_partition)
        return source.reads.read_as_follower(self._follower_id, self._broker_epoch(), partitions)

    def end_offset_for_epoch(
        self, topic_partition: TopicPartition, epoch: int, current_leader_epoch: int
    ) -> EpochEnd:
        partition = self._require_source().hosted.require(topic_partition)
        return partition.end_offset_for_epoch(epoch, current_leader_epoch=current_leader_epoch)

    def find_offset(
        self, topic_partition: TopicPartition, timestamp: int, current_leader_epoch: int
    ) -> int:
        partition = self._require_source().hosted.require(topic_partition)
        answer = partition.find_offset(
            timestamp,
            isolation=FetchIsolation.LOG_END,
            current_leader_epoch=current_leader_epoch,
        )
        return NO_OFFSET if answer is None else answer.offset

    def forget(self, topic_partition: TopicPartition) -> None:
        self._listening.discard(topic_partition)
        if self._source is not None:
            self._source.waiters.forget(topic_partition, self._on_news)

    def close(self) -> None:
        self._open = False
        for topic_partition in list(self._listening):
            self.forget(topic_partition)

    def _require_source(self) -> ReplicaManager:
        source = self._resolve(self._leader_id) if self._open else None
        if source is None:
            raise LeaderUnavailable(f"broker {self._leader_id} is not running")
        former = self._source
        if source is not former:  # the first use, or the broker or the link is another one
            self._source = source
            for topic_partition in list(self._listening):
                if former is not None:
                    former.waiters.forget(topic_partition, self._on_news)
                source.waiters.listen(topic_partition, self._on_news)
        return source
