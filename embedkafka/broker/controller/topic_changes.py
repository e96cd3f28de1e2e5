"""Handles topics that are created, expanded or marked for deletion.

Owner: the controller's event loop.
Not here: the deletion itself (`topic_deletion`).
"""

import uuid
from collections.abc import Callable, Collection, Iterable

from embedkafka.broker.controller.context import ControllerContext
from embedkafka.broker.controller.partition_machine import PartitionState
from embedkafka.broker.controller.replica_machine import ReplicaState
from embedkafka.broker.controller.state_changes import StateChanges
from embedkafka.broker.controller.topic_deletion import TopicDeletionManager
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import replace
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import TopicAssignment
from embedkafka.zk.store import Watch


class TopicChanges:
    """Reads topics from ZooKeeper into the context and elects leaders for new partitions."""

    def __init__(
        self,
        context: ControllerContext,
        zk: KafkaZk,
        changes: StateChanges,
        deletion: TopicDeletionManager,
        *,
        new_topic_id: Callable[[], uuid.UUID],
        watch: Watch,
    ) -> None:
        self._context = context
        self._zk = zk
        self._changes = changes
        self._deletion = deletion
        self._new_topic_id = new_topic_id
        self._watch = watch

    def on_change(self) -> None:
        """Topics were created or deleted."""
        context = self._context
        topics = self._zk.topics(self._watch)
        for topic in sorted(context.topics - topics):
            context.remove_topic(topic)
        new = self.add(topics - context.topics)
        if new:
            self._create_partitions(context.partitions_of(new))

    def on_modified(self, topic: str) -> None:
        """A topic may have new partitions; ignores topics that are being deleted."""
        if topic not in self._context.topics:
            return
        found = self._zk.find_topic(topic, self._watch)
        if found is None:
            return
        known = self._context.assignments.get(topic, {})
        added = {p: a for p, a in found.partitions.items() if p not in known}
        if not added:
            return
        if self._context.is_queued_for_deletion(topic):
            self._zk.set_topic_assignment(
                topic,
                known,
                topic_id=self._context.topic_ids.get(topic),
                epoch_version=self._context.epoch_version,
            )
            return
        self._context.add_topic(replace(found, partitions=added))
        self._create_partitions([TopicPartition(topic, p) for p in added])

    def on_deletion(self) -> None:
        """Topics were marked for deletion."""
        asked = self._zk.topic_deletions(self._watch)
        unknown = asked - self._context.topics
        if unknown:
            version = self._context.epoch_version
            self._zk.delete_topic_requests(sorted(unknown), epoch_version=version)
        if asked - unknown:
            self._deletion.enqueue(asked - unknown)

    def add(self, topics: Iterable[str]) -> list[str]:
        """Reads topics into the context, watches each, and gives an id to those without."""
        added: list[str] = []
        for topic in sorted(topics):
            found = self._zk.find_topic(topic, self._watch)
            if found is not None:
                self._context.add_topic(self._with_topic_id(found))
                added.append(topic)
        return added

    def _with_topic_id(self, topic: TopicAssignment) -> TopicAssignment:
        if topic.topic_id is not None:
            return topic
        named = replace(topic, topic_id=self._new_topic_id())
        self._zk.set_topic_assignment(
            named.topic,
            named.partitions,
            topic_id=named.topic_id,
            epoch_version=self._context.epoch_version,
        )
        return named

    def _create_partitions(self, partitions: Collection[TopicPartition]) -> None:
        replicas = self._context.replicas_of(partitions)
        self._changes.move_partitions(partitions, PartitionState.NEW)
        self._changes.move_replicas(replicas, ReplicaState.NEW)
        self._changes.move_partitions(partitions, PartitionState.ONLINE)
        self._changes.move_replicas(replicas, ReplicaState.ONLINE)
