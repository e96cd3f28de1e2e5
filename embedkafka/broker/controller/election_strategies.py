"""The rules for electing leaders: four strategies, each a function of the replicas and the ISR.

All follow the order of the assignment, whose first replica is the preferred leader. None means that
no replica may lead, and the partition stays as it is.
"""

from collections.abc import Collection
from enum import Enum

from embedkafka.runtime.ids import NO_LEADER
from embedkafka.runtime.values import dataclass, replace
from embedkafka.zk.payloads import RECOVERING, LeaderAndIsr, ReplicaAssignment


class Strategy(Enum):
    """The reason for an election; it determines which replicas are eligible."""

    OFFLINE = "offline partition"
    OFFLINE_ALLOW_UNCLEAN = "offline partition, unclean allowed"
    REASSIGN = "reassigned partition"
    PREFERRED = "preferred replica"
    CONTROLLED_SHUTDOWN = "controlled shutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """A partition's state at its election."""

    assignment: ReplicaAssignment
    state: LeaderAndIsr
    online: Collection[int]
    """Replicas on live brokers; in a controlled shutdown, also on those shutting down."""
    shutting_down: Collection[int] = ()
    unclean: bool = False
    """Whether a replica outside the ISR may lead when no ISR member is online."""


def elect(strategy: Strategy, candidates: Candidates) -> LeaderAndIsr | None:
    """The partition's next state, one leader epoch later, or None."""
    if strategy is Strategy.REASSIGN:
        return _elect_in_sync(candidates, candidates.assignment.target)
    if strategy is Strategy.PREFERRED:
        return _elect_in_sync(candidates, candidates.assignment.replicas[:1])
    if strategy is Strategy.CONTROLLED_SHUTDOWN:
        return _elect_for_shutdown(candidates)
    return _elect_for_offline(candidates)


def recipients(strategy: Strategy, candidates: Candidates) -> tuple[int, ...]:
    """The replicas that receive the outcome of an election."""
    if strategy is Strategy.REASSIGN:
        return candidates.assignment.target
    if strategy is Strategy.PREFERRED:
        return candidates.assignment.replicas
    return tuple(r for r in candidates.assignment.replicas if r in candidates.online)


def first_state(
    assignment: ReplicaAssignment, online: Collection[int], *, controller_epoch: int
) -> LeaderAndIsr | None:
    """A new partition's state: all online replicas are in sync and the first one leads."""
    isr = tuple(r for r in assignment.replicas if r in online)
    if not isr:
        return None
    return LeaderAndIsr(leader=isr[0], isr=isr, controller_epoch=controller_epoch)


def without_replica(state: LeaderAndIsr, broker: int) -> LeaderAndIsr:
    """The state without `broker`; the last member of an ISR always stays in it."""
    leader = NO_LEADER if state.leader == broker else state.leader
    isr = state.isr if len(state.isr) == 1 else tuple(r for r in state.isr if r != broker)
    return state.with_leader(leader, isr)


def _elect_for_offline(candidates: Candidates) -> LeaderAndIsr | None:
    replicas, state, online = candidates.assignment.replicas, candidates.state, candidates.online
    leader = next((r for r in replicas if r in online and r in state.isr), None)
    if leader is not None:
        return state.with_leader(leader, (r for r in state.isr if r in online))
    leader = next((r for r in replicas if r in online), None) if candidates.unclean else None
    if leader is None:
        return None
    return replace(state.with_leader(leader, (leader,)), leader_recovery_state=RECOVERING)


def _elect_in_sync(candidates: Candidates, eligible: Collection[int]) -> LeaderAndIsr | None:
    state, online = candidates.state, candidates.online
    leader = next((r for r in eligible if r in online and r in state.isr), None)
    return None if leader is None else state.with_leader(leader)


def _elect_for_shutdown(candidates: Candidates) -> LeaderAndIsr | None:
    state, leaving = candidates.state, candidates.shutting_down
    leader = next(
        (
            r
            for r in candidates.assignment.replicas
            if r in candidates.online and r in state.isr and r not in leaving
        ),
        None,
    )
    if leader is None:
        return None
    return state.with_leader(leader, (r for r in state.isr if r not in leaving))
