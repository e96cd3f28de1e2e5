"""No history breaks a rule or loses a committed record.

The same seeds each time; `make sim` draws others, and so does CI at night.
"""

import pytest

from tests.sim.runs import KINDS

SEEDS = range(30)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_no_history_breaks_a_rule(kind: str) -> None:
    for seed in SEEDS:
        KINDS[kind](seed)
