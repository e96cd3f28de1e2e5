"""The rows of `matching.tallies`, as values."""

from collections.abc import Mapping
from typing import Any, Final

from embedkafka.runtime.values import dataclass
from embedkafka.spark.delivery.result import Kind

SOURCE: Final = 0
SINK: Final = 1
SIDES: Final[Mapping[int, str]] = {SOURCE: "source", SINK: "sink"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlace:
    """Where a record is; records of a plain DataFrame may have no partition or offset."""

    topic: str
    partition: int | None
    offset: int | None
    value_hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """An example of which only hashes and places are known yet."""

    kind: Kind
    key_hash: int
    source: RecordPlace | None
    sink: RecordPlace | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The records of one kind in one partition whose keys fall into one bucket.

    `keyed` and `valued` are those with a key and with a value; `judged` those whose order counts.
    """

    side: int
    topic: str
    partition: int | None
    records: int
    keyed: int
    valued: int
    judged: int
    first_offset: int | None
    last_offset: int | None
    example: Sighting

    @property
    def kind(self) -> Kind:
        """What became of these records."""
        return self.example.kind


def read_tally(row: Any, names: Mapping[int, str]) -> Tally:
    """A row of the query; `names` are those of topics for which it has a number.

    Any: a `pyspark.sql.Row`.
    """
    seen = row.example

    def place(side: int, name: str) -> RecordPlace | None:
        if not seen[f"in_{name}"]:
            return None
        return RecordPlace(
            topic=_topic(seen[f"{name}_topic"], names[side]),
            partition=seen[f"{name}_partition"],
            offset=seen[f"{name}_offset"],
            value_hash=seen.value_hash,
        )

    source, sink = (place(side, name) for side, name in SIDES.items())
    return Tally(
        side=row.side,
        topic=_topic(row.topic, names[row.side]),
        partition=row.partition,
        records=row.records,
        keyed=row.keyed,
        valued=row.valued,
        judged=row.judged,
        first_offset=row.first_offset,
        last_offset=row.last_offset,
        example=Sighting(kind=Kind(row.kind), key_hash=seen.key_hash, source=source, sink=sink),
    )


def _topic(in_row: object, name: str) -> str:
    return in_row if isinstance(in_row, str) else name
