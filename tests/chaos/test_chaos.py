"""No acknowledged record is lost and no transaction is torn, whatever happens to the cluster.

The known cases and the same seeds each time; `make chaos` draws others, and so does CI at night.
"""

from pathlib import Path

import pytest

from tests.chaos.__main__ import ROUND_S, run_rounds
from tests.chaos.plan import CASES

SEEDS = (3,)
"""With turns of the usual length: short ones look for faults, which is for the night."""


@pytest.mark.timeout(10 * ROUND_S)
def test_rounds_of_chaos(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rounds = [*((SEEDS[0], case) for case in CASES), *((seed, None) for seed in SEEDS)]
    with capfd.disabled():  # show the rounds while they run
        assert run_rounds(rounds, 2, tmp_path / "evidence"), "some rounds failed: see above"
