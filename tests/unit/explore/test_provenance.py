"""`lost` and `doubled` are said only of what the inputs prove."""

from typing import Any

import pytest

from embedkafka.explore.inputs import read_inputs
from embedkafka.explore.provenance import only_proven
from embedkafka.explore.schedule import plain
from embedkafka.explore.verdict import differences

LOST, DOUBLED, DIFFERENT = "lost", "doubled", "they differ"


def judged(inputs: list[Any], before: Any, after: Any, key: str = "") -> list[str]:
    feeds = read_inputs({"in": inputs}, seed=0)
    found = differences("out", {key: before}, {key: after}, ordered=lambda key: True)
    arrivals = plain({"in": len(inputs)}).arrivals
    return [each.refutation.value for each in only_proven(found, feeds, arrivals)]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([{"id": 1}], [], LOST),
        ([{"id": 1}], [{"id": 1}] * 2, DOUBLED),
        ([{"number": "1", "sku": "a"}], [], LOST),  # a field may have another name and type
        (["a"], ["a", "a"], DOUBLED),
        ([{"sku": "b"}, {"sku": "b"}], [{"sku": "b"}], LOST),  # two records have it
        # The plain schedule did not give what the inputs have.
        ([{"sku": "b"}], [{"sku": "b"}] * 2, DIFFERENT),
        ([{"sku": "b"}], [], DIFFERENT),
        # No record has these values.
        ([{"sku": "a", "total": 7}], [], DIFFERENT),
        ([{}], [], DIFFERENT),
        ([{"id": 1}], [{"id": 2}], DIFFERENT),
    ],
)
def test_a_row_is_that_of_records_with_all_its_values(before: Any, after: Any, said: str) -> None:
    given = [{"id": 1, "sku": "a"}, {"id": 2, "sku": "b"}, {"id": 3, "sku": "b"}]
    assert judged(given, before, after) == [said]


def test_the_order_of_a_key_is_what_the_inputs_say() -> None:
    assert judged([{"id": 1, "at": 1}, {"id": 1, "at": 2}], [1, 2], [2, 1], "1") == ["out of order"]


def test_the_key_of_an_item_must_be_in_the_record_too() -> None:
    given = [("a", "1"), {"sku": "a", "n": 1}]
    assert judged(given, [1], [], "a") == [DIFFERENT]  # two records have it
    assert judged(given[1:], [1], [], "a") == [LOST]
    assert judged(given[1:], [1], [], "b") == [DIFFERENT]


def test_text_and_bytes_are_records_too() -> None:
    assert judged(["9.50", b"\xff"], [{"v": "9.50"}], []) == [LOST]
    assert judged([1.0], [{"v": 1}], []) == [LOST]
