"""Reads the records of chosen examples again, to show their keys and values."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from embedkafka.spark.delivery.fingerprints import LONGEST_TEXT, Look
from embedkafka.spark.delivery.result import AuditedRecord, Example
from embedkafka.spark.delivery.tally import SIDES, SINK, SOURCE, RecordPlace, Sighting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: More rows than examples come back only where many records are equal and have no offset.
_MOST_ROWS: Final = 1_000

_At = tuple[int, int, int, int | None, int | None]
_Texts = Mapping[_At, tuple[str | None, str | None]]


def read_examples(sightings: Sequence[Sighting], looks: Mapping[int, Look]) -> tuple[Example, ...]:
    """The sightings with keys and values."""
    frames = []
    for side in SIDES:
        seen = [(each.key_hash, place) for each in sightings if (place := _place(each, side))]
        if seen:
            frames.append(_frame(looks[side], seen))
    if not frames:
        return ()
    frame, *others = frames
    for other in others:
        frame = frame.unionByName(other)
    texts = {
        (row.side, row.key_hash, row.value_hash, row.partition, row.offset): (
            _cut(row.shown_key),
            _cut(row.shown_value),
        )
        for row in frame.limit(_MOST_ROWS).collect()
    }
    return tuple(_example(sighting, texts) for sighting in sightings)


def _frame(look: Look, seen: Sequence[tuple[int, RecordPlace]]) -> "DataFrame":
    from pyspark.sql import functions as F

    rows = look.fingerprints(look.records([place for _, place in seen]), with_text=True)
    wanted = F.col("key_hash").isin([key for key, _ in seen]) & F.col("value_hash").isin(
        [place.value_hash for _, place in seen]
    )
    offsets = [place.offset for _, place in seen if place.offset is not None]
    return rows.where(wanted & F.col("offset").isin(offsets) if offsets else wanted)


def _example(sighting: Sighting, texts: _Texts) -> Example:
    records: dict[int, AuditedRecord] = {}
    key = None
    for side in SIDES:
        if place := _place(sighting, side):
            at = (side, sighting.key_hash, place.value_hash, place.partition, place.offset)
            found_key, value = texts.get(at, (None, None))
            key = key if key is not None else found_key
            records[side] = AuditedRecord(
                topic=place.topic, partition=place.partition, offset=place.offset, value=value
            )
    return Example(kind=sighting.kind, key=key, source=records.get(SOURCE), sink=records.get(SINK))


def _place(sighting: Sighting, side: int) -> RecordPlace | None:
    return sighting.source if side == SOURCE else sighting.sink


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= LONGEST_TEXT:
        return text
    return text[:LONGEST_TEXT] + "…"
