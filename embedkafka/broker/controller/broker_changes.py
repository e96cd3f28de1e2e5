"""Handles brokers that start, stop, lose disks or shut down: moves their leaders and replicas.

Owner: the controller's event loop.
Not here: which brokers came and went (`membership`); who wins (`election_strategies`).
"""

import logging
from collections.abc import Collection, Mapping

from embedkafka.broker.controller import membership
from embedkafka.broker.controller.context import ControllerContext, PartitionAndReplica
from embedkafka.broker.controller.election_strategies import Strategy
from embedkafka.broker.controller.partition_machine import PartitionState
from embedkafka.broker.controller.reassignment import Reassignments
from embedkafka.broker.controller.replica_machine import ReplicaState
from embedkafka.broker.controller.sender import RequestSender
from embedkafka.broker.controller.state_changes import StateChangeFailed, StateChanges
from embedkafka.broker.controller.topic_deletion import TopicDeletionManager
from embedkafka.runtime.ids import NO_BROKER_EPOCH, TopicPartition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import BrokerInfo
from embedkafka.zk.store import Watch

_LOG = logging.getLogger(__name__)


class BrokerChanges:
    """Keeps the context, the leaders and the brokers' metadata in step with the live brokers."""

    def __init__(
        self,
        context: ControllerContext,
        zk: KafkaZk,
        changes: StateChanges,
        deletion: TopicDeletionManager,
        reassignments: Reassignments,
        sender: RequestSender,
        *,
        controller_id: int,
        watch: Watch,
    ) -> None:
        self._context = context
        self._zk = zk
        self._changes = changes
        self._deletion = deletion
        self._reassignments = reassignments
        self._sender = sender
        self._controller_id = controller_id
        self._watch = watch

    def on_change(self) -> None:
        """Compares the registered brokers with the known ones."""
        registered = self._zk.brokers(self._watch)
        epochs = {broker: epoch for broker, (_, epoch) in registered.items()}
        change = membership.compare(self._context.broker_epochs, epochs)
        if change.is_empty:
            return
        _LOG.info("Controller %d sees %s", self._controller_id, change)
        for broker in (*change.bounced, *change.gone):
            self._sender.remove_broker(broker)
        for broker in (*change.joined, *change.bounced):
            self._sender.add_broker(registered[broker][0])
        if change.joined:
            self._join(change.joined, registered)
        if change.bounced:
            self._lose(change.bounced)
            self._join(change.bounced, registered)
        if change.gone:
            self._lose(change.gone)

    def on_modified(self, broker: int) -> None:
        """A broker's addresses may have changed."""
        known = self._context.brokers.get(broker)
        now = self._zk.find_broker(broker, self._watch)
        if known is not None and now is not None and now != known:
            self._context.brokers[broker] = now
            self._sender.update_metadata()

    def _join(
        self, brokers: Collection[int], registered: Mapping[int, tuple[BrokerInfo, int]]
    ) -> None:
        """Sends new brokers the full state, announces them to the others, brings replicas online.

        A new broker may be an old one that was away: it drops everything the full state omits.
        """
        context = self._context
        for broker in brokers:
            context.add_broker(*registered[broker])
            context.offline_dirs.pop(broker, None)
        # A follower needs to know its leader, and a leader which brokers are live, before the
        # follower can join the ISR.
        self._sender.update_metadata()
        replicas = context.replicas_on(brokers)
        doomed = [r for r in replicas if context.is_queued_for_deletion(r.topic)]
        others = [r for r in replicas if not context.is_queued_for_deletion(r.topic)]
        self._changes.move_replicas(others, ReplicaState.ONLINE, informing=brokers)
        self._changes.move_replicas(doomed, ReplicaState.OFFLINE)
        self._changes.bring_online()
        self._reassignments.resume(lambda _, a: not set(brokers).isdisjoint(a.target))
        self._deletion.go_on()
        for broker in brokers:
            self._zk.find_broker(broker, self._watch)

    def _lose(self, brokers: Collection[int]) -> None:
        context = self._context
        for broker in brokers:
            context.remove_broker(broker)
            context.offline_dirs.pop(broker, None)
            context.shutting_down.discard(broker)
        self.on_replicas_offline(context.replicas_on(brokers))

    def on_replicas_offline(self, replicas: Collection[PartitionAndReplica]) -> None:
        """Replaces lost leaders and removes the lost replicas from their ISRs."""
        context = self._context
        doomed = [r for r in replicas if context.is_queued_for_deletion(r.topic)]
        others = [r for r in replicas if not context.is_queued_for_deletion(r.topic)]
        leaderless = context.partitions_with_offline_leader()
        self._changes.move_partitions(leaderless, PartitionState.OFFLINE)
        elected = self._changes.bring_online()
        self._changes.move_replicas(others, ReplicaState.OFFLINE)
        self._deletion.on_failed(doomed)
        if not others and all(isinstance(r, StateChangeFailed) for r in elected.values()):
            self._sender.update_metadata()

    def on_log_dir_events(self) -> None:
        """Sends brokers that lost a directory all their replicas; the answers show which failed."""
        found = self._zk.log_dir_events(self._watch)
        replicas = self._context.replicas_on(set(found.values()))
        self._changes.move_replicas(replicas, ReplicaState.ONLINE)
        self._zk.delete_log_dir_events(found, epoch_version=self._context.epoch_version)

    def shut_down(self, broker: int, broker_epoch: int) -> list[TopicPartition]:
        """Moves leaders off a broker and stops its followers; returns what it still leads."""
        context = self._context
        if broker not in context.brokers:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker} does not exist.")
        if NO_BROKER_EPOCH != broker_epoch < context.broker_epochs[broker]:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker} has a newer epoch.")
        context.shutting_down.add(broker)
        replicated = [
            r.partition
            for r in context.replicas_on([broker])
            if len(context.assignment(r.partition).replicas) > 1
            and r.partition in context.leadership
            and not context.is_queued_for_deletion(r.topic)
        ]
        led = [tp for tp in replicated if context.leadership[tp].leader == broker]
        followed = [tp for tp in replicated if context.leadership[tp].leader != broker]
        self._changes.move_partitions(led, PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN)
        # Stop followers first, in a separate batch; then they leave the ISR.
        batch = self._sender.new_batch()
        for partition in followed:
            batch.add_stop_replica(broker, partition, delete=False)
        self._sender.send(batch)
        self._changes.move_replicas(
            [PartitionAndReplica(tp, broker) for tp in followed], ReplicaState.OFFLINE
        )
        return context.partitions_led_by(broker)
