"""Writes in-sync sets from leaders to the store, and brings the answers back.

Owner: each proposal belongs to its partition until `settle`; `_lock` (leaf) guards the names of
partitions whose change is not yet announced to the controller.
Invariants: only the broker's background thread calls the store. A proposal is written again until
the store answers, because a lost answer says nothing about the write. Every change is eventually
announced to the controller.
Not here: what to propose (`isr`, `partition`).
"""

import logging

from embedkafka.broker.replica.hosted import HostedPartitions
from embedkafka.broker.replica.partition.partition import Partition
from embedkafka.broker.replica.partition.values import IsrProposal
from embedkafka.broker.replica.partition_notifier import PartitionNotifier
from embedkafka.broker.replica.ports import IsrStore
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.scheduler import Scheduler
from embedkafka.zk.store import NoNode, ZkError

_LOG = logging.getLogger(__name__)

_MOST_LINGERS = 12
"""Announces changes after this many lingers, though others follow: Kafka's 60 s, of 5 s each."""

RETRY_MS = 100
"""The delay before an unanswered proposal or announcement is written again."""


class IsrUpdates:
    """Writes proposals to the store and completes the requests that the new set allows."""

    def __init__(
        self,
        hosted: HostedPartitions,
        waiters: PartitionNotifier,
        store: IsrStore,
        scheduler: Scheduler,
        *,
        linger_ms: int,
    ) -> None:
        self._hosted = hosted
        self._waiters = waiters
        self._store = store
        self._scheduler = scheduler
        self._lock = ranked_lock("isr updates", LEAF_RANK)
        self._linger_ms = linger_ms
        self._unannounced: set[TopicPartition] = set()
        self._is_quiet = True
        self.shrinks = self.expands = 0  # stored changes; the background thread makes them all

    def submit(self, partition: Partition, proposal: IsrProposal) -> None:
        """Writes `proposal` soon."""
        self._scheduler.once(
            f"alter-isr {proposal.topic_partition}", 0, lambda: self._write(partition, proposal)
        )

    def review(self) -> None:
        """Proposes to remove followers that lag, and to add those that caught up.

        Runs periodically on the background thread.
        """
        for partition in self._hosted.online():
            proposal = partition.propose_shrink() or partition.propose_expansion()
            if proposal is not None:
                self._write(partition, proposal)

    def on_brokers_changed(self) -> None:
        """Proposes followers that caught up before this broker knew that they are alive."""
        for partition in self._hosted.online():
            partition.forget_dead_followers()
            self._expand(partition)
            if partition.has_unheard_follower():
                # It may have fetched, and been forgotten, before this broker knew that it is alive.
                self._waiters.on_unheard_follower(partition.topic_partition)

    def _expand(self, partition: Partition) -> None:
        proposal = partition.propose_expansion()
        if proposal is not None:
            self.submit(partition, proposal)

    def _write(self, partition: Partition, proposal: IsrProposal, *, again: bool = False) -> None:
        topic_partition, isr = proposal.topic_partition, proposal.state.isr
        try:
            version = self._store.update_isr_as_leader(
                topic_partition,
                proposal.state,
                topic_id=proposal.topic_id,
                joining=proposal.broker_epochs,
            )
        except NoNode as gone:
            _LOG.info(
                "In-sync replicas %s of %s were refused, one is gone: %s",
                isr,
                topic_partition,
                gone,
            )
            advanced = partition.withdraw(proposal)
            self._ask_joiners_again(topic_partition)
        except ZkError as error:
            _LOG.log(
                logging.DEBUG if again else logging.WARNING,
                "In-sync replicas %s of %s are not stored yet: %r",
                isr,
                topic_partition,
                error,
            )
            self._write_later(partition, proposal)
            return
        else:
            if version is None:
                _LOG.info("In-sync replicas %s of %s are out of date", isr, topic_partition)
                return
            _LOG.info("In-sync replicas of %s are now %s", topic_partition, isr)
            advanced = partition.settle(proposal, version)
            if proposal.broker_epochs:
                self.expands += 1
            else:
                self.shrinks += 1
            self._announce(topic_partition)
        self._expand(partition)  # others may have caught up during the write
        if advanced:
            self._waiters.on_high_watermark(topic_partition)

    def _write_later(self, partition: Partition, proposal: IsrProposal) -> None:
        def write() -> None:
            if partition.awaits(proposal):
                self._write(partition, proposal, again=True)

        self._scheduler.once(f"alter-isr {proposal.topic_partition} again", RETRY_MS, write)

    def _ask_joiners_again(self, topic_partition: TopicPartition) -> None:
        """Wakes followers that came back: with nothing to fetch, they would never rejoin."""
        self._scheduler.once(
            f"ask the followers of {topic_partition}",
            RETRY_MS,
            lambda: self._waiters.on_unheard_follower(topic_partition),
        )

    def _announce(self, topic_partition: TopicPartition) -> None:
        with self._lock:
            first = not self._unannounced
            self._unannounced.add(topic_partition)
        self._is_quiet = False
        if first:
            self._linger(_MOST_LINGERS)

    def _linger(self, times: int) -> None:
        """Announces once nothing has changed for the linger time, or after so many `times`."""

        def look() -> None:
            if self._is_quiet or times == 1:
                self._notify()
            else:
                self._linger(times - 1)

        self._is_quiet = True
        self._scheduler.once("notify-isr-change", self._linger_ms, look)

    def _notify(self) -> None:
        with self._lock:
            changed, self._unannounced = sorted(self._unannounced), set()
        if not changed:
            return
        try:
            self._store.notify_isr_changes(changed)
        except ZkError as error:
            _LOG.warning("Announcing the in-sync replicas of %s later: %r", changed, error)
            with self._lock:
                self._unannounced.update(changed)
            self._scheduler.once("notify-isr-change again", RETRY_MS, self._notify)
