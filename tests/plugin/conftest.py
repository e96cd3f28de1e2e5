"""Runs pytest as a user does."""

from typing import Any

import pytest
from _pytest.pytester import SysModulesSnapshot

OTHERS = (
    *("anyio", "asyncio", "cacheprovider", "html", "html_fixtures", "hypothesispytest"),
    *("metadata", "platformdirs", "time_machine", "timeout"),
)


@pytest.fixture(autouse=True)
def only_our_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out other plugins, which take long to load; a test of one deletes PYTEST_ADDOPTS."""
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(f"-p no:{name}" for name in OTHERS))


@pytest.fixture(autouse=True)
def keep_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets pytester forget only what tests have loaded.

    It forgets all that a run in this process has loaded. Of modules that load others when they
    need them, there would then be two; and numpy cannot be loaded twice.
    """
    monkeypatch.setattr(
        "_pytest.pytester.SysModulesSnapshot",
        lambda preserve: SysModulesSnapshot(
            lambda name: preserve(name) or name.partition(".")[0] in ("embedkafka", "numpy")
        ),
    )


@pytest.fixture
def run(pytester: pytest.Pytester) -> Any:
    """Runs pytest in a process of its own, apart from our warnings and clusters."""
    pytester.plugins = []
    return lambda *arguments: pytester.runpytest_subprocess(*arguments)
