"""`--chaos-seed` repeats a plan, `--chaos-rounds` runs more of them."""

DEFAULT_SEED = 1
DEFAULT_ROUNDS = 1


def pytest_addoption(parser):
    group = parser.getgroup("chaos")
    group.addoption("--chaos-seed", type=int, default=DEFAULT_SEED, help="of the first round")
    group.addoption("--chaos-rounds", type=int, default=DEFAULT_ROUNDS, help="how many seeds")


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        # The options are not there when a run starts elsewhere and comes by here.
        first = metafunc.config.getoption("chaos_seed", DEFAULT_SEED)
        rounds = metafunc.config.getoption("chaos_rounds", DEFAULT_ROUNDS)
        metafunc.parametrize("seed", range(first, first + rounds))
