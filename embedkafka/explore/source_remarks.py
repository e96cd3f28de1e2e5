"""What the author of a test should know of the Kafka sources that the job reads. Pure."""

from collections.abc import Iterable, Mapping, Sequence


def latest_starts(
    sources: Sequence[Mapping[str, str]], names: Mapping[str, str]
) -> tuple[str, ...]:
    """What to know of sources that begin at the latest offsets: `names` has those of topics."""
    return tuple(
        f"The job reads {name} with startingOffsets=latest: it takes nothing that arrives before "
        "it starts, and schedules send before that. options.read(...) begins at the earliest."
        for name in _topics_read(sources, names, "startingoffsets", "latest", default="latest")
    )


def careless_sources(
    sources: Sequence[Mapping[str, str]], names: Mapping[str, str]
) -> tuple[str, ...]:
    """What to know of sources that go on when records are gone."""
    return tuple(
        f"The job reads {name} with failOnDataLoss=false: of records that expire while it is down "
        "it says nothing. explore(..., expire=True) lets some expire."
        for name in _topics_read(sources, names, "failondataloss", "false", default="true")
    )


def _topics_read(
    sources: Sequence[Mapping[str, str]],
    names: Mapping[str, str],
    option: str,
    value: str,
    *,
    default: str,
) -> Iterable[str]:
    """The topics that sources read with this value of an option, each once."""
    return dict.fromkeys(
        names.get(source["subscribe"], source["subscribe"])
        for source in sources
        if "subscribe" in source and source.get(option, default).lower() == value
    )
