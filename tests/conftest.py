import gc
import os
import random
import signal
import sys
from collections import Counter
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from embedkafka.cluster import embedded
from embedkafka.runtime.locks import check_lock_ranks
from tests.chaos.switching import HASTY_S

check_lock_ranks(True)

# A shell makes what it starts in the background ignore SIGINT. Some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Timing on a busy machine says nothing about the code, so examples have no deadline. Our
# function-scoped fixtures hand out something fresh for each example.
settings.register_profile(
    "new-examples",
    derandomize=False,  # with CI set, Hypothesis repeats the same examples by itself
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    database=None,
    print_blob=True,
)
settings.register_profile(
    "same-examples", settings.get_profile("new-examples"), derandomize=True, max_examples=50
)
settings.load_profile("same-examples")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--new-examples",
        action="store_true",
        help="draw new examples for property tests instead of repeating the same ones",
    )
    parser.addoption(
        "--shuffle",
        metavar="SEED",
        type=int,
        nargs="?",
        const=-1,
        help="shuffle modules, and the tests of each, and let clusters choose otherwise; without "
        "a SEED, draw one",
    )
    parser.addoption(
        "--hasty",
        action="store_true",
        help="let threads take turns of 20 µs instead of 5 ms, which brings out races",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--new-examples", default=False):
        settings.load_profile("new-examples")
    if config.getoption("--shuffle", default=None) == -1:
        config.option.shuffle = random.SystemRandom().randrange(10**6)
    config.add_cleanup(partial(vars(embedded).update, random=vars(embedded)["random"]))
    vars(embedded)["random"] = _choices(config.getoption("--shuffle", default=None) or 0)
    if config.getoption("--hasty", default=False):
        sys.setswitchinterval(HASTY_S)


def _choices(seed: int) -> SimpleNamespace:
    """What clusters use of `random`: without a seed they choose the same in every run of a test."""
    made = Counter[str]()

    def rng(given: int | None) -> random.Random:
        if given is not None:
            return random.Random(given)
        test = os.environ.get("PYTEST_CURRENT_TEST", "")
        made[test] += 1
        return random.Random(f"{seed} {test} {made[test]}")

    return SimpleNamespace(Random=rng)


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("--shuffle", default=None)
    return None if seed is None else f"--shuffle {seed}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("--shuffle", default=None)
    if seed is not None:
        _shuffle(items, random.Random(seed))
    for item in items:  # the time that Maven may need to download, on a machine that is new
        names = {mark.name for mark in item.iter_markers()}
        if names & {"java", "gate", "slow"} and "timeout" not in names:
            item.add_marker(pytest.mark.timeout(600))


def pytest_collection_finish() -> None:
    """Spares the million objects of the collection each later run of the garbage collector."""
    if sys.version_info < (3, 14):  # there, Hypothesis asks the collector for one of them
        gc.collect()
        gc.freeze()


def _shuffle(items: list[pytest.Item], rng: random.Random) -> None:
    """Keeps the tests of a module together, because they share fixtures."""
    places = {path: rng.random() for path in sorted({item.path for item in items})}
    items.sort(key=lambda item: (places[item.path], rng.random()))
