"""No acknowledged record is lost and no transaction is torn, whatever happens to the cluster.

A few rounds from a random seed. `python -m tests.chaos --seed S` repeats one, and `make chaos
SEED=… ROUNDS=…` runs more.
"""

from pathlib import Path

import pytest

from tests.chaos.__main__ import ROUND_S, run_rounds
from tests.chaos.plan import CASES


@pytest.mark.timeout(10 * ROUND_S)
def test_rounds_of_chaos(
    chaos_seed: int, chaos_rounds: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rounds = [(chaos_seed, case) for case in CASES]
    rounds += [(seed, None) for seed in range(chaos_seed, chaos_seed + chaos_rounds)]
    with capfd.disabled():  # show the seed whatever happens
        print(f"\nchaos: seed {chaos_seed}, {chaos_rounds} rounds and {len(CASES)} known cases")
        assert run_rounds(rounds, 2, tmp_path / "evidence"), "some rounds failed: see above"
