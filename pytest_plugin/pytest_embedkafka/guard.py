"""Puts the session-wide cluster right after each test, before fixtures that outlive the test end.

pytest sets up the fixtures of sessions, modules and classes first; what they do to the cluster
stays, unless they fail. With the first fixture of the test itself, or with its body, the test
begins. It ends when the last of its own fixtures is torn down.

Owner: pytest's thread.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from pytest_embedkafka.leaks import find_left_running, find_running
from pytest_embedkafka.marks import find_snapshot, keeps
from pytest_embedkafka.owners import Owners
from pytest_embedkafka.skips import skip_external

if TYPE_CHECKING:
    from embedkafka import Cluster


class Isolation(Protocol):
    """Undoes what a test does to one cluster."""

    def begin(self) -> None: ...

    def end(self, *, finds_clients: bool) -> list[str]:
        """Returns what the test has left in use, also clients, if those are the test's."""
        ...

    def keep(self) -> None:
        """Lets all that came since `begin` stay."""
        ...

    def look(self) -> Any: ...  # Any: each kind of cluster notes something else

    def adopt(self, earlier: Any) -> None:
        """Lets what came since `earlier` stay."""
        ...


class Guard:
    """Begins and ends the isolation of the cluster that tests use now."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._isolation: Isolation | None = None
        self._item: pytest.Item | None = None
        self._trying: Isolation | None = None
        """While a wider fixture is set up before a test, and until its failure is undone."""
        self.owners = Owners()

    def watch(self, cluster: "Cluster", isolation: Isolation) -> None:
        """Tests use this cluster from now on, perhaps from the middle of a test."""
        self._cluster, self._isolation = cluster, isolation
        if self._item is not None:
            self._begin(self._item)

    def forget(self) -> None:
        """Tests use no cluster."""
        self._cluster = self._isolation = None

    def begin(
        self,
        item: pytest.Item,
        *,
        before_end: Callable[[], None],
        on_leaks: Callable[[list[str]], None],
    ) -> None:
        """Begins a test, unless it has begun.

        When its own fixtures are gone, calls `before_end`, and `on_leaks` with what it left in use.
        """
        if self._item is item:
            return

        def end() -> None:
            self._item = None
            before_end()
            _let_go(item)
            leaks = (
                []
                if self._isolation is None
                else self._isolation.end(finds_clients=not self.owners)
            )
            leaks += find_left_running(running)
            if leaks:
                on_leaks(leaks)

        self._item = item
        running = find_running()
        item.addfinalizer(end)
        self._begin(item)

    def _begin(self, item: pytest.Item) -> None:
        if self._isolation is None:
            return
        if not keeps(item):
            self._isolation.begin()
        if (name := find_snapshot(item)) is not None:
            self._restore(name)

    def _restore(self, snapshot: str) -> None:
        from embedkafka import EmbeddedKafka

        assert self._cluster is not None, "a test begins on a cluster"
        if not isinstance(self._cluster, EmbeddedKafka):
            skip_external("kafka.restore", self._cluster.bootstrap_servers)
        self._cluster.restore(snapshot)

    @contextmanager
    def keeping(self, fixture: "pytest.FixtureDef[Any]") -> Iterator[None]:
        """Lets what a fixture does stay, which outlives the test; not if it fails."""
        isolation = self._isolation
        if isolation is None:
            yield
        elif self._item is not None or self._trying is not None:
            earlier = isolation.look()
            yield
            if isolation is self._isolation:
                isolation.adopt(earlier)
        elif self.owners.may_use(fixture):
            self._trying = isolation
            isolation.begin()
            yield
            isolation.keep()
            self._trying = None
        else:
            yield

    def undo_failure(self) -> None:
        """Undoes what a fixture did that failed, now that the report of its failure is made."""
        isolation, self._trying = self._trying, None
        if isolation is not None:
            isolation.end(finds_clients=False)


def _let_go(item: pytest.Item) -> None:
    """Drops what pytest would keep of a test whose fixtures are gone: values such as clients.

    They are the values of the fixtures, and the attributes of the test class's instance: each test
    has one of its own. With `--pdb`, pytest calls `tearDown` of unittest's classes later.
    """
    (getattr(item, "funcargs", None) or {}).clear()  # after Ctrl-C it has none
    instance = getattr(item, "instance", None)
    if instance is None or item.config.getoption("usepdb", False):
        return
    unittest = sys.modules.get("unittest")
    is_unittest = unittest is not None and isinstance(instance, unittest.TestCase)
    kept = vars(unittest.TestCase()) if unittest is not None and is_unittest else {}
    attributes = getattr(instance, "__dict__", {})
    for name in attributes.keys() - kept.keys():
        del attributes[name]
