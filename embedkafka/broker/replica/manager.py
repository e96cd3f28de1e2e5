"""A broker's replicas: joins the parts, runs their periodic work, and stops them in order.

Callers use the parts: `hosted` finds partitions, `writes` and `reads` serve clients, `leadership`
obeys the controller, `fetchers` follow other brokers, `isr_updates` decides who is in sync.
Not here: wire formats, except those of the controller's requests.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.fetch_service import FetchService
from embedkafka.broker.replica.following.fetcher_manager import FetcherManager
from embedkafka.broker.replica.following.leader_endpoint import LeaderAccess
from embedkafka.broker.replica.hosted import HostedPartitions
from embedkafka.broker.replica.isr_updates import IsrUpdates
from embedkafka.broker.replica.leader_writes import LeaderWrites
from embedkafka.broker.replica.leadership import Leadership
from embedkafka.broker.replica.partition.partition import Partition
from embedkafka.broker.replica.partition_notifier import PartitionNotifier
from embedkafka.broker.replica.ports import ReplicaPorts
from embedkafka.broker.replica.quota import ReplicationQuota
from embedkafka.broker.replica.replica_selector import replica_selector
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.scheduler import Cancellable, Scheduler, Timer

_LOG = logging.getLogger(__name__)


class ReplicaManager:
    """The parts of replication on one broker."""

    def __init__(
        self,
        broker_id: BrokerId,
        ports: ReplicaPorts,
        leaders: LeaderAccess,
        *,
        config: ReplicaConfig,
        timer: Timer,
        scheduler: Scheduler,
        clock: Clock,
        failures: Failures,
    ) -> None:
        self.broker_id = broker_id
        self._ports = ports
        self.config = config
        self._clock = clock
        self._scheduler = scheduler
        self._periodic: list[Cancellable] = []
        self.leader_quota = _quota(config, clock)
        self.follower_quota = _quota(config, clock)
        self.hosted = HostedPartitions(broker_id, ports.metadata)
        self.waiters = PartitionNotifier(config, timer, failures)
        self.isr_updates = IsrUpdates(
            self.hosted,
            self.waiters,
            ports.isr_store,
            scheduler,
            linger_ms=config.internal_isr_change_linger_ms,
        )
        self.fetchers = FetcherManager(
            broker_id,
            leaders,
            config=config,
            clock=clock,
            failures=failures,
            on_progress=self.waiters.on_follower_progress,
            quota=self.follower_quota,
        )
        self.writes = LeaderWrites(self.hosted, self.waiters)
        self.reads = FetchService(
            self.hosted,
            self.waiters,
            self.isr_updates,
            replica_selector(config.replica_selector_class, ports.metadata.rack),
            self.leader_quota,
            failures,
        )
        self.leadership = Leadership(
            ports,
            hosted=self.hosted,
            fetchers=self.fetchers,
            waiters=self.waiters,
            make_partition=self._make_partition,
        )

    def start(self) -> None:
        """Starts the periodic work."""
        every, config = self._scheduler.every, self.config
        self._periodic = [
            every("isr-review", config.replica_lag_time_max_ms / 2, self.isr_updates.review),
            every(
                "high-watermark-checkpoint",
                config.replica_high_watermark_checkpoint_interval_ms,
                self._ports.logs.checkpoint_high_watermarks,
            ),
        ]

    def shutdown(self, *, complete: bool = True) -> None:
        """Stops following and answers waiting requests, or drops them as a crash does.

        Close the log manager after this; it keeps the high watermarks.
        """
        for task in self._periodic:
            task.cancel()
        self.fetchers.stop()
        self.waiters.shutdown(complete=complete)

    def on_log_dir_failure(self, directory: Path, lost: Sequence[TopicPartition]) -> None:
        """`LogManager.on_dir_failure`: soon gives up the partitions in `directory`.

        Not at once: the caller may hold a partition's lock.
        """
        self._scheduler.once(
            f"log-dir-failure {directory}", 0, lambda: self._take_offline(directory, lost)
        )

    def _take_offline(self, directory: Path, lost: Sequence[TopicPartition]) -> None:
        _LOG.error("Broker %d loses %d partitions in %s", self.broker_id, len(lost), directory)
        self.leadership.take_offline(lost)
        self._ports.log_dir_events.on_log_dir_failure(str(directory), lost)

    def _make_partition(self, topic_partition: TopicPartition) -> Partition:
        return Partition(
            topic_partition,
            broker_id=self.broker_id,
            clock=self._clock,
            lag_time_max_ms=self.config.replica_lag_time_max_ms,
            is_eligible=self._ports.metadata.is_alive,
        )


def _quota(config: ReplicaConfig, clock: Clock) -> ReplicationQuota:
    return ReplicationQuota(
        clock,
        windows=config.replication_quota_window_num,
        window_ms=1000 * config.replication_quota_window_size_seconds,
    )
