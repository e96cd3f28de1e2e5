"""No history breaks a rule or loses a committed record. Seeds are random and printed.

`python -m tests.sim --seeds 10000` runs more, `--seed S` repeats one.
"""

import pytest

from tests.sim.runs import KINDS


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_no_history_breaks_a_rule(
    kind: str, sim_seeds: range, capfd: pytest.CaptureFixture[str]
) -> None:
    with capfd.disabled():  # show the seeds whatever happens
        print(f"\nsimulation of {kind}: seeds {sim_seeds.start} to {sim_seeds.stop - 1}")
    for seed in sim_seeds:
        KINDS[kind](seed)
