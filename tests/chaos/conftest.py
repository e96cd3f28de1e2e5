"""`--chaos-seed` repeats rounds and `--chaos-rounds` runs more. The default seed is random."""

import random

import pytest

DEFAULT_ROUNDS = 2
"""With the known cases, about a minute."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chaos")
    group.addoption("--chaos-seed", type=int, default=None, help="seed of the first round")
    group.addoption("--chaos-rounds", type=int, default=DEFAULT_ROUNDS, help="number of seeds")


@pytest.fixture(scope="session")
def chaos_seed(pytestconfig: pytest.Config) -> int:
    # pytest does not register these options when a run is started in another directory.
    given = pytestconfig.getoption("chaos_seed", None)
    return random.SystemRandom().randrange(1, 10**6) if given is None else given


@pytest.fixture(scope="session")
def chaos_rounds(pytestconfig: pytest.Config) -> int:
    return pytestconfig.getoption("chaos_rounds", DEFAULT_ROUNDS)
