"""Half of the rounds have short turns, and leave the usual ones behind."""

import sys

import pytest

from tests.chaos.switching import HASTY_S, USUAL_S, turn_s, turns_of


def test_seeds_choose_both_lengths() -> None:
    assert {turn_s(seed) for seed in range(20)} == {USUAL_S, HASTY_S}


def test_turns_last_as_long_as_the_round() -> None:
    before = sys.getswitchinterval()
    for seed in range(20):
        with turns_of(seed):
            assert sys.getswitchinterval() == pytest.approx(turn_s(seed))
        assert sys.getswitchinterval() == before
