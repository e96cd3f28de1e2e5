"""Deletes topics: stops and deletes their replicas, then removes their znodes.

A znode in `/admin/delete_topics` queues a topic, and its deletion starts at once. It waits for the
answers of live brokers only. Replicas on dead brokers and failed disks are deleted when those
return: by then the topic is gone, or has another id (`replica/leadership.py`, `replica/strays.py`).
A reassignment of the topic is dropped. Deletion survives a failover, because the znode stays until
the topic is gone.

Owner: the controller's event loop; the queue is in the context.
Not here: the states of replicas (`replica_machine`).
"""

import logging
from collections.abc import Collection, Iterable

from embedkafka.broker.controller.context import ControllerContext, PartitionAndReplica
from embedkafka.broker.controller.partition_machine import PartitionState
from embedkafka.broker.controller.reassignment import Reassignments
from embedkafka.broker.controller.replica_machine import ReplicaState
from embedkafka.broker.controller.sender import RequestSender
from embedkafka.broker.controller.state_changes import StateChanges
from embedkafka.runtime.values import NamedTuple, dataclass
from embedkafka.zk.kafka_zk import KafkaZk

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionSteps:
    """Topics whose reachable replicas are all deleted, and topics whose deletion can start."""

    complete: tuple[str, ...]
    begin: tuple[str, ...]


def decide(context: ControllerContext) -> DeletionSteps:
    """Decides the next steps for the queued topics.

    A STARTED replica either answers or loses its broker. An INELIGIBLE one refused, on a broker
    that has registered again; the controller is about to notice. Any other one has just come
    back.
    """
    waiting = {ReplicaState.DELETION_STARTED, ReplicaState.DELETION_INELIGIBLE}
    complete: list[str] = []
    begin: list[str] = []
    for topic in context.topics_to_delete:
        states = {
            context.replica_states.get(replica)
            for replica in context.replicas_of_topic(topic)
            if context.is_online(replica.broker, replica.partition)
        }
        if topic not in context.topics_with_deletion_started:
            begin.append(topic)
        elif states <= {ReplicaState.DELETION_SUCCESSFUL}:
            complete.append(topic)
        elif states.isdisjoint(waiting):
            begin.append(topic)
    return DeletionSteps(complete=tuple(complete), begin=tuple(begin))


class DeletionCounts(NamedTuple):
    """What Kafka's gauges of the deletion queue show."""

    topics: int = 0
    replicas: int = 0
    ineligible_topics: int = 0
    ineligible_replicas: int = 0


def count_queued(context: ControllerContext) -> DeletionCounts:
    """Counts the queued topics and their replicas that are not deleted yet."""
    states = {
        topic: [context.replica_states.get(each) for each in context.replicas_of_topic(topic)]
        for topic in context.topics_to_delete
    }
    ineligible = [each.count(ReplicaState.DELETION_INELIGIBLE) for each in states.values()]
    return DeletionCounts(
        topics=len(states),
        replicas=sum(
            state is not ReplicaState.DELETION_SUCCESSFUL
            for each in states.values()
            for state in each
        ),
        ineligible_topics=sum(count > 0 for count in ineligible),
        ineligible_replicas=sum(ineligible),
    )


class TopicDeletionManager:
    """Carries topics through deletion. With `delete.topic.enable=false` it drops the requests."""

    def __init__(
        self,
        context: ControllerContext,
        zk: KafkaZk,
        changes: StateChanges,
        reassignments: Reassignments,
        sender: RequestSender,
        *,
        enabled: bool,
    ) -> None:
        self._context = context
        self._zk = zk
        self._changes = changes
        self._reassignments = reassignments
        self._sender = sender
        self._enabled = enabled

    def start(self, topics: Collection[str]) -> None:
        """Takes over the queue that a new controller finds."""
        if not self._enabled:
            self._drop(topics)
            return
        self._context.topics_to_delete.update(dict.fromkeys(sorted(topics)))
        self._reassignments.abandon(topics)

    def enqueue(self, topics: Collection[str]) -> None:
        self.start(topics)
        self.go_on()

    def on_failed(self, replicas: Iterable[PartitionAndReplica]) -> None:
        """Replicas could not be deleted, or their brokers failed during the deletion."""
        failed = [r for r in replicas if self._context.is_queued_for_deletion(r.topic)]
        if failed:
            self._changes.move_replicas(failed, ReplicaState.DELETION_INELIGIBLE)
            self.go_on()

    def on_deleted(self, replicas: Iterable[PartitionAndReplica]) -> None:
        gone = [r for r in replicas if self._context.is_queued_for_deletion(r.topic)]
        self._changes.move_replicas(gone, ReplicaState.DELETION_SUCCESSFUL)
        self.go_on()

    def go_on(self) -> None:
        """Takes the next possible steps for the queue."""
        if not self._enabled or not self._context.topics_to_delete:
            return
        begin = decide(self._context).begin
        if begin:
            self._begin(begin)
        for topic in decide(self._context).complete:
            self._complete(topic)

    def _drop(self, topics: Collection[str]) -> None:
        _LOG.info("Keeping topics %s: deletion is disabled", sorted(topics))
        version = self._context.epoch_version
        self._zk.delete_topic_requests(sorted(topics), epoch_version=version)

    def _complete(self, topic: str) -> None:
        gone = self._context.replicas_in(topic, ReplicaState.DELETION_SUCCESSFUL)
        self._changes.move_replicas(gone, ReplicaState.NON_EXISTENT)
        self._zk.delete_topic_znodes(topic, epoch_version=self._context.epoch_version)
        self._context.remove_topic(topic)
        _LOG.info("Topic %s is deleted", topic)

    def _begin(self, topics: Collection[str]) -> None:
        context = self._context
        unseen = [t for t in topics if t not in context.topics_with_deletion_started]
        partitions = context.partitions_of(unseen)
        self._changes.move_partitions(partitions, PartitionState.OFFLINE)
        self._changes.move_partitions(partitions, PartitionState.NON_EXISTENT)
        context.topics_with_deletion_started.update(unseen)
        # The leader "during delete" makes brokers stop serving these partitions at once.
        self._sender.update_metadata(context.partitions_of(topics))
        self._delete_replicas(topics)

    def _delete_replicas(self, topics: Collection[str]) -> None:
        context = self._context
        doomed: list[PartitionAndReplica] = []
        lost: list[PartitionAndReplica] = []
        for replica in context.replicas_of(context.partitions_of(topics)):
            if not context.is_online(replica.broker, replica.partition):
                lost.append(replica)
            elif context.replica_states.get(replica) is not ReplicaState.DELETION_SUCCESSFUL:
                doomed.append(replica)
        self._changes.move_replicas(doomed, ReplicaState.OFFLINE)
        self._changes.move_replicas(doomed, ReplicaState.DELETION_STARTED)
        # A broker does not know the replicas on its failed disk; do not wait for its answer.
        batch = self._sender.new_batch()
        for replica in lost:
            batch.add_stop_replica(replica.broker, replica.partition, delete=True)
        self._sender.send(batch)
