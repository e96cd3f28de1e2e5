"""The fields are named that keep a job from giving the same twice."""

from typing import Any

import pytest

from embedkafka.explore.varying import varying_fields, without_fields


@pytest.mark.parametrize(
    ("first", "second", "varying"),
    [
        ([{"id": 1, "at": 5}], [{"id": 1, "at": 6}], ["at"]),
        ([{"id": 1, "at": 5, "by": "x"}], [{"id": 1, "at": 6, "by": "y"}], ["at", "by"]),
        ([{"id": 1}], [{"id": 1, "at": None}], ["at"]),
        ([{"id": 1}], [{"id": 1}, {"id": 1}], []),
        (["a"], ["b"], []),
        ([], [], []),
    ],
)
def test_the_fields_that_vary(first: list[object], second: list[object], varying: Any) -> None:
    assert varying_fields({"": first}, {"": second}) == varying


def test_numbers_that_rows_get_in_turn_vary() -> None:
    first: list[object] = [{"id": "a", "n": 0}, {"id": "b", "n": 1}]
    second: list[object] = [{"id": "b", "n": 0}, {"id": "a", "n": 1}]
    assert varying_fields({"": first}, {"": second}) == ["n"]


def test_a_value_without_fields_stays_what_it_is() -> None:
    assert without_fields("text", ["a"]) == "text"
    assert without_fields({"a": 1, "b": 2}, ["a"]) == {"b": 2}
