"""The difference between the rows that a test expects and those that are there."""

import pytest

from embedkafka.spark.differences import FoundRow, find_difference


def rows(*values: object) -> list[FoundRow]:
    return [FoundRow(value=value, where=f"t-0 offset {at}") for at, value in enumerate(values)]


class Proto:
    """Is compared, shown and not hashed as a message of Protobuf."""

    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Proto) and self.x == other.x

    def __hash__(self) -> int:
        raise TypeError("unhashable object")

    def __repr__(self) -> str:
        return f"x: {self.x}\n"


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ([{"a": 1, "b": [2]}], [{"b": [2.0], "a": 1.0}]),
        ([1, 2, 2], [2, 1, 2]),
        ([float("nan")], [float("nan")]),
        ([b"x"], [bytearray(b"x")]),
        ([{"a": {"b": None}}], [{"a": {"b": None}}]),
        ([], []),
    ],
)
def test_equal_rows_have_no_difference(expected: list[object], found: list[object]) -> None:
    assert find_difference(expected, rows(*found)) == []


@pytest.mark.parametrize(
    ("expected", "found"), [([1], [True]), ([1], ["1"]), ([{"a": None}], [{}]), ([[1]], [[1, 1]])]
)
def test_values_of_other_kinds_differ(expected: list[object], found: list[object]) -> None:
    assert find_difference(expected, rows(*found))[0] == "0 rows equal, 1 missing, 1 not expected"


def test_a_changed_row_stands_next_to_what_it_should_be() -> None:
    expected = [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]
    assert find_difference(expected, rows({"sku": "c", "n": 2}, {"sku": "a", "n": "1"})) == [
        "0 rows equal, 2 missing, 2 not expected",
        '- {"sku": "a", "n": 1}',
        '+ {"sku": "a", "n": "1"}  at t-0 offset 1',
        "    n: expected 1, found '1'",
        '- {"sku": "b", "n": 2}',
        '+ {"sku": "c", "n": 2}  at t-0 offset 0',
        "    sku: expected 'b', found 'c'",
    ]


def test_fields_that_one_side_lacks_are_named() -> None:
    lines = find_difference([{"id": 1, "a": 1}], rows({"id": 1, "b": 1}))
    assert lines[-2:] == ["    a: is missing", "    b: is not expected"]


def test_a_row_delivered_twice_is_once_too_often() -> None:
    assert find_difference(["x", "y"], rows("x", "y", "x")) == [
        "2 rows equal, 0 missing, 1 not expected",
        "+ 'x'  at t-0 offset 2, once too often",
    ]


def test_the_order_counts_only_if_asked() -> None:
    assert find_difference([1, 2], rows(2, 1)) == []
    assert find_difference([1, 2], rows(1, 2), is_ordered=True) == []
    assert find_difference([1, 2], rows(2, 1), is_ordered=True) == [
        "the rows are there, in another order",
        *("- 1", "- 2", "+ 2", "+ 1"),
    ]


def test_by_key_the_order_counts_within_each_key() -> None:
    a1, a2, b1 = {"k": "a", "n": 1}, {"k": "a", "n": 2}, {"k": "b", "n": 1}
    assert find_difference([a1, a2, b1], rows(b1, a1, a2), is_ordered=True, by_key="k") == []
    lines = find_difference([a1, a2, b1], rows(a2, b1, a1), is_ordered=True, by_key="k")
    assert lines[0] == "the rows of k 'a' are there, in another order"


def test_a_long_difference_is_cut() -> None:
    lines = find_difference([], rows(*range(50)))
    assert len(lines) == 22
    assert lines[-1] == "... and 30 lines more"


def test_values_without_a_hash_are_compared() -> None:
    found = [FoundRow(value=Proto(1), where="t-0 offset 0")]
    assert find_difference([Proto(1)], found) == []
    assert find_difference([Proto(2)], found)[1:] == ["- x: 2", "+ x: 1  at t-0 offset 0"]


def test_bytes_are_shown_in_hex() -> None:
    found = [FoundRow(value={"raw": b"\0", "n": 1}, where="t-0 offset 0")]
    assert find_difference([{"raw": b"\1", "n": 1}], found)[1:] == [
        '- {"raw": "0x01 (1 byte)", "n": 1}',
        '+ {"raw": "0x00 (1 byte)", "n": 1}  at t-0 offset 0',
        "    raw: expected 0x01 (1 byte), found 0x00 (1 byte)",
    ]
