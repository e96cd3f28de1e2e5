"""Which keys of an output must keep their order under a schedule."""

from collections.abc import Callable, Mapping, Sequence

from embedkafka.explore.inputs import Feed
from embedkafka.explore.schedule import Arrival


def steady_keys(arrivals: Sequence[Arrival], feeds: Mapping[str, Feed]) -> Callable[[str], bool]:
    """Whether the records that a key's items come from arrive in the order of the plain schedule.

    An output's key that is no input's may come from any records.
    """
    inputs = list(feeds)
    places = [(inputs.index(source), nth) for source, nth in arrivals]
    by_key: dict[str, list[tuple[int, int]]] = {}
    for (source, nth), place in zip(arrivals, places, strict=True):
        key = feeds[source].records[nth].key
        if key is not None:
            by_key.setdefault(_text(key), []).append(place)
    moved = {key for key, each in by_key.items() if each != sorted(each)}
    is_plain = places == sorted(places)

    def is_steady(key: str) -> bool:
        return key not in moved if key in by_key else is_plain

    return is_steady


def _text(key: bytes) -> str:
    """A key as outputs write it."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return str(key)
