"""Deletes topics: stops and deletes their replicas, and removes their znodes when all are gone.

A topic is queued when its znode in `/admin/delete_topics` is seen. It is ineligible, and waits,
while one of its brokers is down, a replica could not be deleted, or one of its partitions is
being reassigned; the end of that makes it eligible again. Deletion goes on after a failover,
for the znode stays until the topic is gone.

Owner: the controller's event loop; the queues are in the context.
Not here: the states of replicas (`replica_machine`).
"""

import logging
from collections.abc import Collection, Iterable

from embedkafka.controller.context import ControllerContext, Replica
from embedkafka.controller.partition_machine import PartitionState
from embedkafka.controller.replica_machine import ReplicaState
from embedkafka.controller.sender import RequestSender
from embedkafka.controller.state_changes import StateChanges
from embedkafka.runtime.values import dataclass
from embedkafka.zk.kafka_zk import KafkaZk

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionSteps:
    """Topics whose replicas are all deleted, that have failed replicas, and that can begin."""

    complete: tuple[str, ...]
    retry: tuple[str, ...]
    begin: tuple[str, ...]


def decide(context: ControllerContext) -> DeletionSteps:
    """What can be done now for the topics in the queue."""
    complete: list[str] = []
    retry: list[str] = []
    begin: list[str] = []
    for topic in context.topics_to_delete:
        states = {context.replica_states.get(r) for r in context.replicas_of_topic(topic)}
        if states <= {ReplicaState.DELETION_SUCCESSFUL}:
            complete.append(topic)
            continue
        if ReplicaState.DELETION_STARTED in states:
            continue
        if ReplicaState.DELETION_INELIGIBLE in states:
            retry.append(topic)
        if topic not in context.topics_ineligible_for_deletion:
            begin.append(topic)
    return DeletionSteps(complete=tuple(complete), retry=tuple(retry), begin=tuple(begin))


class TopicDeletion:
    """Carries topics through deletion. With `delete.topic.enable=false` it drops the requests."""

    def __init__(
        self,
        context: ControllerContext,
        zk: KafkaZk,
        changes: StateChanges,
        sender: RequestSender,
        *,
        enabled: bool,
    ) -> None:
        self._context = context
        self._zk = zk
        self._changes = changes
        self._sender = sender
        self._enabled = enabled

    def start(self, topics: Collection[str], ineligible: Collection[str]) -> None:
        """Takes over the queue as a new controller finds it."""
        if not self._enabled:
            self._drop(topics)
            return
        self._context.topics_to_delete.update(dict.fromkeys(sorted(topics)))
        self._context.topics_ineligible_for_deletion |= set(topics) & set(ineligible)

    def enqueue(self, topics: Collection[str]) -> None:
        if not self._enabled:
            self._drop(topics)
            return
        self._context.topics_to_delete.update(dict.fromkeys(sorted(topics)))
        moving = {partition.topic for partition in self._context.reassigning}
        self.halt(moving.intersection(topics), "a partition is being reassigned")
        self.go_on()

    def resume(self, topics: Iterable[str]) -> None:
        """What halted these topics may be over: their brokers are back, or a reassignment ended.

        A topic with another partition still moving stays halted: its deletion would take away
        the replicas that the reassignment waits for, and each would wait for the other.
        """
        moving = {partition.topic for partition in self._context.reassigning}
        waiting = [
            topic
            for topic in topics
            if self._context.is_queued_for_deletion(topic) and topic not in moving
        ]
        if waiting:
            self._context.topics_ineligible_for_deletion.difference_update(waiting)
            self.go_on()

    def halt(self, topics: Iterable[str], reason: str) -> None:
        """Topics in the queue among `topics` wait until `resume`."""
        halted = {topic for topic in topics if self._context.is_queued_for_deletion(topic)}
        self._context.topics_ineligible_for_deletion |= halted
        if halted:
            _LOG.info("Deletion of topics %s waits: %s", sorted(halted), reason)

    def on_failed(self, replicas: Iterable[Replica]) -> None:
        """Replicas could not be deleted, or their brokers went away while they were."""
        failed = [r for r in replicas if self._context.is_queued_for_deletion(r.topic)]
        if failed:
            self._changes.move_replicas(failed, ReplicaState.DELETION_INELIGIBLE)
            self.halt({r.topic for r in failed}, "a replica could not be deleted")
            self.go_on()

    def on_deleted(self, replicas: Iterable[Replica]) -> None:
        gone = [r for r in replicas if self._context.is_queued_for_deletion(r.topic)]
        self._changes.move_replicas(gone, ReplicaState.DELETION_SUCCESSFUL)
        self.go_on()

    def go_on(self) -> None:
        """Does whatever the queue allows now."""
        if not self._enabled or not self._context.topics_to_delete:
            return
        steps = decide(self._context)
        for topic in steps.complete:
            self._complete(topic)
        failed = [
            replica
            for topic in steps.retry
            for replica in self._context.replicas_in(topic, ReplicaState.DELETION_INELIGIBLE)
        ]
        self._changes.move_replicas(failed, ReplicaState.OFFLINE)
        if steps.begin:
            self._begin(steps.begin)

    def _drop(self, topics: Collection[str]) -> None:
        _LOG.info("Topics %s are kept: deletion is disabled", sorted(topics))
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
        # Brokers that hear of a leader "during delete" stop serving these partitions at once.
        self._sender.update_metadata(context.partitions_of(topics))
        self._delete_replicas(topics)

    def _delete_replicas(self, topics: Collection[str]) -> None:
        context = self._context
        dead: list[Replica] = []
        doomed: list[Replica] = []
        for replica in context.replicas_of(context.partitions_of(topics)):
            if not context.is_online(replica.broker, replica.partition):
                dead.append(replica)
            elif context.replica_states.get(replica) is not ReplicaState.DELETION_SUCCESSFUL:
                doomed.append(replica)
        self._changes.move_replicas(dead, ReplicaState.DELETION_INELIGIBLE)
        self._changes.move_replicas(doomed, ReplicaState.OFFLINE)
        self._changes.move_replicas(doomed, ReplicaState.DELETION_STARTED)
        if dead:
            self.halt({replica.topic for replica in dead}, "a replica is offline")
