"""A test that every job would pass proves nothing."""

from collections.abc import Callable, Mapping

import pytest

from embedkafka.explore.vacuous import describe_vacuous
from embedkafka.explore.verdict import Items

ONE: Mapping[str, Items] = {"out": {"": [1, 2]}}
NONE: Mapping[str, Items] = {"out": {}}
Holds = Callable[[Mapping[str, object]], bool] | None


def raises(found: Mapping[str, object]) -> bool:
    raise KeyError("total")


@pytest.mark.parametrize(
    ("before", "after", "holds", "why"),
    [
        (NONE, NONE, None, "the job has no output"),
        (NONE, ONE, None, ""),
        ({}, ONE, None, ""),
        (NONE, ONE, lambda found: True, "its invariant holds already"),
        (NONE, ONE, lambda found: found["out"] == {"": [1, 2]}, ""),
        (NONE, NONE, lambda found: found["out"] != {}, ""),
        (NONE, ONE, raises, ""),
        ({}, ONE, lambda found: True, ""),  # what cannot be read before is not known
    ],
)
def test_what_proves_nothing(
    before: Mapping[str, Items], after: Mapping[str, Items], holds: Holds, why: str
) -> None:
    said = describe_vacuous(
        before, after, by_function=False, holds=holds, remarks=["It begins late."]
    )
    if why:
        assert said.startswith(f"this test proves nothing: {why}")
        assert "\nIt begins late.\n" in said
        assert "may_prove_nothing=True" in said
    else:
        assert said == ""


def test_what_a_function_reads_may_be_empty_a_list_of_what_is_wrong() -> None:
    assert describe_vacuous(NONE, NONE, by_function=True, holds=None, remarks=[]) == ""
    assert describe_vacuous(NONE, ONE, by_function=True, holds=lambda found: True, remarks=[])
