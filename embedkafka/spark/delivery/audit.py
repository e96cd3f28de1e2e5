"""`audit`: proves or refutes, on Spark, that a sink holds what its source says it should.

Not here: how records are matched (`matching`) and what of a record counts (`fingerprints`).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from embedkafka.runtime.arguments import require_int, require_known, shown
from embedkafka.runtime.failures import ConfigError, EmbedKafkaError, InvalidArgument
from embedkafka.spark.connector.missing import explaining_missing_connector
from embedkafka.spark.delivery.counting import choose_examples, count_kinds, count_partitions
from embedkafka.spark.delivery.examples import read_examples
from embedkafka.spark.delivery.fingerprints import Look, Selector, Transform, describe
from embedkafka.spark.delivery.matching import tallies
from embedkafka.spark.delivery.offsets import offset_ranges
from embedkafka.spark.delivery.origins import FrameOrigin, Origin, TopicOrigin
from embedkafka.spark.delivery.result import Delivery, Kind
from embedkafka.spark.delivery.tally import SIDES, SINK, SOURCE, Tally, read_tally
from embedkafka.spark.frames import KafkaTopic, option_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ISOLATIONS: Final = ("read_committed", "read_uncommitted")
_KAFKA_KEY: Final = "key"
_KAFKA_VALUE: Final = "value"
_BOOTSTRAP: Final = "kafka.bootstrap.servers"
#: Options of a topic handle that an audit replaces.
_REPLACED: Final = frozenset({"subscribe", "startingOffsets"})


class NothingToAudit(EmbedKafkaError):
    """Both sides are empty, and an audit of nothing proves nothing."""


def audit(
    source: "KafkaTopic | str | DataFrame",
    sink: "KafkaTopic | str | DataFrame",
    *,
    key: Selector = _KAFKA_KEY,
    value: Selector = _KAFKA_VALUE,
    transform: Transform | None = None,
    ordered: bool | None = None,
    isolation: str = "read_committed",
    bootstrap_servers: str | None = None,
    options: Mapping[str, object] | None = None,
    examples: int = 5,
    spark: "SparkSession | None" = None,
) -> Delivery:
    """Compares every record of the source with every record of the sink, in one Spark query.

    Topics are read up to the offsets that they have at the call. What arrives later, or is still
    on its way from the source to the sink, is not there: audit a pipeline at rest.

    Args:
        source: what was written: a topic handle, a topic's name, or a batch DataFrame with the
            columns of Spark's Kafka source (`partition` and `offset` may be missing).
        sink: what arrived, in the same forms.
        key: what identifies a record on both sides: a column, a field of the JSON value, a list of
            them, or a function of the DataFrame that returns a Column. Default: Kafka's key.
        value: what must be equal, in the same forms. Default: Kafka's value, byte by byte; `"$"`
            is the JSON value whatever its white space.
        transform: makes the source into what the sink should hold, DataFrame to DataFrame. Without
            a column `value`, each row is a JSON object. Keep `partition` and `offset` to have
            order judged.
        ordered: whether to judge the order of each key's records. Default: if both sides have
            `partition` and `offset`.
        isolation: "read_committed", or "read_uncommitted" to count open and aborted transactions;
            a DataFrame is read as it was made.
        bootstrap_servers: where topics given by name are.
        options: further options of the Kafka source for both topics, such as
            `kafka.security.protocol`, `minPartitions` or `startingTimestamp`.
        examples: how many examples of each kind of fault to show.
        spark: the session. Default: that of the DataFrames, or the active one.

    Raises:
        ConfigError: a topic does not exist.
        InvalidArgument: no record of a side has the key or the value that was named.
        NothingToAudit: both sides are empty.
    """
    require_known("isolation level", isolation, _ISOLATIONS)
    require_int("examples", examples, least=1)
    session = spark or _session(source, sink)
    reading = {"kafka.isolation.level": isolation, **option_texts(options)}
    if bootstrap_servers is not None:
        reading[_BOOTSTRAP] = bootstrap_servers
    written = Look(
        side=SOURCE,
        origin=_origin(session, source, "source", reading),
        key=key,
        value=value,
        transform=transform,
    )
    arrived = Look(side=SINK, origin=_origin(session, sink, "sink", reading), key=key, value=value)
    return _compare(written, arrived, ordered=ordered, examples=examples)


def assert_delivered(
    source: "KafkaTopic | str | DataFrame",
    sink: "KafkaTopic | str | DataFrame",
    **arguments: Any,  # Any: the arguments of `audit`
) -> Delivery:
    """Raises AssertionError with the table of an `audit` that found a fault.

    Args:
        source: as for `audit`.
        sink: as for `audit`.
        **arguments: the other arguments of `audit`.
    """
    delivery = audit(source, sink, **arguments)
    if not delivery.ok:
        raise AssertionError(delivery.table())
    return delivery


@explaining_missing_connector()
def _compare(source: Look, sink: Look, *, ordered: bool | None, examples: int) -> Delivery:
    looks = {SOURCE: source, SINK: sink}
    names = {side: look.origin.name for side, look in looks.items()}
    records = {side: look.records() for side, look in looks.items()}
    judges_order = _judges_order(ordered, records)
    name_topics = any(look.has_topics(records[side]) for side, look in looks.items())
    prints = {
        side: look.fingerprints(records[side], name_topics=name_topics)
        for side, look in looks.items()
    }
    rows = tallies(prints[SOURCE], prints[SINK], ordered=judges_order, examples=examples).collect()
    found = [read_tally(row, names) for row in rows]
    _require_records(found, looks)
    kinds = count_kinds(found)
    return Delivery(
        source=names[SOURCE],
        sink=names[SINK],
        key=describe(source.key),
        value=describe(source.value),
        source_records=sum(tally.records for tally in found if tally.side == SOURCE),
        sink_records=sum(tally.records for tally in found if tally.side == SINK),
        without_key=sum(tally.records - tally.keyed for tally in found),
        delivered=kinds[Kind.DELIVERED],
        lost=kinds[Kind.LOST],
        duplicated=kinds[Kind.DUPLICATED],
        altered=kinds[Kind.ALTERED],
        unexpected=kinds[Kind.UNEXPECTED],
        reordered=kinds[Kind.REORDERED],
        scattered=kinds[Kind.SCATTERED],
        judged=sum(tally.judged for tally in found if tally.side == SINK) if judges_order else None,
        partitions=count_partitions(
            found, names, {side: look.origin.ranges for side, look in looks.items()}
        ),
        examples=read_examples(choose_examples(found, most=examples), looks),
    )


def _session(*given: object) -> "SparkSession":
    from pyspark.sql import SparkSession

    for each in given:
        if _is_frame(each):
            return cast("DataFrame", each).sparkSession
    active = SparkSession.getActiveSession()
    if active is None:
        raise ConfigError("there is no Spark session: start one, or pass it as spark=")
    return active


def _origin(
    spark: "SparkSession",
    given: "KafkaTopic | str | DataFrame",
    side: str,
    reading: Mapping[str, str],
) -> Origin:
    if _is_frame(given):
        frame = cast("DataFrame", given)
        if frame.isStreaming:
            raise InvalidArgument(f"the {side} is a stream: an audit reads batches (spark.read)")
        return FrameOrigin(frame, f"the {side}")
    if isinstance(given, str):
        topic, options = given, dict(reading)
    elif hasattr(given, "spark_options"):
        handle = cast("KafkaTopic", given)
        own = {k: v for k, v in handle.spark_options().items() if k not in _REPLACED}
        topic, options = handle.name, {**own, **reading}
    else:
        raise InvalidArgument(
            f"the {side} must be a topic, a topic's name or a DataFrame, got {shown(given)}"
        )
    if _BOOTSTRAP not in options:
        raise InvalidArgument(f"where is topic {topic}? Pass bootstrap_servers=")
    return TopicOrigin(spark, topic, options, offset_ranges(spark, options, topic))


def _is_frame(given: object) -> bool:
    """A DataFrame of Spark, or of Spark Connect, whose class another one is."""
    return hasattr(given, "sparkSession") and hasattr(given, "columns")


def _judges_order(ordered: bool | None, records: "Mapping[int, DataFrame]") -> bool:
    if ordered is False:
        return False
    for side, frame in records.items():
        if lacking := {"partition", "offset"} - set(frame.columns):
            if ordered:
                columns = " and no ".join(sorted(lacking))
                raise InvalidArgument(f"cannot judge order: the {SIDES[side]} has no {columns}")
            return False
    return True


def _require_records(found: Sequence[Tally], looks: Mapping[int, Look]) -> None:
    """Refuses an audit that compares nothing: it would prove whatever one wants."""
    if not found:
        names = " and ".join(look.origin.name for look in looks.values())
        raise NothingToAudit(f"nothing to read: {names} are empty")
    for side, look in looks.items():
        here = [tally for tally in found if tally.side == side]
        for what, selector, default, count in (
            ("key", look.key, _KAFKA_KEY, sum(tally.keyed for tally in here)),
            ("value", look.value, _KAFKA_VALUE, sum(tally.valued for tally in here)),
        ):
            if here and selector != default and not count:
                raise InvalidArgument(
                    f"no record of {look.origin.name} has {describe(selector)}, which is to be its "
                    f"{what}: neither as a column nor as a field of a JSON value"
                )
