"""What replication needs from the rest of the broker, each as narrow as it can be."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from embedkafka.log.config import LogConfig
from embedkafka.log.manager import LogManager
from embedkafka.runtime.ids import BrokerId, LeaderEpoch, TopicPartition
from embedkafka.runtime.values import dataclass
from embedkafka.zk.payloads import LeaderAndIsr


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """A partition that this broker leads, or no longer leads, from this epoch on."""

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch


class IsrStore(Protocol):
    """Where a leader records its in-sync replicas (`zk.kafka_zk.KafkaZk`); the calls may block."""

    def update_isr_as_leader(
        self,
        partition: TopicPartition,
        state: LeaderAndIsr,
        *,
        topic_id: uuid.UUID | None,
        joining: Mapping[BrokerId, int],
    ) -> int | None:
        """Writes `state` over the version it carries: the new version, or None if it has moved.

        None as well if the topic with `topic_id` is gone, even if another has its name.
        `NoNode` when one of `joining` is not registered with its broker epoch; the store then has
        the version still. Any other error leaves open whether it was written.
        """
        ...

    def notify_isr_changes(self, partitions: Iterable[TopicPartition]) -> None:
        """Tells the controller whose in-sync replicas have changed."""
        ...


class MetadataView(Protocol):
    """What this broker was told about the others; answers from memory, for locks are held."""

    def contains(self, topic_partition: TopicPartition) -> bool:
        """Whether the cluster has this partition, here or elsewhere."""
        ...

    def is_alive(self, broker_id: BrokerId) -> bool: ...

    def rack(self, broker_id: BrokerId) -> str | None: ...


class LeadershipListener(Protocol):
    """Coordinators live on leaders: this is how they move."""

    def on_leadership_change(
        self, leading: Sequence[LeaderChange], following: Sequence[LeaderChange]
    ) -> None:
        """Called after the logs are in place; `following` holds lost replicas as well."""
        ...


class LogDirEvents(Protocol):
    """Disk failures that others must hear of."""

    def on_log_dir_failure(self, directory: str, offline: Sequence[TopicPartition]) -> None:
        """The directory is out of use; the controller must elect leaders elsewhere."""
        ...


class TopicConfigs(Protocol):
    """What a topic's logs are kept by: its own settings over the broker's."""

    def log_config(self, topic: str) -> LogConfig: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPorts:
    """The rest of the broker, as replication sees it."""

    logs: LogManager
    topic_configs: TopicConfigs
    metadata: MetadataView
    isr_store: IsrStore
    leadership_listener: LeadershipListener
    log_dir_events: LogDirEvents
