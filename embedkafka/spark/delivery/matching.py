"""Matches every record of a source with a record of a sink, as one Spark query.

All records are shuffled once, by the hash of their key, so one task sees all of a key. Sorts,
windows and aggregates spill to disk, so no task holds a key's records in memory; a key with very
many records costs one task's time. The result grows with the number of partitions, never with the
number of records.

A record is a key and a value, as hashes of 128 bits. The n-th copy of a record in the source is
matched with its n-th copy in the sink:

| a copy that is        | is                                                                   |
|-----------------------|----------------------------------------------------------------------|
| in both               | delivered, reordered or scattered                                    |
| in the source only    | altered if the sink has an unknown value of its key, otherwise lost  |
| in the sink once more | duplicated                                                           |
| unknown to the source | altered if a value of its key is missing, otherwise unexpected       |

Kafka orders the records of a partition, so order is judged for keys that the source holds in one
partition. A record is scattered if the sink has it in another partition than the first record of
its key. It is reordered if the sink has it before a record of its key that the source had earlier.
Repeated records of which some copies were lost or duplicated are not judged: which copies those
were cannot be known. Records without a key have no order, and match by value alone.
"""

from typing import TYPE_CHECKING, Final

from embedkafka.spark.delivery.tally import SIDES, SINK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY: Final = ("key_hash", "key_hash_2")
_RECORD: Final = (*_KEY, "value_hash", "value_hash_2")
_PLACE: Final = ("topic", "partition", "offset")

_KIND: Final = """
CASE
    WHEN in_source AND in_sink THEN CASE
        WHEN judged AND sink_lane != home THEN 'scattered'
        WHEN judged AND overtaken > sink_offset THEN 'reordered'
        ELSE 'delivered'
    END
    WHEN in_source THEN IF(missing_so_far <= unknown, 'altered', 'lost')
    WHEN written > 0 THEN 'duplicated'
    ELSE IF(unknown_so_far <= missing, 'altered', 'unexpected')
END
"""


def tallies(source: "DataFrame", sink: "DataFrame", *, ordered: bool, examples: int) -> "DataFrame":
    """How many records of each kind each partition has, with an example.

    `source` and `sink` come from `fingerprints`. Records of each kind, side and partition are in
    `examples` rows at most, one for each bucket of key hashes; `tally.read_tally` reads them.
    """
    records = source.unionByName(sink).repartition("key_hash")
    return _tallied(_judged(_paired(records), ordered=ordered), examples=examples)


def _paired(records: "DataFrame") -> "DataFrame":
    """One row for each copy of a record, with its place in the source, in the sink or in both.

    `written` and `arrived` are the numbers of copies in the source and in the sink.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    by_place = Window.partitionBy(*_RECORD).orderBy("side", *_PLACE)
    all_copies = by_place.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    numbered = records.select(
        "*",
        F.sum(1 - F.col("side")).over(all_copies).alias("written"),
        F.sum("side").over(all_copies).alias("arrived"),
        F.row_number().over(by_place).alias("row"),
    )
    copy = F.expr(f"IF(side = {SINK}, row - written, row)").alias("copy")
    places = [
        F.max(F.when(F.col("side") == side, F.col(column))).alias(f"{name}_{column}")
        for side, name in SIDES.items()
        for column in _PLACE
    ]
    pairs = numbered.groupBy(*_RECORD, "keyed", "valued", "written", "arrived", copy).agg(*places)
    lanes = {
        f"{name}_lane": F.expr(
            f"shiftleft(CAST(hash({name}_topic) AS BIGINT), 32) | {name}_partition"
        )
        for name in SIDES.values()
    }
    present = {"in_source": F.expr("copy <= written"), "in_sink": F.expr("copy <= arrived")}
    return pairs.withColumns({**lanes, **present})


def _judged(pairs: "DataFrame", *, ordered: bool) -> "DataFrame":
    """The pairs with their `kind`, and whether their order was `judged`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    start, end = Window.unboundedPreceding, Window.unboundedFollowing
    as_written = Window.partitionBy(*_KEY).orderBy(
        "source_lane", "source_offset", "sink_lane", "sink_offset"
    )
    of_key = as_written.rowsBetween(start, end)
    so_far = as_written.rowsBetween(start, Window.currentRow)
    before = as_written.rowsBetween(start, -1)
    is_missing = F.expr("IF(in_source AND NOT in_sink, 1, 0)")
    is_unknown = F.expr("IF(written = 0, 1, 0)")
    is_sure = F.expr("keyed AND in_source AND in_sink AND (written = 1 OR written = arrived)")
    by_key = pairs.withColumns(
        {
            "missing": F.sum(is_missing).over(of_key),
            "unknown": F.sum(is_unknown).over(of_key),
            "missing_so_far": F.sum(is_missing).over(so_far),
            "unknown_so_far": F.sum(is_unknown).over(so_far),
            "judged": F.lit(ordered)
            & is_sure
            & (F.min("source_lane").over(of_key) == F.max("source_lane").over(of_key)),
            "home": F.first(F.when(is_sure, F.col("sink_lane")), ignorenulls=True).over(of_key),
        }
    )
    offset_at_home = F.expr("IF(judged AND sink_lane = home, sink_offset, NULL)")
    return by_key.withColumn("overtaken", F.max(offset_at_home).over(before)).withColumn(
        "kind", F.expr(_KIND)
    )


def _tallied(judged: "DataFrame", *, examples: int) -> "DataFrame":
    """Counts twice: by both partitions of a pair, in place, and then by each side's partition.

    The first count uses only numbers, which Spark updates in place; the second one has few rows.
    """
    from pyspark.sql import functions as F

    place = [f"{name}_{column}" for name in SIDES.values() for column in ("topic", "partition")]
    bucket = F.expr(f"IF(kind = 'delivered', NULL, pmod(key_hash, {examples}))").alias("bucket")
    offsets = [f"{name}_offset" for name in SIDES.values()]
    by_pair = judged.groupBy("kind", "in_source", "in_sink", *place, bucket).agg(
        F.count(F.lit(1)).alias("records"),
        *(F.sum(F.col(flag).cast("int")).alias(flag) for flag in ("keyed", "valued", "judged")),
        *(F.min(offset).alias(f"first_{offset}") for offset in offsets),
        *(F.max(offset).alias(f"last_{offset}") for offset in offsets),
        F.min("key_hash").alias("key_hash"),
        *(F.min_by(column, "key_hash").alias(column) for column in ("value_hash", *offsets)),
    )
    sides = [
        f"struct({side} AS side, in_{name} AS is_here, {name}_topic AS topic, "
        f"{name}_partition AS partition, first_{name}_offset AS first_offset, "
        f"last_{name}_offset AS last_offset)"
        for side, name in SIDES.items()
    ]
    by_side = by_pair.withColumn("at", F.explode(F.expr(f"array({', '.join(sides)})")))
    example = F.struct("key_hash", "value_hash", "in_source", "in_sink", *place, *offsets)
    return (
        by_side.where("at.is_here")
        .groupBy("kind", "at.side", "at.topic", "at.partition", "bucket")
        .agg(
            *(F.sum(count).alias(count) for count in ("records", "keyed", "valued", "judged")),
            F.min("at.first_offset").alias("first_offset"),
            F.max("at.last_offset").alias("last_offset"),
            F.min(example).alias("example"),
        )
    )
