"""The states of a partition, its legal moves, and the writes for a move to ONLINE.

- NON_EXISTENT: never created, or deleted.
- NEW: has replicas, but no leader and ISR yet.
- ONLINE: has a leader.
- OFFLINE: had a leader whose broker or log directory failed.

An illegal move raises and changes nothing.
Not here: writing znodes, sending requests (`state_changes`); who wins (`election_strategies`).
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Final

from embedkafka.broker.controller.context import ControllerContext
from embedkafka.broker.controller.election_strategies import (
    Candidates,
    Strategy,
    elect,
    first_state,
    recipients,
)
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import dataclass
from embedkafka.zk.payloads import LeaderAndIsr


class PartitionState(Enum):
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"
    NON_EXISTENT = "NonExistentPartition"


_NEW, _ONLINE, _OFFLINE, _NON_EXISTENT = PartitionState

PREDECESSORS: Final[Mapping[PartitionState, Mapping[PartitionState, str]]] = {
    _NEW: {_NON_EXISTENT: "topic created, or given more partitions"},
    _ONLINE: {
        _NEW: "first leader elected",
        _ONLINE: "leadership moved on purpose",
        _OFFLINE: "another replica elected, or the leader returned",
    },
    _OFFLINE: {
        _NEW: "topic deleted before it had a leader",
        _ONLINE: "leader lost, or topic deleted",
        _OFFLINE: "topic deleted while leaderless",
    },
    _NON_EXISTENT: {_OFFLINE: "topic deletion begun"},
}
"""The states that may come before each state, and the event that makes the move."""


class IllegalMove(Exception):
    """The requested state cannot follow the current one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionOutcome:
    """States to write to ZooKeeper, their recipients, and the reasons for having none."""

    states: Mapping[TopicPartition, LeaderAndIsr]
    recipients: Mapping[TopicPartition, tuple[int, ...]]
    refused: Mapping[TopicPartition, str]


def state_of(context: ControllerContext, partition: TopicPartition) -> PartitionState:
    return context.partition_states.get(partition, _NON_EXISTENT)


def move(context: ControllerContext, partition: TopicPartition, target: PartitionState) -> None:
    """The one place where a partition changes state."""
    current = state_of(context, partition)
    if current not in PREDECESSORS[target]:
        raise IllegalMove(
            f"partition {partition} cannot move from {current.value} to {target.value}"
        )
    if target is _NON_EXISTENT:
        context.partition_states.pop(partition, None)
    else:
        context.partition_states[partition] = target


def legal(
    context: ControllerContext, partitions: Iterable[TopicPartition], target: PartitionState
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """The partitions that may move to `target`, and those that may not."""
    may: list[TopicPartition] = []
    may_not: list[TopicPartition] = []
    for partition in partitions:
        ok = state_of(context, partition) in PREDECESSORS[target]
        (may if ok else may_not).append(partition)
    return may, may_not


def start(context: ControllerContext) -> None:
    """Derives every partition's state from a new controller's context, without moves."""
    for partition in context.partitions():
        state = context.leadership.get(partition)
        if state is None:
            context.partition_states[partition] = _NEW
        elif context.is_online(state.leader, partition):
            context.partition_states[partition] = _ONLINE
        else:
            context.partition_states[partition] = _OFFLINE


def waiting_for_leader(
    context: ControllerContext, topic: str | None = None
) -> list[TopicPartition]:
    """Partitions that an election may bring online: NEW or OFFLINE, and not being deleted."""
    return [
        partition
        for partition, state in context.partition_states.items()
        if state in (_NEW, _OFFLINE)
        and not context.is_queued_for_deletion(partition.topic)
        and topic in (None, partition.topic)
    ]


def decide_first_leaders(
    context: ControllerContext, partitions: Iterable[TopicPartition]
) -> ElectionOutcome:
    """Initial states for NEW partitions; the ISR receives them."""
    states: dict[TopicPartition, LeaderAndIsr] = {}
    refused: dict[TopicPartition, str] = {}
    for partition in partitions:
        assignment = context.assignment(partition)
        online = [r for r in assignment.replicas if context.is_online(r, partition)]
        state = first_state(assignment, online, controller_epoch=context.epoch)
        if state is None:
            refused[partition] = (
                f"no assigned replica is alive: assigned {list(assignment.replicas)}, "
                f"live brokers {sorted(context.live)}"
            )
        else:
            states[partition] = state
    told = {partition: state.isr for partition, state in states.items()}
    return ElectionOutcome(states=states, recipients=told, refused=refused)


def topics_without_live_isr(
    context: ControllerContext, current: Mapping[TopicPartition, LeaderAndIsr]
) -> set[str]:
    """Topics whose settings decide whether an unclean election is allowed."""
    return {
        partition.topic
        for partition, state in current.items()
        if not any(context.is_online(replica, partition) for replica in state.isr)
    }


def decide_elections(
    context: ControllerContext,
    strategy: Strategy,
    partitions: Iterable[TopicPartition],
    current: Mapping[TopicPartition, LeaderAndIsr],
    *,
    unclean_topics: Collection[str] = (),
) -> ElectionOutcome:
    """New leaders under `strategy`, given the current states in ZooKeeper."""
    states: dict[TopicPartition, LeaderAndIsr] = {}
    told: dict[TopicPartition, tuple[int, ...]] = {}
    refused: dict[TopicPartition, str] = {}
    for partition in partitions:
        state = current.get(partition)
        if state is None:
            refused[partition] = "it has no leader and ISR in ZooKeeper"
            continue
        if state.controller_epoch > context.epoch:
            refused[partition] = f"controller epoch {state.controller_epoch} has written it already"
            continue
        candidates = _candidates(context, strategy, partition, state, unclean_topics)
        elected = elect(strategy, candidates)
        if elected is None:
            refused[partition] = f"no replica is eligible for strategy {strategy.value}"
            continue
        states[partition] = elected
        told[partition] = recipients(strategy, candidates)
    return ElectionOutcome(states=states, recipients=told, refused=refused)


def _candidates(
    context: ControllerContext,
    strategy: Strategy,
    partition: TopicPartition,
    state: LeaderAndIsr,
    unclean_topics: Collection[str],
) -> Candidates:
    assignment = context.assignment(partition)
    leaving = strategy is Strategy.CONTROLLED_SHUTDOWN
    return Candidates(
        assignment=assignment,
        state=state,
        online=[
            r
            for r in assignment.replicas
            if context.is_online(r, partition, or_shutting_down=leaving)
        ],
        shutting_down=context.shutting_down,
        unclean=strategy is Strategy.OFFLINE_ALLOW_UNCLEAN or partition.topic in unclean_topics,
    )
