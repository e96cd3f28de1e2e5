"""Calls of Spark's own methods, whose arguments depend on the release."""

from typing import Any

import pytest

from embedkafka.spark.execution import _defaults


class Method:
    """As Java's reflection shows it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def getName(self) -> str:  # Java's name
        return self._name


class Manager:
    """An object of Scala, with a method for each argument that has a default."""

    def __init__(self, *defaults: int) -> None:
        self._names = [f"startQuery$default${number}" for number in defaults]

    def getClass(self) -> "Manager":  # Java's name
        return self

    def getMethods(self) -> list[Method]:  # Java's name
        return [Method("startQuery"), *map(Method, self._names)]

    def __getattr__(self, name: str) -> Any:
        assert name in self._names, f"Spark has no {name}"
        return lambda: f"the default {name.rpartition('$')[2]}"


@pytest.mark.parametrize(
    ("manager", "second", "further"),
    [
        pytest.param(Manager(7, 8, 9, 10, 11, 12), [], ["11", "12"], id="4.0 to 4.2"),
        pytest.param(Manager(2, 8, 9, 10, 11, 12, 13), ["2"], ["12", "13"], id="4.3"),
    ],
)
def test_arguments_that_a_release_adds_have_their_defaults(
    manager: Manager, second: list[str], further: list[str]
) -> None:
    own = 10 + len(second)
    assert _defaults(manager, "startQuery", [2]) == [f"the default {n}" for n in second]
    rest = _defaults(manager, "startQuery", range(own + 1, own + 11))
    assert rest == [f"the default {n}" for n in further]
