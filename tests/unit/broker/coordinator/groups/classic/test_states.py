import itertools

import pytest

from embedkafka.broker.coordinator.groups.classic.states import (
    PREDECESSORS,
    ClassicGroupState,
    IllegalGroupTransition,
    can_move,
    move,
)

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = ClassicGroupState

LEGAL = {
    (PREPARING, EMPTY),
    (STABLE, PREPARING),
    (COMPLETING, PREPARING),
    (EMPTY, PREPARING),
    (PREPARING, COMPLETING),
    (COMPLETING, STABLE),
    *((state, DEAD) for state in ClassicGroupState),
}


@pytest.mark.parametrize(
    ("source", "target"), list(itertools.product(ClassicGroupState, ClassicGroupState))
)
def test_every_pair_of_states_is_legal_or_raises(
    source: ClassicGroupState, target: ClassicGroupState
) -> None:
    assert can_move(source, target) is ((source, target) in LEGAL)
    if (source, target) in LEGAL:
        assert move(source, target) is target
    else:
        with pytest.raises(IllegalGroupTransition):
            move(source, target)


def test_every_state_has_a_row() -> None:
    assert set(PREDECESSORS) == set(ClassicGroupState)
