"""What pytest loads first: the plugin, or one line if this pytest is too old for it.

An error here would end the run of tests that do not use Kafka.
"""

from typing import Any, Final

import pluggy
import pytest

_OLDEST: Final = {pytest: (7, 4), pluggy: (1, 2)}
"""`pytest.Config.stash` and hooks with `wrapper=True` need them."""


def _version(module: Any) -> tuple[int, ...]:
    """The first two numbers of its version. Any: a module."""
    return tuple(int(number) for number in module.__version__.split(".")[:2])


if all(_version(module) >= oldest for module, oldest in _OLDEST.items()):
    pytest_plugins = ["pytest_embedkafka.plugin"]
else:

    def pytest_terminal_summary(terminalreporter: Any) -> None:
        """Says why there are no fixtures. Any: its class has no public name in an old pytest."""
        needed = " and ".join(
            f"{module.__name__} {'.'.join(map(str, oldest))}" for module, oldest in _OLDEST.items()
        )
        found = " and ".join(f"{module.__name__} {module.__version__}" for module in _OLDEST)
        terminalreporter.line(
            f"embedkafka: its fixtures, marks and options need {needed} or newer; this is {found}"
        )
