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


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = ClassicGroupState
_UNLOADED: Final = "coordinator moved"

PREDECESSORS: Final[Mapping[ClassicGroupState, Mapping[ClassicGroupState, str]]] = {
    _EMPTY: {_PREPARING: "last member gone"},
    _PREPARING: {
        _STABLE: "member joined, left or failed",
        _COMPLETING: "member joined, left or failed",
        _EMPTY: "first member joined",
    },
    _COMPLETING: {_PREPARING: "all members joined, or time up"},
    _STABLE: {_COMPLETING: "assignment stored"},
    _DEAD: {
        _STABLE: _UNLOADED,
        _PREPARING: _UNLOADED,
        _COMPLETING: _UNLOADED,
        _EMPTY: "group deleted or expired, or coordinator moved",
        _DEAD: _UNLOADED,
    },
}
"""The states that may come before each state, and the event that makes the move."""


class IllegalGroupTransition(AssertionError):
    """A move that the table does not allow: a bug in the coordinator."""


def can_move(source: ClassicGroupState, target: ClassicGroupState) -> bool:
    return source in PREDECESSORS[target]


def move(source: ClassicGroupState, target: ClassicGroupState) -> ClassicGroupState:
    """The new state, or `IllegalGroupTransition`."""
    if not can_move(source, target):
        raise IllegalGroupTransition(f"a group cannot move from {source.value} to {target.value}")
    return target
