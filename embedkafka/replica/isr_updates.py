"""Carries in-sync sets from the leaders to the store, and the store's word back.

Owner: each proposal belongs to its partition until `settle`; this class keeps only the names of
partitions whose change the controller has not been told of, under `_lock` (leaf).
Invariants: the store is called on the broker's background thread, never on a request's; every
proposal is settled, or postponed when the store cannot be reached; the controller is told of every
change in the end.
Not here: what to propose (`isr`, `partition`).
"""

import logging

from embedkafka.replica.hosted import HostedPartitions
from embedkafka.replica.isr import UNKNOWN_EPOCH
from embedkafka.replica.partition import Partition
from embedkafka.replica.partition_state import IsrProposal
from embedkafka.replica.ports import IsrStore, Tasks
from embedkafka.replica.waiters import Waiters
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.zk.store import NoNode, ZkError

_LOG = logging.getLogger(__name__)

NOTIFY_DELAY_MS = 10
"""Changes within this time share one notification; Kafka waits up to 2.5 s, tests should not."""


class IsrUpdates:
    """Writes proposals to the store and completes what the new set allows."""

    def __init__(
        self, hosted: HostedPartitions, waiters: Waiters, store: IsrStore, tasks: Tasks
    ) -> None:
        self._hosted = hosted
        self._waiters = waiters
        self._store = store
        self._tasks = tasks
        self._lock = ranked_lock("isr updates", LEAF_RANK)
        self._unannounced: set[TopicPartition] = set()

    def submit(self, partition: Partition, proposal: IsrProposal) -> None:
        """Writes `proposal` soon."""
        self._tasks.once(
            f"alter-isr {proposal.topic_partition}", 0, lambda: self._write(partition, proposal)
        )

    def review(self) -> None:
        """Looks for followers that lag for too long, and for those that may join.

        Runs every so often, on the background thread.
        """
        for partition in self._hosted.online():
            proposal = partition.propose_shrink() or partition.propose_expansion()
            if proposal is not None:
                self._write(partition, proposal)
        self._notify()  # what the controller could not be told when it was due

    def on_brokers_changed(self) -> None:
        """A follower may have caught up before this broker knew that it is alive."""
        for partition in self._hosted.online():
            partition.forget_dead_followers()
            self._expand(partition)
            if partition.has_unheard_follower():
                # It may have fetched, and been forgotten, before this broker knew of it.
                self._waiters.on_unheard_follower(partition.topic_partition)

    def _expand(self, partition: Partition) -> None:
        proposal = partition.propose_expansion()
        if proposal is not None:
            self.submit(partition, proposal)

    def _write(self, partition: Partition, proposal: IsrProposal) -> None:
        topic_partition, isr = proposal.topic_partition, proposal.state.isr
        try:
            self._require_living(proposal)
            version = self._store.update_isr_as_leader(
                topic_partition, proposal.state, joining=proposal.broker_epochs
            )
        except NoNode as gone:
            _LOG.info("In-sync replicas %s of %s: one is gone: %s", isr, topic_partition, gone)
            if partition.withdraw(proposal):
                self._waiters.on_high_watermark(topic_partition)
            return
        except ZkError as error:
            _LOG.warning(
                "In-sync replicas %s of %s are not stored: %s", isr, topic_partition, error
            )
            partition.postpone(proposal)
            return
        advanced = partition.settle(proposal, version)
        if version is None:
            _LOG.info("In-sync replicas %s of %s are out of date", isr, topic_partition)
        else:
            _LOG.info("In-sync replicas of %s are now %s", topic_partition, isr)
            self._announce(topic_partition)
            self._expand(partition)  # others may have caught up while this was under way
        if advanced:
            self._waiters.on_high_watermark(topic_partition)

    def _require_living(self, proposal: IsrProposal) -> None:
        """Raises unless those who would join live the life in which they fetched (KIP-903)."""
        for broker_id, broker_epoch in proposal.broker_epochs.items():
            if broker_epoch not in (UNKNOWN_EPOCH, self._store.find_broker_epoch(broker_id)):
                raise NoNode(f"broker {broker_id} with epoch {broker_epoch}")

    def _announce(self, topic_partition: TopicPartition) -> None:
        with self._lock:
            first = not self._unannounced
            self._unannounced.add(topic_partition)
        if first:
            self._tasks.once("notify-isr-change", NOTIFY_DELAY_MS, self._notify)

    def _notify(self) -> None:
        with self._lock:
            changed, self._unannounced = sorted(self._unannounced), set()
        if not changed:
            return
        try:
            self._store.notify_isr_changes(changed)
        except ZkError as error:
            _LOG.warning("The controller is told of %s later: %r", changed, error)
            with self._lock:
                self._unannounced.update(changed)
