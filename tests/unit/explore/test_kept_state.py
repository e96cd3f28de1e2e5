"""What the author's functions keep in the process is found, and only what grows is told."""

import json
from collections.abc import Callable
from functools import lru_cache

from embedkafka.explore.kept_state import describe_kept, find_kept, grown

SEEN: set[int] = set()
SETTINGS = {"table": "orders"}


class Everything:
    """All code is the author's."""

    def __contains__(self, code: object) -> bool:
        return True


@lru_cache
def double(number: int) -> int:
    return 2 * number


class Sink:
    def __init__(self) -> None:
        self.last: dict[int, int] = {}

    def save(self, number: int) -> None:
        self.last[number] = double(number)


def kept(function: Callable[[int], object]) -> list[str]:
    """What has grown when the function was called."""
    before = find_kept([function], Everything())
    function(1)
    return sorted(map(str, grown(before, find_kept([function], Everything()))))


def test_a_global_that_grows_is_kept_and_a_constant_is_not() -> None:
    SEEN.clear()
    assert kept(lambda number: SEEN.add(number) or SETTINGS["table"]) == ["SEEN (set)"]


def test_closures_are_followed_through_functions() -> None:
    rows: list[int] = []

    def append(number: int) -> None:
        rows.append(number)

    assert kept(lambda number: append(number)) == ["rows (list)"]


def test_attributes_of_a_method_and_caches_are_kept() -> None:
    double.cache_clear()
    assert kept(Sink().save) == ["double (lru_cache)", "last (dict)"]


def test_a_function_that_keeps_nothing_is_not_told_of() -> None:
    assert kept(json.dumps) == []
    assert describe_kept([]) == ()


def test_what_is_kept_is_named() -> None:
    sink = Sink()
    sink.save(1)
    (said,) = describe_kept(find_kept([sink.save], Everything()).values())
    assert "in this process: double (lru_cache), last (dict)." in said
