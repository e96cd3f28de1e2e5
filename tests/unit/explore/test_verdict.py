"""Outputs are compared per key, and each difference names the guarantee it refutes."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedkafka.explore.verdict import (
    Difference,
    Refutation,
    canonical,
    differences,
    is_not_yet,
    summary,
)


def kinds(plain: dict[str, list[object]], here: dict[str, list[object]]) -> list[Refutation]:
    return [found.refutation for found in differences("out", plain, here, ordered=lambda key: True)]


@pytest.mark.parametrize(
    ("plain", "here", "refutation"),
    [
        ([1, 2], [1], Refutation.LOST),
        ([1], [], Refutation.LOST),
        ([1, 2], [1, 2, 2], Refutation.DOUBLED),
        ([1, 2], [1, 2, 1, 2], Refutation.DOUBLED),
        ([1, 2], [1, 3], Refutation.ALTERED),
        ([1, 2], [2, 1], Refutation.OUT_OF_ORDER),
        ([1], [1, 5], Refutation.NOT_THE_SAME),
        ([], [1], Refutation.NOT_THE_SAME),
        ([1, 2, 3], [6], Refutation.NOT_THE_SAME),
    ],
)
def test_each_refutation(plain: list[object], here: list[object], refutation: Refutation) -> None:
    assert kinds({"k": plain}, {"k": here}) == [refutation]


@pytest.mark.parametrize(
    ("plain", "here", "waits_behind", "waits_ahead"),
    [
        ([1, 2], [1], True, False),
        ([1], [1, 2], False, True),
        ([1], [1, 1], False, True),
        ([1, 2], [1, 3], False, False),
        ([1, 2], [2, 1], False, False),
    ],
)
def test_only_what_is_missing_may_wait_for_the_watermark_of_the_other_schedule(
    plain: list[object], here: list[object], waits_behind: bool, waits_ahead: bool
) -> None:
    (found,) = differences("out", {"k": plain}, {"k": here}, ordered=lambda key: True)
    assert is_not_yet(found, is_behind=True, is_ahead=False) is waits_behind
    assert is_not_yet(found, is_behind=False, is_ahead=True) is waits_ahead
    assert not is_not_yet(found, is_behind=False, is_ahead=False)


def test_the_order_of_different_keys_does_not_count() -> None:
    assert kinds({"a": [1], "b": [2]}, {"b": [2], "a": [1]}) == []


def test_items_without_a_key_have_no_order() -> None:
    assert kinds({"": [1, 2]}, {"": [2, 1]}) == []
    assert kinds({"": [1, 2]}, {"": [2, 1, 1]}) == [Refutation.DOUBLED]


def test_an_output_without_order_is_a_bag() -> None:
    assert differences("out", {"": [1, 2, 2]}, {"": [2, 1, 2]}, ordered=lambda key: False) == []
    (found,) = differences("out", {"": [1, 2]}, {"": [2, 1, 2]}, ordered=lambda key: False)
    assert found.refutation is Refutation.DOUBLED


@given(st.lists(st.integers(0, 3)), st.randoms(use_true_random=False))
def test_a_shuffled_bag_never_differs(items: list[object], random: object) -> None:
    shuffled = items.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis's own Random
    assert differences("out", {"": items}, {"": shuffled}, ordered=lambda key: False) == []


def test_values_that_mean_the_same_are_equal() -> None:
    assert canonical({"b": 1, "a": 0.1 + 0.2}) == canonical({"a": 0.3, "b": 1})
    assert canonical(Decimal("1.50")) == canonical(1.5)
    assert canonical((1, [b"x", None, True])) == '[1, ["x", null, true]]'
    assert canonical(datetime(2026, 1, 2, tzinfo=UTC)) == '"2026-01-02T00:00:00+00:00"'
    assert canonical(1) != canonical("1")
    assert canonical(0.3) != canonical(0.30001)


def test_the_summary_counts_and_shows() -> None:
    found = differences(
        "revenue", {"a": [3.0], "b": [1]}, {"a": [3.0, 3.0], "b": []}, ordered=lambda key: True
    )
    assert summary(found) == (
        "doubled (1), lost (1)\n"
        "doubled: revenue, key a\n"
        "  plain schedule: 3.0\n"
        "  this schedule:  3.0, 3.0\n"
        "lost: revenue, key b\n"
        "  plain schedule: 1\n"
        "  this schedule:  nothing"
    )


def test_a_long_difference_leaves_out_what_both_have() -> None:
    rows: list[object] = ["x" * 60, "y" * 60, "z" * 60]
    (found,) = differences("out", {"": rows}, {"": [*rows, rows[1]]}, ordered=lambda key: False)
    assert str(found) == (
        "doubled: out\n"
        "  plain schedule: 3 that the other has too\n"
        f'  this schedule:  "{rows[1]}", and 3 that the other has too'
    )


def test_a_long_summary_ends() -> None:
    found = differences(
        "out", {str(n): ["x" * 500] for n in range(9)}, {}, ordered=lambda key: True
    )
    text = summary(found)
    assert text.endswith("and 4 more")
    assert max(map(len, text.splitlines())) < 250
    assert isinstance(found[0], Difference)


def test_bytes_are_text_or_all_their_hex() -> None:
    assert canonical(b"a") == '"a"'
    assert canonical(b"\0" * 300) == f'"0x{"00" * 300} (300 bytes)"'
