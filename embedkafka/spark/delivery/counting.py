"""Adds up the tallies of an audit: by kind, by partition, and the examples to show."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from embedkafka.runtime.values import replace
from embedkafka.spark.delivery.offsets import OffsetRange
from embedkafka.spark.delivery.result import FAULTS, Kind, PartitionDelivery
from embedkafka.spark.delivery.tally import SIDES, SINK, SOURCE, Sighting, Tally

#: The side on which each kind is counted. Of altered records, both sides have one half.
_COUNTED_ON: Final[Mapping[Kind, int]] = {
    Kind.DELIVERED: SOURCE,
    Kind.LOST: SOURCE,
    Kind.ALTERED: SOURCE,
    Kind.DUPLICATED: SINK,
    Kind.UNEXPECTED: SINK,
    Kind.REORDERED: SINK,
    Kind.SCATTERED: SINK,
}


def count_kinds(tallies: Iterable[Tally]) -> Counter[Kind]:
    """How many records there are of each kind; `delivered` includes reordered and scattered."""
    counts: Counter[Kind] = Counter()
    for tally in tallies:
        if tally.side == _COUNTED_ON[tally.kind]:
            counts[tally.kind] += tally.records
    counts[Kind.DELIVERED] += counts[Kind.REORDERED] + counts[Kind.SCATTERED]
    return counts


def count_partitions(
    tallies: Iterable[Tally],
    names: Mapping[int, str],
    ranges: Mapping[int, Mapping[int, OffsetRange]],
) -> tuple[PartitionDelivery, ...]:
    """Every partition with records, and those without where the ranges have them."""
    found: dict[tuple[int, str, int], list[Tally]] = {
        (side, names[side], partition): [] for side in SIDES for partition in ranges[side]
    }
    for tally in tallies:
        partition = -1 if tally.partition is None else tally.partition
        found.setdefault((tally.side, tally.topic, partition), []).append(tally)
    return tuple(
        _partition(side, topic, partition, found[side, topic, partition], ranges[side])
        for side, topic, partition in sorted(found)
    )


def choose_examples(tallies: Iterable[Tally], *, most: int) -> tuple[Sighting, ...]:
    """At most `most` of each kind of fault: the lowest key hash of each bucket.

    Both halves of an altered record have the same key, and so meet here.
    """
    chosen: dict[tuple[Kind, int], Sighting] = {}
    for sighting in sorted(
        (tally.example for tally in tallies if tally.kind in FAULTS),
        key=lambda sighting: sighting.key_hash,
    ):
        bucket = sighting.kind, sighting.key_hash % most
        known = chosen.setdefault(bucket, sighting)
        if known.key_hash == sighting.key_hash:
            chosen[bucket] = replace(
                known, source=known.source or sighting.source, sink=known.sink or sighting.sink
            )
    return tuple(sighting for kind in FAULTS for (of, _), sighting in chosen.items() if of is kind)


def _partition(
    side: int,
    topic: str,
    partition: int,
    tallies: Sequence[Tally],
    ranges: Mapping[int, OffsetRange],
) -> PartitionDelivery:
    counts: Counter[Kind] = Counter()
    for tally in tallies:
        counts[tally.kind] += tally.records
    faults = [tally for tally in tallies if tally.kind in FAULTS]
    read = ranges.get(partition)
    return PartitionDelivery(
        side=SIDES[side],
        topic=topic,
        partition=None if partition < 0 else partition,
        records=counts.total(),
        counts={kind: counts[kind] for kind in Kind if counts[kind]},
        start=read.start if read else None,
        end=read.end if read else None,
        first_fault=min(
            (each.first_offset for each in faults if each.first_offset is not None), default=None
        ),
        last_fault=max(
            (each.last_offset for each in faults if each.last_offset is not None), default=None
        ),
    )
