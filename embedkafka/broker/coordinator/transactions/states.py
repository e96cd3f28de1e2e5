"""The states of a transactional id, and every move between them.

What each state answers (a request in the middle of a move answers CONCURRENT_TRANSACTIONS):

state             | InitProducerId          | AddPartitions           | EndTxn
------------------|-------------------------|-------------------------|---------------------------
Empty             | next epoch              | begins the transaction  | INVALID_TXN_STATE
Ongoing           | aborts, then            | adds                    | prepares
                  | CONCURRENT_TRANSACTIONS |                         |
PrepareCommit,    | CONCURRENT_TRANSACTIONS | CONCURRENT_TRANSACTIONS | CONCURRENT_TRANSACTIONS
PrepareAbort      |                         |                         |
CompleteCommit,   | next epoch              | begins the next one     | NONE, or INVALID_TXN_STATE
CompleteAbort     |                         |                         | for the other outcome
Dead              | the id is being deleted: clients never see this state
PrepareEpochFence | never stored: between Ongoing and PrepareAbort under a new epoch

From v5 of EndTxn on (KIP-890) every end moves to a new epoch. A client that aborts under the
current epoch means a transaction that never reached the coordinator, which aborts it too, from
Empty and from both Complete states.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, Self


class TxnState(Enum):
    """Values are the ids in the transaction log; clients see `label`."""

    label: str

    def __new__(cls, number: int, label: str) -> Self:
        member = object.__new__(cls)
        member._value_ = number
        member.label = label
        return member

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"


_SETTLED: Final = frozenset({TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT})

STATES_BY_NUMBER: Final[Mapping[int, TxnState]] = {state.value: state for state in TxnState}
STATES_BY_LABEL: Final[Mapping[str, TxnState]] = {state.label: state for state in TxnState}

_INITIALIZED: Final = dict.fromkeys(_SETTLED, "InitProducerId")
_BEGUN: Final = dict.fromkeys(_SETTLED, "first partition added")
_UNSEEN: Final = dict.fromkeys(_SETTLED, "abort of a transaction that never arrived")
_UNUSED: Final = dict.fromkeys(_SETTLED, "transactional id expired")

PREDECESSORS: Final[Mapping[TxnState, Mapping[TxnState, str]]] = {
    TxnState.EMPTY: _INITIALIZED,
    TxnState.ONGOING: {**_BEGUN, TxnState.ONGOING: "partition added"},
    TxnState.PREPARE_COMMIT: {TxnState.ONGOING: "EndTxn commits"},
    TxnState.PREPARE_ABORT: {
        **_UNSEEN,
        TxnState.ONGOING: "EndTxn aborts",
        TxnState.PREPARE_EPOCH_FENCE: "abort prepared under the new epoch",
    },
    TxnState.COMPLETE_COMMIT: {TxnState.PREPARE_COMMIT: "all markers written"},
    TxnState.COMPLETE_ABORT: {TxnState.PREPARE_ABORT: "all markers written"},
    TxnState.DEAD: _UNUSED,
    TxnState.PREPARE_EPOCH_FENCE: {TxnState.ONGOING: "InitProducerId, or time up"},
}
"""The states that may come before each state, and the event that makes the move."""

EXPIRABLE: Final = _SETTLED
"""States in which an unused transactional id may be deleted."""

PREPARED: Final = frozenset({TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT})
"""States in which the outcome is stored and markers are in flight."""


class IllegalTxnTransition(AssertionError):
    """A move that the table does not allow: a bug in the coordinator."""


def can_move(source: TxnState, target: TxnState) -> bool:
    return source in PREDECESSORS[target]


def move(source: TxnState, target: TxnState) -> TxnState:
    """The new state, or `IllegalTxnTransition`."""
    if not can_move(source, target):
        raise IllegalTxnTransition(
            f"a transaction cannot move from {source.label} to {target.label}"
        )
    return target
