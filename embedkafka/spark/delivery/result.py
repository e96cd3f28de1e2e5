"""What an audit found: counts, counts per partition, and examples."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

from embedkafka.runtime.values import dataclass


class Kind(StrEnum):
    """What became of a record."""

    DELIVERED = "delivered"
    LOST = "lost"
    DUPLICATED = "duplicated"
    ALTERED = "altered"
    UNEXPECTED = "unexpected"
    REORDERED = "reordered"
    SCATTERED = "scattered"


#: Every kind but `delivered`, with its meaning.
FAULTS: Final[Mapping[Kind, str]] = {
    Kind.LOST: "in the source, not in the sink",
    Kind.DUPLICATED: "in the sink more often than in the source",
    Kind.ALTERED: "in the sink with another value for the same key",
    Kind.UNEXPECTED: "in the sink, not in the source",
    Kind.REORDERED: "in the sink before an earlier record of the same key",
    Kind.SCATTERED: "in another partition than the first record of the same key",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDelivery:
    """One partition of the source or of the sink.

    `start` and `end` are the offsets between which it was read; `first_fault` and `last_fault` are
    the lowest and the highest offset of a record with a fault. `counts` has the kinds that occur.
    """

    side: str
    topic: str
    partition: int | None
    records: int
    counts: Mapping[Kind, int]
    start: int | None = None
    end: int | None = None
    first_fault: int | None = None
    last_fault: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRecord:
    """A record as an example shows it; a long value is cut."""

    topic: str
    partition: int | None
    offset: int | None
    value: str | None

    def __str__(self) -> str:
        place = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        return place if self.offset is None else f"{place} @ {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A record with a fault, as the source and the sink have it."""

    kind: Kind
    key: str | None
    source: AuditedRecord | None = None
    sink: AuditedRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The result of an audit. `ok` says whether the sink holds what it should.

    `delivered` counts the records of the source that are in the sink, whatever their order;
    `judged` those among them whose order was judged, or None if none could be.
    """

    source: str
    sink: str
    key: str
    value: str
    source_records: int
    sink_records: int
    without_key: int
    delivered: int
    lost: int
    duplicated: int
    altered: int
    unexpected: int
    reordered: int
    scattered: int
    judged: int | None
    partitions: tuple[PartitionDelivery, ...]
    examples: tuple[Example, ...]

    @property
    def ok(self) -> bool:
        """Whether no record has a fault."""
        return not any(self.faults.values())

    @property
    def faults(self) -> dict[Kind, int]:
        """How many records have each kind of fault."""
        return {kind: getattr(self, kind.value) for kind in FAULTS}

    def __repr__(self) -> str:
        return self.table()

    def table(self) -> str:
        """The result as text: the verdict, counts, partitions with faults, and examples."""
        from embedkafka.spark.delivery.text import as_text

        return as_text(self)

    def to_html(self, file: str | Path | None = None) -> str:
        """The result as a page that needs nothing else.

        Args:
            file: where to write the page as well.
        """
        from embedkafka.spark.delivery.page import as_page

        page = as_page(self)
        if file is not None:
            Path(file).write_text(page, encoding="utf-8")
        return page
