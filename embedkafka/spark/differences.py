"""The difference between the rows that a test expects and those that are there, for people.

Rows are compared as values: 1 is 1.0 but not True, NaN is NaN, and the order of fields is nothing.
A row that is missing stands next to the one that is most like it.

Owner: none; these are functions.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from embedkafka.runtime.shown_values import show_value
from embedkafka.runtime.values import dataclass

_SHOWN: Final = 20
"""How many rows a message shows at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """A row that is there, and where."""

    value: Any  # JSON and rows have no common type
    where: str


def find_difference(
    expected: Sequence[Any],
    found: Sequence[FoundRow],
    *,
    is_ordered: bool = False,
    by_key: str | None = None,
) -> list[str]:
    """Says in lines what differs; none if nothing does.

    With `is_ordered` the order counts: of all rows, or with `by_key` of those with the same value
    in that field.
    """
    equal, missing, unexpected = _matched(expected, found)
    if missing or unexpected:
        known = {_canonical(value) for value in expected}
        return [
            f"{equal} rows equal, {len(missing)} missing, {len(unexpected)} not expected",
            *_shortened(_described(missing, unexpected, known)),
        ]
    return _find_disorder(expected, found, by_key) if is_ordered else []


def _matched(
    expected: Sequence[Any], found: Sequence[FoundRow]
) -> tuple[int, list[Any], list[FoundRow]]:
    """How many rows match one to one, and those of each side that do not."""
    waiting: dict[Hashable, list[Any]] = defaultdict(list)
    for value in expected:
        waiting[_canonical(value)].append(value)
    unexpected = []
    for row in found:
        matches = waiting[_canonical(row.value)]
        if matches:
            matches.pop()
        else:
            unexpected.append(row)
    missing = [value for values in waiting.values() for value in values]
    return len(expected) - len(missing), missing, unexpected


def _described(
    missing: Sequence[Any], unexpected: Sequence[FoundRow], known: set[Hashable]
) -> Iterable[str]:
    left = list(unexpected)
    for value in missing:
        near = max(left, key=lambda row: _likeness(value, row.value), default=None)
        yield f"- {show_value(value)}"
        if near is not None and _likeness(value, near.value) > 0:
            left.remove(near)
            yield f"+ {show_value(near.value)}  at {near.where}"
            yield from _described_fields(value, near.value)
    for row in left:
        again = ", once too often" if _canonical(row.value) in known else ""
        yield f"+ {show_value(row.value)}  at {row.where}{again}"


def _described_fields(expected: Any, found: Any) -> Iterable[str]:
    for field in dict.fromkeys([*expected, *found]):
        if field not in found:
            yield f"    {field}: is missing"
        elif field not in expected:
            yield f"    {field}: is not expected"
        elif _canonical(expected[field]) != _canonical(found[field]):
            wanted, there = show_value(expected[field]), show_value(found[field])
            yield f"    {field}: expected {wanted}, found {there}"


def _likeness(expected: Any, found: Any) -> int:
    """How many fields are equal."""
    if not isinstance(expected, Mapping) or not isinstance(found, Mapping):
        return 0
    return sum(
        field in found and _canonical(found[field]) == _canonical(value)
        for field, value in expected.items()
    )


def _find_disorder(
    expected: Sequence[Any], found: Sequence[FoundRow], by_key: str | None
) -> list[str]:
    wanted, there = _grouped(expected, by_key), _grouped([row.value for row in found], by_key)
    lines = []
    for key, values in wanted.items():
        if [_canonical(value) for value in values] != [_canonical(value) for value in there[key]]:
            whose = "" if by_key is None else f" of {by_key} {show_value(values[0][by_key])}"
            lines += [f"the rows{whose} are there, in another order"]
            lines += _shortened(f"- {show_value(value)}" for value in values)
            lines += _shortened(f"+ {show_value(value)}" for value in there[key])
    return lines


def _grouped(values: Sequence[Any], by_key: str | None) -> dict[Hashable, list[Any]]:
    grouped: dict[Hashable, list[Any]] = defaultdict(list)
    for value in values:
        grouped[None if by_key is None else _canonical(value[by_key])].append(value)
    return grouped


def _shortened(lines: Iterable[str]) -> list[str]:
    all_lines = list(lines)
    left = len(all_lines) - _SHOWN
    return [*all_lines[:_SHOWN], f"... and {left} lines more"] if left > 0 else all_lines


def _canonical(value: Any) -> Hashable:
    """A form that is equal for equal values, and can be counted."""
    if isinstance(value, Mapping):
        return "map", frozenset((_canonical(k), _canonical(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return "list", tuple(_canonical(each) for each in value)
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, float) and value != value:
        return "nan"
    try:
        hash(value)
    except TypeError:  # its class has no hash, or its fields have none
        return repr(value)
    hashable: Hashable = value
    return hashable
