"""The five states of a classic group, and every move between them.

What each state answers:

| request      | Empty            | PreparingRebalance   | CompletingRebalance  | Stable              | Dead |
|--------------|------------------|----------------------|----------------------|---------------------|------|
| JoinGroup    | starts rebalance | parks until all join | same protocols: the  | leader or changed   | COORDINATOR_NOT_AVAILABLE |
|              |                  |                      | generation; else     | protocols: starts   |      |
|              |                  |                      | starts over          | rebalance; else the |      |
|              |                  |                      |                      | generation          |      |
| SyncGroup    | UNKNOWN_MEMBER_ID| REBALANCE_IN_PROGRESS| parks until the      | the assignment      | COORDINATOR_NOT_AVAILABLE |
|              |                  |                      | leader's is stored   |                     |      |
| Heartbeat    | UNKNOWN_MEMBER_ID| REBALANCE_IN_PROGRESS| NONE                 | NONE                | COORDINATOR_NOT_AVAILABLE |
| LeaveGroup   | UNKNOWN_MEMBER_ID| removes, may complete| removes, starts over | removes, rebalances | COORDINATOR_NOT_AVAILABLE |
| OffsetCommit | generation -1:   | members only         | REBALANCE_IN_PROGRESS| members only        | COORDINATOR_NOT_AVAILABLE |
|              | anyone           |                      | (not in transactions)|                     |      |
| OffsetFetch  | offsets          | offsets              | offsets              | offsets             | none |
| OffsetDelete | any topic        | topics that no member of a consumer group subscribes                    || GROUP_ID_NOT_FOUND |
| DeleteGroups | deletes          | NON_EMPTY_GROUP      | NON_EMPTY_GROUP      | NON_EMPTY_GROUP     | GROUP_ID_NOT_FOUND |
"""  # noqa: E501 - a table of five states

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ClassicGroupState(Enum):
    """Values are the names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


PREDECESSORS: Final[Mapping[ClassicGroupState, frozenset[ClassicGroupState]]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY}
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.COMPLETING_REBALANCE}),
    ClassicGroupState.DEAD: frozenset(
        {
            ClassicGroupState.STABLE,
            ClassicGroupState.PREPARING_REBALANCE,
            ClassicGroupState.COMPLETING_REBALANCE,
            ClassicGroupState.EMPTY,
            ClassicGroupState.DEAD,
        }
    ),
}


class IllegalGroupTransition(AssertionError):
    """A move that the table does not allow: a bug in the coordinator."""


def can_move(source: ClassicGroupState, target: ClassicGroupState) -> bool:
    return source in PREDECESSORS[target]


def move(source: ClassicGroupState, target: ClassicGroupState) -> ClassicGroupState:
    """The new state, or `IllegalGroupTransition`."""
    if not can_move(source, target):
        raise IllegalGroupTransition(f"a group cannot move from {source.value} to {target.value}")
    return target
