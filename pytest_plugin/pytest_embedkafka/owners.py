"""Fixtures that outlive a test and may own a client of the cluster.

Such a client connects when it likes, so a connection of theirs cannot be told from one of the test.
A fixture may own one if it uses `kafka` and its value is more than data.

Owner: pytest's thread.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest

_OURS: Final = "_kafka_clusters"
_SESSION: Final = "kafka"
_DATA: Final = (str, bytes, int, float, type(None))


class Owners:
    """The fixtures of sessions, modules and classes that may own a client, while they live."""

    def __init__(self) -> None:
        self._users = {_SESSION}
        """Names of fixtures that use the cluster."""
        self._owners: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._owners)

    def may_use(self, fixture: "pytest.FixtureDef[Any]") -> bool:
        """Whether a fixture uses the cluster, by its arguments. Any: of any type."""
        return fixture.argname not in (_SESSION, _OURS) and not self._users.isdisjoint(
            fixture.argnames
        )

    def add(self, fixture: "pytest.FixtureDef[Any]") -> None:
        """Notes a fixture that has been set up. Any: of any type."""
        name = fixture.argname
        if not self.may_use(fixture):
            return
        self._users.add(name)
        result = fixture.cached_result
        if result is not None and not _is_data(result[0]):
            self._owners.add(name)
            fixture.addfinalizer(lambda: self._owners.discard(name))


def _is_data(value: Any) -> bool:
    """Whether a value, however nested, is made of texts, numbers and our topics. Any: it may be."""
    if isinstance(value, Mapping):
        return all(map(_is_data, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_data, value))
    return isinstance(value, _DATA) or type(value).__module__.split(".")[0] == "embedkafka"
