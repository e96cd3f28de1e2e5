"""Whether a test could fail at all: a wrong job passes one that proves nothing. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from embedkafka.explore.verdict import Items

Found = Mapping[str, object]

_ALLOWED: Final = "If that is what the test is for, allow it: explore(..., may_prove_nothing=True)"


def describe_vacuous(
    before: Found,
    after: Mapping[str, Items],
    *,
    by_function: bool,
    holds: Callable[[Found], bool] | None,
    remarks: Sequence[str],
) -> str:
    """Why a test proves nothing; empty if it may prove something.

    `before` are the outputs before the job has started, as far as they can be read, and `after`
    those of the plain schedule. `holds` is the invariant for all inputs. What the author's function
    reads may be right when it is empty: a list of what is wrong.
    """
    why = ""
    if holds is not None:
        if before.keys() == after.keys() and _holds(holds, before):
            why = "its invariant holds already before the job has started"
    elif not by_function and not any(map(_count, after.values())):
        why = "the job has no output under the plain schedule"
    return _refusal(why, remarks) if why else ""


def describe_single(impossible: Mapping[str, str]) -> str:
    """What is said of a test that has no schedule but the plain one: nothing could differ."""
    reasons = [f"{kind}: {reason}" for kind, reason in impossible.items()]
    return _refusal("it has no schedule but the plain one", reasons)


def _refusal(why: str, remarks: Sequence[str]) -> str:
    more = "".join(f"\n{remark}" for remark in remarks)
    return f"this test proves nothing: {why}.{more}\n{_ALLOWED}"


def _holds(holds: Callable[[Found], bool], found: Found) -> bool:
    try:
        return holds(found)
    except Exception:  # the author's: an invariant for outputs that are there
        return False


def _count(items: Items) -> int:
    return sum(map(len, items.values()))
