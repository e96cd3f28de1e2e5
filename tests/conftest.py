import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

from embedkafka.runtime.locks import check_lock_ranks
from tests.chaos.switching import HASTY_S

check_lock_ranks(True)

# A shell makes what it starts in the background ignore SIGINT. Some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Timing on a busy machine says nothing about the code, so examples have no deadline. Our
# function-scoped fixtures hand out something fresh for each example.
settings.register_profile(
    "unhurried",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--hasty",
        action="store_true",
        help="let threads take turns of 20 µs instead of 5 ms, which brings out races",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hasty", default=False):
        sys.setswitchinterval(HASTY_S)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives tests of Java the time that Maven may need to download, on a machine that is new."""
    for item in items:
        if item.get_closest_marker("java") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))
