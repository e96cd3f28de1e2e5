"""Which fields of an output vary by themselves, whatever the schedule. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from embedkafka.explore.verdict import Items, canonical


def varying_fields(first: Items, second: Items) -> list[str]:
    """The fields that keep two runs of one schedule from giving the same; none if no field does.

    A field whose values are others in the second run varies. Where all fields have the same values
    and only come together differently, as numbers that rows get in turn, it is one of them: the
    last, because jobs append such columns. Rows that are more or fewer are no matter of fields.
    """
    before, after = _values(first), _values(second)
    if len(before) != len(after):
        return []
    names = dict.fromkeys(
        name for value in [*before, *after] if isinstance(value, Mapping) for name in value
    )
    found = [name for name in names if _column(before, name) != _column(after, name)]
    if found:
        return found
    return next(
        ([name] for name in reversed(names) if _without(before, name) == _without(after, name)),
        [],
    )


def _values(items: Items) -> list[object]:
    return [value for values in items.values() for value in values]


def _column(values: Sequence[object], name: str) -> Counter[str]:
    return Counter(
        canonical(value[name]) if name in value else ""
        for value in values
        if isinstance(value, Mapping)
    )


def _without(values: Sequence[object], name: str) -> Counter[str]:
    return Counter(canonical(without_fields(value, [name])) for value in values)


def without_fields(value: object, names: Sequence[str]) -> object:
    """A value without some of its fields; itself if it has no fields."""
    if not names or not isinstance(value, Mapping):
        return value
    return {name: part for name, part in value.items() if name not in names}
