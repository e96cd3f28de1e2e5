import itertools

import pytest

from embedkafka.broker.coordinator.transactions.states import (
    PREDECESSORS,
    STATES_BY_LABEL,
    STATES_BY_NUMBER,
    IllegalTxnTransition,
    TxnState,
    can_move,
    move,
)

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMMITTED, ABORTED, DEAD, FENCE = TxnState

LEGAL = {
    *((state, EMPTY) for state in (EMPTY, COMMITTED, ABORTED)),
    *((state, ONGOING) for state in (EMPTY, ONGOING, COMMITTED, ABORTED)),
    (ONGOING, PREPARE_COMMIT),
    *((state, PREPARE_ABORT) for state in (EMPTY, ONGOING, COMMITTED, ABORTED, FENCE)),
    (PREPARE_COMMIT, COMMITTED),
    (PREPARE_ABORT, ABORTED),
    *((state, DEAD) for state in (EMPTY, COMMITTED, ABORTED)),
    (ONGOING, FENCE),
}


@pytest.mark.parametrize(("source", "target"), list(itertools.product(TxnState, TxnState)))
def test_every_pair_of_states_is_legal_or_raises(source: TxnState, target: TxnState) -> None:
    assert can_move(source, target) is ((source, target) in LEGAL)
    if (source, target) in LEGAL:
        assert move(source, target) is target
    else:
        with pytest.raises(IllegalTxnTransition):
            move(source, target)


def test_every_state_has_a_row_a_number_and_a_label() -> None:
    assert set(PREDECESSORS) == set(TxnState)
    assert list(STATES_BY_NUMBER) == list(range(8))
    assert STATES_BY_LABEL["PrepareEpochFence"] is FENCE
