"""The active controller's view of the cluster, as last read or decided.

Owner: the controller's event loop; empty while the controller is not active.
Invariants: it mirrors ZooKeeper and is never ahead of it: znodes are written first.
Not here: the rules for changing it (the state machines, `topic_deletion`, `reassignment`).
"""

import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from embedkafka.runtime.ids import EPOCH_DURING_DELETE, NO_LEADER_EPOCH, TopicPartition
from embedkafka.runtime.values import NamedTuple
from embedkafka.zk.payloads import (
    NO_ASSIGNMENT,
    BrokerInfo,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicAssignment,
)

if TYPE_CHECKING:  # the machines import this module
    from embedkafka.broker.controller.partition_machine import PartitionState
    from embedkafka.broker.controller.replica_machine import ReplicaState


class PartitionAndReplica(NamedTuple):
    """A partition on a broker."""

    partition: TopicPartition
    broker: int

    @property
    def topic(self) -> str:
        return self.partition.topic


class ControllerContext:
    """The controller's cache. Its collections are plain: only the loop writes them."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forgets everything, because the controller resigns."""
        self.epoch = 0
        self.epoch_version = 0
        self.brokers: dict[int, BrokerInfo] = {}
        self.broker_epochs: dict[int, int] = {}
        self.shutting_down: set[int] = set()
        self.topics: set[str] = set()
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.topic_names: dict[uuid.UUID, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.leadership: dict[TopicPartition, LeaderAndIsr] = {}
        self.reassigning: dict[TopicPartition, None] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[PartitionAndReplica, ReplicaState] = {}
        self.offline_dirs: dict[int, set[TopicPartition]] = {}
        self.topics_to_delete: dict[str, None] = {}
        self.topics_with_deletion_started: set[str] = set()

    # --- brokers ---

    def add_broker(self, info: BrokerInfo, epoch: int) -> None:
        self.brokers[info.id] = info
        self.broker_epochs[info.id] = epoch

    def remove_broker(self, broker_id: int) -> None:
        self.brokers.pop(broker_id, None)
        self.broker_epochs.pop(broker_id, None)

    def is_live(self, broker_id: int) -> bool:
        """Registered and not shutting down, so it may lead."""
        return broker_id in self.brokers and broker_id not in self.shutting_down

    @property
    def live(self) -> set[int]:
        return self.brokers.keys() - self.shutting_down

    def is_online(
        self, broker_id: int, partition: TopicPartition, *, or_shutting_down: bool = False
    ) -> bool:
        """Whether the replica's broker is live and its log directory works."""
        alive = broker_id in self.brokers if or_shutting_down else self.is_live(broker_id)
        return alive and partition not in self.offline_dirs.get(broker_id, ())

    # --- topics, partitions, replicas ---

    def add_topic(self, topic: TopicAssignment) -> None:
        self.topics.add(topic.topic)
        self.assignments.setdefault(topic.topic, {}).update(topic.partitions)
        if topic.topic_id is not None:
            self.topic_ids[topic.topic] = topic.topic_id
            self.topic_names[topic.topic_id] = topic.topic

    def remove_topic(self, topic: str) -> None:
        self.topics.discard(topic)
        self.topics_to_delete.pop(topic, None)
        self.topics_with_deletion_started.discard(topic)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        for number, assignment in self.assignments.pop(topic, {}).items():
            partition = TopicPartition(topic, number)
            self.leadership.pop(partition, None)
            self.partition_states.pop(partition, None)
            self.reassigning.pop(partition, None)
            for lost in self.offline_dirs.values():
                lost.discard(partition)
            for broker in assignment.replicas:
                self.replica_states.pop(PartitionAndReplica(partition, broker), None)

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """The partition's replicas; an empty assignment if the partition does not exist."""
        return self.assignments.get(partition.topic, {}).get(partition.partition, NO_ASSIGNMENT)

    def set_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        self.assignments.setdefault(partition.topic, {})[partition.partition] = assignment

    def partitions(self) -> Iterator[TopicPartition]:
        for topic, numbers in self.assignments.items():
            for number in numbers:
                yield TopicPartition(topic, number)

    def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [TopicPartition(t, p) for t in topics for p in self.assignments.get(t, ())]

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[PartitionAndReplica]:
        return [
            PartitionAndReplica(tp, broker)
            for tp in partitions
            for broker in self.assignment(tp).replicas
        ]

    def replicas_of_topic(self, topic: str) -> list[PartitionAndReplica]:
        return self.replicas_of(self.partitions_of([topic]))

    def replicas_on(self, brokers: Iterable[int]) -> list[PartitionAndReplica]:
        wanted = set(brokers)
        return [
            PartitionAndReplica(TopicPartition(topic, number), broker)
            for topic, numbers in self.assignments.items()
            for number, assignment in numbers.items()
            for broker in assignment.replicas
            if broker in wanted
        ]

    def replicas_in(self, topic: str, state: "ReplicaState") -> list[PartitionAndReplica]:
        states = self.replica_states
        return [r for r in self.replicas_of_topic(topic) if states.get(r) is state]

    def partitions_led_by(self, broker_id: int) -> list[TopicPartition]:
        """Partitions that a broker still leads, except unreplicated ones and those being deleted.

        A partition with a single replica cannot move, so it does not delay a shutdown.
        """
        return [
            tp
            for tp, state in self.leadership.items()
            if state.leader == broker_id
            and len(self.assignment(tp).replicas) > 1
            and not self.is_queued_for_deletion(tp.topic)
        ]

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        return [
            tp
            for tp, state in self.leadership.items()
            if not self.is_online(state.leader, tp) and not self.is_queued_for_deletion(tp.topic)
        ]

    def is_queued_for_deletion(self, topic: str) -> bool:
        return topic in self.topics_to_delete

    def stop_epoch(self, partition: TopicPartition) -> int:
        """The leader epoch for a StopReplica request."""
        if self.is_queued_for_deletion(partition.topic):
            return EPOCH_DURING_DELETE
        state = self.leadership.get(partition)
        return NO_LEADER_EPOCH if state is None else state.leader_epoch
