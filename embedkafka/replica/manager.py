"""A broker's replicas, as the request handlers see them.

It owns nothing but the parts: `hosted` (which partitions), `writes` and `reads` (what clients do),
`leadership` (what the controller wants), `fetcher_manager` (following), `isr_updates` (who is in
sync) and the periodic work that keeps them going.
Not here: the wire forms of requests other than the controller's, and authorization.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from embedkafka.log.log import FetchIsolation
from embedkafka.log.manager import LogManager
from embedkafka.log.producer_state import AppendOrigin
from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.brokers import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)
from embedkafka.purgatory.operation import DelayedOperation
from embedkafka.purgatory.purgatory import Purgatory
from embedkafka.replica.config import ReplicaConfig
from embedkafka.replica.fetch import EpochEnd, FetchParams, PartitionData, PartitionFetch
from embedkafka.replica.fetcher_manager import FetcherManager
from embedkafka.replica.hosted import HostedPartitions
from embedkafka.replica.isr_updates import IsrUpdates
from embedkafka.replica.leader_endpoint import Connect
from embedkafka.replica.leadership import Leadership
from embedkafka.replica.partition import Partition
from embedkafka.replica.partition_values import OffsetAnswer, PartitionView
from embedkafka.replica.ports import (
    IsrStore,
    LeadershipListener,
    LogDirEvents,
    MetadataView,
    TopicConfigs,
)
from embedkafka.replica.quota import ReplicationQuota
from embedkafka.replica.reads import OnFetched, Reads
from embedkafka.replica.replica_selector import replica_selector
from embedkafka.replica.waiters import FollowerListener, Waiters
from embedkafka.replica.writes import OnDeleted, OnProduced, Writes
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import NO_LEADER_EPOCH, BrokerId, TopicPartition
from embedkafka.runtime.scheduler import Cancellable, Scheduler, Timer

_LOG = logging.getLogger(__name__)

Expire = Callable[[DelayedOperation], None]


class ReplicaManager:
    """Appends, fetches, leads and follows on one broker.

    `connect` reaches leaders; with `one_fetcher_thread` they must be `LocalLeader`s, whose news
    wakes a single thread. `expire` runs operations whose time is up; without it, the timer does.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        config: ReplicaConfig,
        logs: LogManager,
        configs: TopicConfigs,
        metadata: MetadataView,
        isr_store: IsrStore,
        leadership_listener: LeadershipListener,
        log_dir_events: LogDirEvents,
        connect: Connect,
        one_fetcher_thread: bool,
        timer: Timer,
        scheduler: Scheduler,
        clock: Clock,
        failures: Failures,
        expire: Expire | None = None,
        fetcher_threads: bool = True,
    ) -> None:
        self.broker_id = broker_id
        self.config = config
        self._logs = logs
        self._metadata = metadata
        self._clock = clock
        self._scheduler = scheduler
        self._log_dir_events = log_dir_events
        self._periodic: list[Cancellable] = []
        self.hosted = HostedPartitions(broker_id, metadata)
        self.waiters = Waiters(
            produce=Purgatory(
                "produce",
                timer,
                failures,
                expire,
                purge_interval=config.producer_purge_interval_requests,
            ),
            fetch=Purgatory(
                "fetch",
                timer,
                failures,
                expire,
                purge_interval=config.fetch_purge_interval_requests,
            ),
            delete_records=Purgatory(
                "delete-records",
                timer,
                failures,
                expire,
                purge_interval=config.delete_records_purge_interval_requests,
            ),
        )
        window = {"windows": config.quota_window_num, "window_ms": config.quota_window_size_ms}
        self.leader_quota = ReplicationQuota(clock, **window)
        self.follower_quota = ReplicationQuota(clock, **window)
        self.isr_updates = IsrUpdates(self.hosted, self.waiters, isr_store, scheduler)
        self.fetchers = FetcherManager(
            broker_id,
            connect,
            one_thread=one_fetcher_thread,
            config=config,
            clock=clock,
            failures=failures,
            on_progress=self.waiters.on_follower_progress,
            quota=self.follower_quota,
            threaded=fetcher_threads,
        )
        self._writes = Writes(self.hosted, self.waiters)
        self._reads = Reads(
            self.hosted,
            self.waiters,
            self.isr_updates,
            replica_selector(config.selector_class, metadata.rack),
            self.leader_quota,
            failures,
        )
        self._leadership = Leadership(
            broker_id,
            hosted=self.hosted,
            make_partition=self._make_partition,
            logs=logs,
            configs=configs,
            fetchers=self.fetchers,
            waiters=self.waiters,
            listener=leadership_listener,
        )

    # -- lifecycle

    def start(self) -> None:
        """Begins the periodic work."""
        self._periodic = [
            self._scheduler.every(
                "isr-review", self.config.lag_time_max_ms / 2, self.isr_updates.review
            ),
            self._scheduler.every(
                "high-watermark-checkpoint",
                self.config.high_watermark_checkpoint_interval_ms,
                self._logs.checkpoint_high_watermarks,
            ),
        ]

    def shutdown(self, *, checkpoint: bool = True) -> None:
        """Stops following and answers whoever waits; `checkpoint=False` is a crash.

        The logs outlive this: their manager is closed afterwards.
        """
        for task in self._periodic:
            task.cancel()
        self.fetchers.stop()
        self.waiters.shutdown(complete=checkpoint)
        if checkpoint:
            self._logs.checkpoint_high_watermarks()

    # -- clients

    def append_records(
        self,
        *,
        timeout_ms: float,
        required_acks: int,
        entries: Mapping[TopicPartition, memoryview],
        on_done: OnProduced,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        internal_topics_allowed: bool = False,
    ) -> None:
        """Appends to the partitions led here; `on_done` once `required_acks` are there."""
        self._writes.append_records(
            entries,
            on_done,
            timeout_ms=timeout_ms,
            required_acks=required_acks,
            origin=origin,
            internal_topics_allowed=internal_topics_allowed,
        )

    def fetch_messages(
        self, params: FetchParams, partitions: Sequence[PartitionFetch], on_done: OnFetched
    ) -> None:
        """Reads now, or when `params.min_bytes` are there or `params.max_wait_ms` have passed."""
        self._reads.fetch_messages(params, partitions, on_done)

    def delete_records(
        self, *, timeout_ms: float, offsets: Mapping[TopicPartition, int], on_done: OnDeleted
    ) -> None:
        """Drops all before the offsets (-1: the high watermark), here and on the followers."""
        self._writes.delete_records(offsets, on_done, timeout_ms=timeout_ms)

    def find_offset(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        *,
        isolation: FetchIsolation,
        current_leader_epoch: int = NO_LEADER_EPOCH,
        only_leader: bool = True,
    ) -> OffsetAnswer | None:
        """What ListOffsets asks of one partition; None when no record is that young."""
        return self.hosted.require(topic_partition).find_offset(
            timestamp,
            isolation=isolation,
            current_leader_epoch=current_leader_epoch,
            only_leader=only_leader,
        )

    def end_offset_for_epoch(
        self,
        topic_partition: TopicPartition,
        epoch: int,
        *,
        current_leader_epoch: int = NO_LEADER_EPOCH,
    ) -> EpochEnd:
        """What OffsetForLeaderEpoch asks of one partition."""
        return self.hosted.require(topic_partition).end_offset_for_epoch(
            epoch, current_leader_epoch=current_leader_epoch
        )

    def find_partition(self, topic_partition: TopicPartition) -> Partition | None:
        return self.hosted.find(topic_partition)

    def require_partition(self, topic_partition: TopicPartition) -> Partition:
        """The hosted partition, leader or follower, or ApiError with the reason."""
        return self.hosted.require(topic_partition)

    def require_leader(self, topic_partition: TopicPartition) -> Partition:
        partition = self.hosted.require(topic_partition)
        if not partition.is_leader:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {self.broker_id} does not lead {topic_partition}",
            )
        return partition

    def views(self) -> list[PartitionView]:
        """Every online partition at this moment, for reports."""
        return [partition.view() for partition in self.hosted.online()]

    # -- the controller

    def accept_controller(self, controller_epoch: int) -> bool:
        """False when a newer controller is known; for requests that are handled elsewhere."""
        return self._leadership.accept_controller(controller_epoch)

    def on_brokers_changed(self) -> None:
        """To be called after the metadata has changed which brokers are alive."""
        self.isr_updates.on_brokers_changed()

    def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        return self._leadership.become_leader_or_follower(request)

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        return self._leadership.stop_replicas(request)

    # -- disks

    def on_log_dir_failure(self, directory: Path, lost: Sequence[TopicPartition]) -> None:
        """`LogManager.on_dir_failure`: gives up what was in `directory`, soon.

        Not at once, for whoever met the failure may hold a partition's lock.
        """
        self._scheduler.once(
            f"log-dir-failure {directory}", 0, lambda: self._take_offline(directory, lost)
        )

    def _take_offline(self, directory: Path, lost: Sequence[TopicPartition]) -> None:
        _LOG.error("Broker %d loses %d partitions in %s", self.broker_id, len(lost), directory)
        self._leadership.take_offline(lost)
        self._log_dir_events.on_log_dir_failure(str(directory), lost)

    def _make_partition(self, topic_partition: TopicPartition) -> Partition:
        return Partition(
            topic_partition,
            broker_id=self.broker_id,
            clock=self._clock,
            lag_time_max_ms=self.config.lag_time_max_ms,
            is_eligible=self._metadata.is_alive,
        )

    # -- followers in this process (`ports.ReplicaSource`)

    def read_as_follower(
        self, follower_id: BrokerId, broker_epoch: int, partitions: Sequence[PartitionFetch]
    ) -> list[PartitionData]:
        return self._reads.read_as_follower(follower_id, broker_epoch, partitions)

    def listen(self, topic_partition: TopicPartition, listener: FollowerListener) -> None:
        self.waiters.listen(topic_partition, listener)

    def forget(self, topic_partition: TopicPartition, listener: FollowerListener) -> None:
        self.waiters.forget(topic_partition, listener)
