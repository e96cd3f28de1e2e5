"""`--sim-seed` repeats histories and `--sim-seeds` runs more. The default seed is random."""

import random

import pytest

DEFAULT_SEEDS = 60
"""Histories of each kind; they take a few seconds."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sim")
    group.addoption("--sim-seed", type=int, default=None, help="seed of the first history")
    group.addoption(
        "--sim-seeds", type=int, default=DEFAULT_SEEDS, help="number of histories of each kind"
    )


@pytest.fixture(scope="session")
def sim_seeds(pytestconfig: pytest.Config) -> range:
    # pytest does not register these options when a run is started in another directory.
    given = pytestconfig.getoption("sim_seed", None)
    first = random.SystemRandom().randrange(10**6) if given is None else given
    return range(first, first + pytestconfig.getoption("sim_seeds", DEFAULT_SEEDS))
