"""What the inputs prove of a difference between two schedules. Pure.

Which of two results is right, only an invariant can say. But an item whose values are all
those of a record, and which the plain schedule gave as often as there are such records, is that
record's: one too few is lost, and one too many is doubled.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from embedkafka.explore.inputs import Feed
from embedkafka.explore.schedule import Arrival
from embedkafka.explore.verdict import NO_KEY, Difference, Refutation, canonical
from embedkafka.runtime.values import replace

_PROVABLE = frozenset({Refutation.LOST, Refutation.DOUBLED})


def only_proven(
    found: Iterable[Difference], feeds: Mapping[str, Feed], arrivals: Collection[Arrival]
) -> list[Difference]:
    """The differences, which say `lost` and `doubled` only where the inputs prove it."""
    records = [_values(feeds[source].given[nth]) for source, nth in arrivals]
    return [
        each
        if each.refutation is Refutation.OUT_OF_ORDER or _is_proven(each, records)
        else replace(each, refutation=Refutation.DIFFERENT)
        for each in found
    ]


def _is_proven(difference: Difference, records: Collection[frozenset[str]]) -> bool:
    before, after = Counter(difference.plain), Counter(difference.here)
    changed = (before - after) + (after - before)
    return difference.refutation in _PROVABLE and all(
        before[text] == _origins(difference.key, text, records) for text in changed
    )


def _origins(key: str, text: str, records: Collection[frozenset[str]]) -> int:
    """How many records have all values of an item, and of its key."""
    values = _values(json.loads(text)) | (frozenset() if key == NO_KEY else _values(key))
    return sum(values <= record for record in records) if values else 0


def _values(item: object) -> frozenset[str]:
    return frozenset(_scalars(item))


def _scalars(item: object) -> Iterator[str]:
    """The values in an item, each as the same text whether it is a number or the number's text."""
    if isinstance(item, bytes | str):
        try:
            parsed = json.loads(item)
        except ValueError:  # text, or bytes that are none
            yield canonical(item)
            return
        if isinstance(parsed, str):
            yield canonical(parsed)
            return
        item = parsed
    if isinstance(item, Mapping):
        item = list(item.values())
    if isinstance(item, list | tuple):
        for part in item:
            yield from _scalars(part)
    elif isinstance(item, float) and item.is_integer():
        yield canonical(int(item))
    elif item is not None:
        yield canonical(item)
