"""The states of a replica, its legal moves, and the writes and requests for each move.

- NEW: created with its partition or by a reassignment; it can only become a follower.
- ONLINE: its broker is up and it is part of the assignment.
- OFFLINE: its broker or log directory is down, or it received StopReplica.
- DELETION_STARTED: its broker was sent the deletion and has not answered.
- DELETION_SUCCESSFUL: the log is gone.
- DELETION_INELIGIBLE: the deletion failed, or the broker is down; it is retried later.
- NON_EXISTENT: no such replica.

An illegal move raises and changes nothing.
Not here: writing znodes and sending requests (`state_changes`).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

from embedkafka.broker.controller.context import ControllerContext, PartitionAndReplica
from embedkafka.broker.controller.partition_machine import IllegalMove
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import dataclass, field


class ReplicaState(Enum):
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    NON_EXISTENT = "NonExistentReplica"


_NEW, _ONLINE, _OFFLINE, _STARTED, _SUCCESSFUL, _INELIGIBLE, _NON_EXISTENT = ReplicaState

PREDECESSORS: Final[Mapping[ReplicaState, Mapping[ReplicaState, str]]] = {
    _NEW: {_NON_EXISTENT: "partition created, or replica added"},
    _ONLINE: {
        _NEW: "partition has a leader, or the reassignment completes",
        _ONLINE: "state sent again",
        _OFFLINE: "broker returned",
        _INELIGIBLE: "broker returned, topic kept",
    },
    _OFFLINE: {
        _NEW: "broker lost, or replica unwanted",
        _ONLINE: "broker lost or shut down, disk lost, or replica unwanted",
        _OFFLINE: "broker lost after its shutdown",
        _INELIGIBLE: "deletion tried again",
    },
    _STARTED: {_OFFLINE: "deletion sent"},
    _SUCCESSFUL: {_STARTED: "log deleted"},
    _INELIGIBLE: {
        _OFFLINE: "broker lost before the deletion",
        _STARTED: "deletion failed, or broker lost",
    },
    _NON_EXISTENT: {_SUCCESSFUL: "all live replicas deleted"},
}
"""The states that may come before each state, and the event that makes the move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMoves:
    """The steps that move one broker's replicas to a state.

    `at_once` move without a write; `shrink` move once the broker is out of their ISR.
    """

    at_once: Sequence[PartitionAndReplica] = ()
    shrink: Sequence[TopicPartition] = ()
    leader_and_isr: Sequence[TopicPartition] = ()
    is_new: bool = False
    stop: Sequence[TopicPartition] = ()
    delete: bool = False
    update_metadata: Sequence[TopicPartition] = ()
    refused: Mapping[PartitionAndReplica, str] = field(default_factory=dict)


def state_of(context: ControllerContext, replica: PartitionAndReplica) -> ReplicaState:
    return context.replica_states.get(replica, _NON_EXISTENT)


def move(context: ControllerContext, replica: PartitionAndReplica, target: ReplicaState) -> None:
    """The one place where a replica changes state."""
    current = state_of(context, replica)
    if current not in PREDECESSORS[target]:
        raise IllegalMove(
            f"replica {replica.broker} of {replica.partition} cannot move "
            f"from {current.value} to {target.value}"
        )
    if target is _NON_EXISTENT:
        remaining = context.assignment(replica.partition).without(replica.broker)
        context.set_assignment(replica.partition, remaining)
        context.replica_states.pop(replica, None)
    else:
        context.replica_states[replica] = target


def start(context: ControllerContext) -> None:
    """First states under a new controller.

    A replica on a dead broker may belong to a topic that the last controller had begun to delete.
    DELETION_INELIGIBLE fits that case, and the other replicas can move on to OFFLINE.
    """
    for replica in context.replicas_of(context.partitions()):
        online = context.is_online(replica.broker, replica.partition)
        context.replica_states[replica] = _ONLINE if online else _INELIGIBLE


def decide(
    context: ControllerContext,
    broker: int,
    replicas: Iterable[PartitionAndReplica],
    target: ReplicaState,
) -> ReplicaMoves:
    """The steps that move `replicas`, all on `broker`, to `target`."""
    legal: list[PartitionAndReplica] = []
    refused: dict[PartitionAndReplica, str] = {}
    for replica in replicas:
        current = state_of(context, replica)
        if current in PREDECESSORS[target]:
            legal.append(replica)
        else:
            refused[replica] = f"it cannot move from {current.value} to {target.value}"
    if target is _NEW:
        return _decide_new(context, broker, legal, refused)
    if target is _ONLINE:
        return _decide_online(context, legal, refused)
    if target is _OFFLINE:
        return _decide_offline(context, legal, refused)
    if target is _STARTED:
        stop = [r.partition for r in legal]
        return ReplicaMoves(at_once=legal, stop=stop, delete=True, refused=refused)
    return ReplicaMoves(at_once=legal, refused=refused)


def _decide_new(
    context: ControllerContext,
    broker: int,
    legal: list[PartitionAndReplica],
    refused: dict[PartitionAndReplica, str],
) -> ReplicaMoves:
    """A new replica learns its leader at once, if there is one."""
    moves: list[PartitionAndReplica] = []
    tell: list[TopicPartition] = []
    for replica in legal:
        state = context.leadership.get(replica.partition)
        if state is not None and state.leader == broker:
            refused[replica] = "it leads its partition, so it cannot be new"
            continue
        moves.append(replica)
        if state is not None:
            tell.append(replica.partition)
    return ReplicaMoves(at_once=moves, leader_and_isr=tell, is_new=True, refused=refused)


def _decide_online(
    context: ControllerContext,
    legal: list[PartitionAndReplica],
    refused: dict[PartitionAndReplica, str],
) -> ReplicaMoves:
    """A NEW replica already has its partition's state; any other one is sent it."""
    tell = [
        r.partition
        for r in legal
        if state_of(context, r) is not _NEW and r.partition in context.leadership
    ]
    return ReplicaMoves(at_once=legal, leader_and_isr=tell, refused=refused)


def _decide_offline(
    context: ControllerContext,
    legal: list[PartitionAndReplica],
    refused: dict[PartitionAndReplica, str],
) -> ReplicaMoves:
    shrink = [r.partition for r in legal if r.partition in context.leadership]
    leaderless = [r for r in legal if r.partition not in context.leadership]
    return ReplicaMoves(
        at_once=leaderless,
        shrink=shrink,
        stop=[r.partition for r in legal],
        update_metadata=[r.partition for r in leaderless],
        refused=refused,
    )
