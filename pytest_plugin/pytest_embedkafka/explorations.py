"""Explorations in tests: their seeds, and what they did.

In CI a test explores the same schedules in every run: its seed derives from its id. Elsewhere seeds
are random, and one that refuted a job is kept in pytest's cache, under the test's id, and repeated
before others until the test passes. Each test has its own entry, so workers of pytest-xdist
never write the same one.
"""

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import pytest

from pytest_embedkafka.fixtures import progress_of
from pytest_embedkafka.options import explore_seed

_OPEN: Final = pytest.StashKey[ExitStack]()
_PROPERTY: Final = "explored"
_CI: Final = "CI"
_OVERRIDE: Final = "EMBEDKAFKA_EXPLORE_SEED"
_DEFAULT: Final = "EMBEDKAFKA_EXPLORE_DEFAULT_SEED"
_REPEAT: Final = "EMBEDKAFKA_EXPLORE_REPEAT"
_LOGGER: Final = "embedkafka.explore.exploration"
_PROGRESS: Final = "embedkafka.explore.progress"
_REFUTED: Final = ("embedkafka.explore", "Refuted")
_SEED: Final = re.compile(r"\d{1,20}/\d{1,5}")


def pass_seed(config: pytest.Config) -> None:
    """Hands the run's seed to `explore`, which knows nothing of pytest."""
    if (seed := explore_seed(config)) is not None:
        patch = pytest.MonkeyPatch()
        patch.setenv(_OVERRIDE, seed)
        config.add_cleanup(patch.undo)


def begin_explorations(item: pytest.Item) -> None:
    """Hands the test's seed to its explorations, and notes what they do."""
    item.stash[_OPEN] = ExitStack()
    item.stash[_OPEN].enter_context(_exploring(item))


def end_explorations(item: pytest.Item) -> None:
    if (opened := item.stash.get(_OPEN, None)) is not None:  # another plugin may have failed first
        opened.close()


def keep_refutation(
    item: pytest.Item, report: pytest.TestReport, excinfo: "pytest.ExceptionInfo[Any] | None"
) -> None:
    """Keeps the seed that refuted the test's job; forgets it when the test has passed with it."""
    cache = _cache(item.config)
    if cache is None or os.environ.get(_CI):
        return
    if report.failed and (seed := _refuting_seed(excinfo)) is not None:
        cache.set(_key(item), {"test": _test_id(item), "seed": seed})
    elif report.passed and not os.environ.get(_OVERRIDE) and _kept_seed(item) is not None:
        cache.set(_key(item), None)


def exploration_lines(reports: dict[str, list[Any]]) -> list[str]:
    """What explorations did, below their tests. Any: pytest's reports, also from workers."""
    called = [
        report
        for category in reports.values()
        for report in category
        if getattr(report, "when", None) == "call"
    ]
    return [
        f"{report.nodeid}: {text}"
        for report in called
        for name, text in report.user_properties
        if name == _PROPERTY
    ]


@contextmanager
def _exploring(item: pytest.Item) -> Iterator[None]:
    def note(text: str) -> None:
        item.user_properties.append((_PROPERTY, text))

    told = progress_of(item.config) if _is_watched(item.config) else lambda text: None
    with pytest.MonkeyPatch.context() as patch:
        for variable in (_DEFAULT, _REPEAT):  # of a run of pytest whose test has started this one
            patch.delenv(variable, raising=False)
        if os.environ.get(_CI):
            patch.setenv(_DEFAULT, _derived_seed(item))
        elif (seed := _kept_seed(item)) is not None:
            patch.setenv(_REPEAT, seed)
        with _hearing(_LOGGER, note), _hearing(_PROGRESS, told):
            yield


@contextmanager
def _hearing(name: str, hear: Callable[[str], None]) -> Iterator[None]:
    """Passes on what a logger is told."""
    logger = logging.getLogger(name)
    level = logger.level

    def listen(record: logging.LogRecord) -> bool:
        hear(record.getMessage())
        return True

    logger.addFilter(listen)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeFilter(listen)


def _is_watched(config: pytest.Config) -> bool:
    """Whether to show progress: on a terminal, and in a log only with `-v`."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    return terminal is not None and (terminal.verbosity > 0 or terminal.isatty)


def _derived_seed(item: pytest.Item) -> str:
    return str(int(_digest(item)[:8], 16))


def _kept_seed(item: pytest.Item) -> str | None:
    cache = _cache(item.config)
    found = None if cache is None else cache.get(_key(item), None)
    seed = found.get("seed") if isinstance(found, dict) else None
    return seed if isinstance(seed, str) and _SEED.fullmatch(seed) else None


def _refuting_seed(excinfo: "pytest.ExceptionInfo[Any] | None") -> str | None:
    if excinfo is None or (excinfo.type.__module__, excinfo.typename) != _REFUTED:
        return None
    seed = excinfo.value.seed
    return seed if isinstance(seed, str) else None


def _cache(config: pytest.Config) -> "pytest.Cache | None":
    """None with `-p no:cacheprovider`."""
    return getattr(config, "cache", None)


def _key(item: pytest.Item) -> str:
    return f"embedkafka/explore/{_digest(item)[:20]}"


def _digest(item: pytest.Item) -> str:
    return hashlib.sha256(_test_id(item).encode(errors="surrogatepass")).hexdigest()


def _test_id(item: pytest.Item) -> str:
    """The node's id without the group that pytest-xdist adds to it."""
    test, at, group = item.nodeid.rpartition("@")
    return test if at and "]" not in group else item.nodeid
