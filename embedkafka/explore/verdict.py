"""Compares what two schedules gave, and says which guarantee the difference refutes.

Outputs are equal up to the order of independent items, as in DiffStream: items with different keys
are independent, and those of one key keep their order where the output has one. Pure.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Final

from embedkafka.runtime.shown_values import find_text, show_hex
from embedkafka.runtime.values import dataclass

Items = Mapping[str, Sequence[object]]
"""What an output holds for each key, in its order."""

NO_KEY: Final = ""
"""The key of items without one. They have no order: Kafka spreads them over the partitions."""

_SCHEDULES: Final = ("plain schedule", "this schedule")
_SHOWN_KEYS: Final = 5
_SHOWN_TEXT: Final = 160
_DIGITS: Final = 12


class Refutation(Enum):
    """Which guarantee does not hold."""

    LOST = "lost"
    DOUBLED = "doubled"
    ALTERED = "altered"
    OUT_OF_ORDER = "out of order"
    NOT_THE_SAME = "not the same"
    DIFFERENT = "they differ"
    """Which of the two is right is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One key for which two schedules gave different items."""

    output: str
    key: str
    refutation: Refutation
    plain: tuple[str, ...]
    here: tuple[str, ...]

    def __str__(self) -> str:
        return self.show(_SCHEDULES)

    def show(self, runs: tuple[str, str]) -> str:
        """The items of both, each behind the name of its run."""
        before, after = self.plain, self.here
        if max(map(_length, (before, after))) > _SHOWN_TEXT:
            before, after = _only(before, after), _only(after, before)
        width = max(map(len, runs)) + len(": ")
        return (
            f"{self.refutation.value}: {self.output}{f', key {self.key}' if self.key else ''}\n"
            f"  {runs[0] + ':':<{width}}{_listed(before, self.plain)}\n"
            f"  {runs[1] + ':':<{width}}{_listed(after, self.here)}"
        )


def differences(
    output: str, plain: Items, here: Items, *, ordered: Callable[[str], bool]
) -> list[Difference]:
    """Every key whose items differ; `ordered` says whether the order of a key's items matters."""
    found = []
    for key in sorted({*plain, *here}):
        before, after = _texts(plain.get(key, ())), _texts(here.get(key, ()))
        refutation = _refuted(before, after, ordered=key != NO_KEY and ordered(key))
        if refutation is not None:
            found.append(
                Difference(output=output, key=key, refutation=refutation, plain=before, here=after)
            )
    return found


def is_not_yet(difference: Difference, *, is_behind: bool, is_ahead: bool) -> bool:
    """Whether one schedule only lacks items that may wait for the watermark of the other.

    `is_behind` says whether a query's watermark is behind that of the plain schedule. After a
    restart Spark knows one watermark for all inputs, and moves it with the next records of each.
    """
    before, after = Counter(difference.plain), Counter(difference.here)
    missing, surplus = before - after, after - before
    return bool((is_behind and missing and not surplus) or (is_ahead and surplus and not missing))


def summary(found: Sequence[Difference], runs: tuple[str, str] = _SCHEDULES) -> str:
    """The differences as text: how many of each kind, and the first few in full."""
    counts = Counter(difference.refutation.value for difference in found)
    counted = ", ".join(f"{kind} ({count})" for kind, count in counts.items())
    shown = [difference.show(runs) for difference in found[:_SHOWN_KEYS]]
    more = len(found) - len(shown)
    return "\n".join([counted, *shown, *([f"and {more} more"] if more else [])])


def canonical(value: object) -> str:
    """Text that is equal for equal values.

    Sums of floats depend on the order of their terms, which no job can fix, so only the first
    twelve digits count.
    """
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Decimal):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, bytes | bytearray):
        text = find_text(value)
        return show_hex(value, None) if text is None else text
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, str | int | bool) or value is None:
        return value
    if isinstance(value, set | frozenset):
        return sorted(map(canonical, value))
    if isinstance(value, Iterable):
        return [_plain(part) for part in value]
    return repr(value)


def _texts(items: Sequence[object]) -> tuple[str, ...]:
    return tuple(map(canonical, items))


def _refuted(before: Sequence[str], after: Sequence[str], *, ordered: bool) -> Refutation | None:
    missing = Counter(before) - Counter(after)
    surplus = Counter(after) - Counter(before)
    if not missing and not surplus:
        is_moved = ordered and list(before) != list(after)
        return Refutation.OUT_OF_ORDER if is_moved else None
    if not surplus:
        return Refutation.LOST
    if not missing:
        return Refutation.DOUBLED if set(surplus) <= set(before) else Refutation.NOT_THE_SAME
    is_replaced = missing.total() == surplus.total()
    return Refutation.ALTERED if is_replaced else Refutation.NOT_THE_SAME


def _only(ours: Sequence[str], theirs: Sequence[str]) -> tuple[str, ...]:
    """What only one side has, or has more often."""
    return tuple((Counter(ours) - Counter(theirs)).elements())


def _length(texts: Sequence[str]) -> int:
    return sum(map(len, texts))


def _listed(shown: Sequence[str], whole: Sequence[str]) -> str:
    """Texts as one line; says so if they are not all."""
    joined = ", ".join(shown)
    if len(joined) > _SHOWN_TEXT:
        joined = f"{joined[:_SHOWN_TEXT]}…"
    if len(shown) == len(whole):
        return joined or "nothing"
    rest = f"{len(whole) - len(shown)} that the other has too"
    return f"{joined}, and {rest}" if joined else rest
