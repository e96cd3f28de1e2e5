"""The interfaces through which replication uses the rest of the broker."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.manager import LogManager
from embedkafka.runtime.ids import BrokerId, LeaderEpoch, TopicPartition
from embedkafka.runtime.values import dataclass
from embedkafka.zk.payloads import LeaderAndIsr


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """A partition that this broker starts or stops leading at this epoch."""

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
        """Writes `state` over its version; returns the new version, or None on a conflict.

        Also returns None if the topic with `topic_id` is gone, even if another has its name.
        Raises `NoNode`, and writes nothing, if one of `joining` is not registered with its broker
        epoch. After any other error the write may or may not have happened.
        """
        ...

    def notify_isr_changes(self, partitions: Iterable[TopicPartition]) -> None:
        """Notifies the controller of changed in-sync replicas."""
        ...


class MetadataView(Protocol):
    """This broker's metadata; answers from memory, because callers hold locks."""

    def contains(self, topic_partition: TopicPartition) -> bool:
        """Whether the cluster has this partition, here or elsewhere."""
        ...

    def is_alive(self, broker_id: BrokerId) -> bool: ...

    def rack(self, broker_id: BrokerId) -> str | None: ...


class LeadershipListener(Protocol):
    """Moves coordinators along with the leaders of their partitions."""

    def on_leadership_change(
        self, leading: Sequence[LeaderChange], following: Sequence[LeaderChange]
    ) -> None:
        """Called after the logs are in place; `following` includes lost replicas."""
        ...


class LogDirEvents(Protocol):
    """Reports disk failures to the controller."""

    def on_log_dir_failure(self, directory: str, offline: Sequence[TopicPartition]) -> None:
        """The directory is out of use; the controller must elect leaders elsewhere."""
        ...

    def on_postponed(self) -> None:
        """A partition cannot be opened for a while; the controller should order it again."""
        ...


class TopicConfigs(Protocol):
    """The log settings of topics: the topic's settings over the broker's."""

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
