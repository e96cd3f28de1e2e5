"""Runs pytest as a user does."""

from contextlib import suppress
from typing import Any

import pytest

# pytester forgets what a run in this process has loaded, and numpy cannot be loaded twice.
with suppress(ImportError):
    import numpy  # noqa: F401

OTHERS = (
    *("anyio", "asyncio", "cacheprovider", "html", "html_fixtures", "hypothesispytest"),
    *("metadata", "platformdirs", "time_machine", "timeout"),
)


@pytest.fixture(autouse=True)
def only_our_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out other plugins, which take long to load; a test of one deletes PYTEST_ADDOPTS."""
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(f"-p no:{name}" for name in OTHERS))


@pytest.fixture
def run(pytester: pytest.Pytester) -> Any:
    """Runs pytest in a process of its own, apart from our warnings and clusters."""
    pytester.plugins = []
    return lambda *arguments: pytester.runpytest_subprocess(*arguments)
