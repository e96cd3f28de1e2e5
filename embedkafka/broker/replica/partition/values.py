"""Frozen values that a partition receives from the controller or returns to callers."""

import uuid
from collections.abc import Callable, Mapping
from typing import Final

from embedkafka.runtime.ids import BrokerId, LeaderEpoch, TopicPartition
from embedkafka.runtime.values import NamedTuple, dataclass
from embedkafka.zk.payloads import LeaderAndIsr, ReplicaAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrPartitionState:
    """A partition's leader epoch, as the controller sent it."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    controller_epoch: int
    isr: tuple[BrokerId, ...]
    assignment: ReplicaAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """A proposed in-sync set, with the version it would replace.

    `broker_epochs` has the epochs of the proposed members (KIP-903), -1 where unknown.
    """

    topic_partition: TopicPartition
    topic_id: uuid.UUID | None
    state: LeaderAndIsr
    broker_epochs: Mapping[BrokerId, int]


class FollowerEffects(NamedTuple):
    """The effects of a follower's fetch on the leader."""

    high_watermark_advanced: bool
    log_start_moved: bool
    proposal: IsrProposal | None


NO_EFFECTS: Final = FollowerEffects(False, False, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAnswer:
    """An offset with its timestamp and epoch, each -1 if unknown."""

    timestamp: int
    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSearch:
    """A search by time that has yet to look into a batch; it finds None if no record is so young.

    A slow one inflates a lot, and does not belong on a network thread.
    """

    is_slow: bool
    finish: Callable[[], OffsetAnswer | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """A replica a consumer might read from."""

    broker_id: BrokerId
    log_end_offset: int
    behind_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A hosted partition at one moment, for reports and waits."""

    topic_partition: TopicPartition
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    follower_end_offsets: Mapping[BrokerId, int]
