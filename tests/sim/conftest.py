"""`--sim-seed` repeats histories, `--sim-seeds` runs more; without, the first seed is random."""

import random
from typing import Any

import pytest

DEFAULT_SEEDS = 60
"""Of each kind; some seconds."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sim")
    group.addoption("--sim-seed", type=int, default=None, help="of the first history")
    group.addoption("--sim-seeds", type=int, default=DEFAULT_SEEDS, help="how many of each kind")


@pytest.fixture(scope="session")
def sim_seeds(pytestconfig: pytest.Config) -> Any:
    # The options are not there when a run starts elsewhere and comes by here.
    given = pytestconfig.getoption("sim_seed", None)
    first = random.SystemRandom().randrange(10**6) if given is None else given
    return range(first, first + pytestconfig.getoption("sim_seeds", DEFAULT_SEEDS))
