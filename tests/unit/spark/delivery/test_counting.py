"""Tallies of Spark's query, added up."""

from typing import Any

from pyspark.sql import Row

from embedkafka.spark.delivery.counting import choose_examples, count_kinds, count_partitions
from embedkafka.spark.delivery.offsets import OffsetRange
from embedkafka.spark.delivery.result import Kind
from embedkafka.spark.delivery.tally import SINK, SOURCE, RecordPlace, Sighting, Tally, read_tally
from tests.presence import present

NAMES = {SOURCE: "orders", SINK: "priced"}


def tally(
    kind: Kind,
    side: int,
    *,
    partition: int | None = 0,
    records: int = 1,
    key_hash: int = 0,
    offsets: tuple[int | None, int | None] = (None, None),
    places: str = "",
) -> Tally:
    """`places` has an s for each place in the source and a t for each in the sink."""
    place = RecordPlace(topic="t", partition=partition, offset=offsets[0], value_hash=side)
    return Tally(
        side=side,
        topic=NAMES[side],
        partition=partition,
        records=records,
        keyed=records,
        valued=records,
        judged=0,
        first_offset=offsets[0],
        last_offset=offsets[1],
        example=Sighting(
            kind=kind,
            key_hash=key_hash,
            source=place if "s" in places else None,
            sink=place if "t" in places else None,
        ),
    )


def test_a_matched_record_is_counted_once_although_both_sides_have_it() -> None:
    found = [
        tally(kind, side, records=3)
        for kind in (Kind.DELIVERED, Kind.REORDERED, Kind.SCATTERED, Kind.ALTERED)
        for side in (SOURCE, SINK)
    ]
    found += [tally(Kind.LOST, SOURCE), tally(Kind.DUPLICATED, SINK), tally(Kind.UNEXPECTED, SINK)]
    assert count_kinds(found) == {
        Kind.DELIVERED: 9,
        Kind.REORDERED: 3,
        Kind.SCATTERED: 3,
        Kind.ALTERED: 3,
        Kind.LOST: 1,
        Kind.DUPLICATED: 1,
        Kind.UNEXPECTED: 1,
    }


def test_partitions_are_listed_even_without_records() -> None:
    ranges: dict[int, dict[int, OffsetRange]] = {
        SOURCE: {0: OffsetRange(start=5, end=9), 1: OffsetRange(start=0, end=0)},
        SINK: {},
    }
    found = [
        tally(Kind.DELIVERED, SOURCE, records=2, offsets=(5, 8)),
        tally(Kind.LOST, SOURCE, offsets=(7, 7)),
        tally(Kind.LOST, SOURCE, offsets=(6, 6)),
        tally(Kind.DELIVERED, SINK, partition=None, records=2),
    ]
    zero, one, sink = count_partitions(found, NAMES, ranges)
    assert (zero.side, zero.topic, zero.partition, zero.records) == ("source", "orders", 0, 4)
    assert zero.counts == {Kind.DELIVERED: 2, Kind.LOST: 2}
    assert (zero.start, zero.end, zero.first_fault, zero.last_fault) == (5, 9, 6, 7)
    assert (one.partition, one.records, one.counts, one.first_fault) == (1, 0, {}, None)
    assert (sink.side, sink.partition, sink.start, sink.end) == ("sink", None, None, None)


def test_examples_are_the_lowest_keys_of_their_buckets() -> None:
    found = [tally(Kind.LOST, SOURCE, key_hash=key, places="s") for key in (6, 4, 3, -5, 1)]
    found.append(tally(Kind.DELIVERED, SOURCE, key_hash=0, places="st"))
    assert [each.key_hash for each in choose_examples(found, most=2)] == [-5, 4]


def test_the_two_halves_of_an_altered_record_become_one_example() -> None:
    found = [
        tally(Kind.ALTERED, SINK, key_hash=4, places="t"),
        tally(Kind.ALTERED, SINK, partition=3, key_hash=2, places="t"),
        tally(Kind.ALTERED, SOURCE, partition=1, key_hash=2, places="s"),
        tally(Kind.ALTERED, SOURCE, key_hash=4, places="s"),
    ]
    (example,) = choose_examples(found, most=2)
    assert (
        example.key_hash,
        present(example.source).partition,
        present(example.sink).partition,
    ) == (
        2,
        1,
        3,
    )
    assert (present(example.source).value_hash, present(example.sink).value_hash) == (SOURCE, SINK)


def row(**changes: Any) -> Row:
    example = Row(
        key_hash=1,
        value_hash=2,
        in_source=True,
        in_sink=False,
        source_topic=0,
        source_partition=3,
        sink_topic=None,
        sink_partition=None,
        source_offset=9,
        sink_offset=None,
    )
    values = {
        "kind": "lost",
        "side": 0,
        "topic": 0,
        "partition": 3,
        "records": 1,
        "keyed": 1,
        "valued": 1,
        "judged": 0,
        "first_offset": 9,
        "last_offset": 9,
        "example": example,
    }
    return Row(**{**values, **changes})


def test_a_number_for_a_topic_stands_for_the_only_one() -> None:
    read = read_tally(row(), NAMES)
    assert read.topic == "orders"
    assert read.example.source == RecordPlace(topic="orders", partition=3, offset=9, value_hash=2)
    assert read.example.sink is None
    assert read_tally(row(topic="other"), NAMES).topic == "other"
