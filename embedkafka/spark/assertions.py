"""What a topic should hold, in one line of a test.

Without a schema these functions read the topic with a plain client, in milliseconds, and values are
JSON. With a schema Spark reads it and parses the values, so that a timestamp is a `datetime`.

Owner: the caller's thread.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from embedkafka.runtime.arguments import (
    require_attribute,
    require_function,
    require_list,
    require_number,
)
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.shown_values import find_text, show_value
from embedkafka.runtime.values import dataclass
from embedkafka.spark.differences import FoundRow, find_difference
from embedkafka.spark.execution import find_execution
from embedkafka.spark.frames import KafkaTopic, topic_to_df
from embedkafka.spark.queries import drain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class ReadRecord(Protocol):
    """A record as a topic handle returns it."""

    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    def decoded(self) -> Any: ...  # Any: what the topic's decoder makes of it


class ReadableTopic(KafkaTopic, Protocol):
    """A topic handle, of an embedded or an external cluster."""

    @property
    def decode(self) -> Callable[[bytes], Any] | None:
        """The decoder of its values, if it has one."""

    def read(self) -> Sequence[ReadRecord]:
        """Every committed record that is there now."""


class InputTopic(KafkaTopic, Protocol):
    """A topic handle that takes a DataFrame and gives a stream."""

    def write(self, df: "DataFrame", *, key: str | None = None) -> None:
        """Appends the rows."""

    def stream(self, spark: "SparkSession", *, schema: "str | StructType") -> "DataFrame":
        """The topic as columns."""

    def delete(self) -> None:
        """Deletes the topic."""


class AnyCluster(Protocol):
    """A cluster, embedded or external, as far as `assert_stream` needs it."""

    def topic(self) -> InputTopic:
        """Creates a topic with a new name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecord:
    """A record with its key and value decoded."""

    partition: int
    offset: int
    timestamp_ms: int
    key: str | bytes | None
    value: Any  # JSON and rows have no common type


def latest_by_key(
    topic: ReadableTopic, schema: "str | StructType | None" = None
) -> dict[str | bytes, Any]:
    """The last value of each key: what an update or compacted topic says now.

        assert latest_by_key(totals) == {"apple": {"sku": "apple", "total": 5}}

    A tombstone removes its key. If a key is in several partitions, because the topic has grown, the
    latest timestamp decides.

    Args:
        topic: the topic's handle. Only committed records count.
        schema: parses the values with Spark, into dictionaries. Without it they are what the
            topic's decoder makes of them, or else JSON, text or bytes.

    Raises:
        ConfigError: a record has no key, or there is no Spark session for the schema.
        UndecodableMessage: the topic's decoder has raised.
    """
    latest: dict[str | bytes, DecodedRecord] = {}
    for record in read_records(topic, schema):
        if record.key is None:
            raise ConfigError(
                f"{topic.name}-{record.partition} offset {record.offset} has no key: "
                "`latest_by_key` is for topics whose records have one"
            )
        known = latest.get(record.key)
        if known is None or _follows(record, known):
            latest[record.key] = record
    return {key: record.value for key, record in latest.items() if record.value is not None}


def assert_topic_equals(
    topic: ReadableTopic,
    rows: "Iterable[Any] | DataFrame",
    *,
    schema: "str | StructType | None" = None,
    ignore_order: bool = True,
    by_key: str | None = None,
) -> None:
    """Fails with a readable difference unless the topic's values are exactly these rows.

        assert_topic_equals(priced, [{"id": 1, "total": 6.0}, {"id": 2, "total": 3.5}])

    Args:
        topic: the topic's handle. Only committed records count.
        rows: what should be there: dictionaries, rows of Spark, a DataFrame, tuples (with a
            schema or a decoder), or plain values.
        schema: parses the values with Spark, so that a timestamp is a `datetime`. Without it they
            are what the topic's decoder makes of them (`kafka.topic(..., decode=...)`), or else
            JSON, text or bytes.
        ignore_order: whether only the values matter, and how often each is there. A topic with
            several partitions has no order.
        by_key: a field of the values. The order counts among those that have the same value in it,
            as Kafka keeps it for the records of one key, and not between others.

    Raises:
        AssertionError: the topic has other values, or in another order.
        ConfigError: a row cannot be compared, or the order of several partitions is asked for.
        UndecodableMessage: the topic's decoder has raised.
    """
    found = read_records(topic, schema)
    if schema is None and topic.decode is not None:
        expected = [_plain(row) for row in _rows(rows)]  # as the decoder would make them
    else:
        names = None if schema is None else _field_names(schema)
        expected = [_row(row, names) for row in _rows(rows)]
    if by_key is None and not ignore_order and len({record.partition for record in found}) > 1:
        raise ConfigError(
            f"{topic.name} has records in several partitions, and no order among them: compare "
            'with `by_key="..."`, or use one partition'
        )
    for value in [*expected, *(record.value for record in found)] if by_key is not None else ():
        if not isinstance(value, Mapping) or by_key not in value:
            raise ConfigError(f"there is no field {by_key!r} in {show_value(value)}")
    told = [
        FoundRow(value=each.value, where=f"{topic.name}-{each.partition} offset {each.offset}")
        for each in found
    ]
    is_ordered = by_key is not None or not ignore_order
    if lines := find_difference(expected, told, is_ordered=is_ordered, by_key=by_key):
        raise AssertionError("\n".join([f"topic {topic.name} differs: {lines[0]}", *lines[1:]]))


def assert_stream(
    kafka: AnyCluster,
    spark: "SparkSession",
    *,
    given: Iterable[Any] | Mapping[str, Iterable[Any]],
    schema: "str | StructType | Mapping[str, str | StructType]",
    job: "Callable[..., DataFrame]",
    expected: Iterable[Any],
    output_mode: str = "append",
    key: str | None = None,
    ignore_order: bool = True,
    timeout_s: float = 120.0,
) -> None:
    """Sends rows through a topic and a streaming job, and compares what comes out.

        assert_stream(
            kafka, spark,
            given=[("a", 2), ("b", 1)], schema="sku STRING, quantity INT",
            job=lambda orders: orders.where("quantity > 1"),
            expected=[("a", 2)],
        )

    Args:
        kafka: the cluster; the input topics are new, and deleted afterwards.
        spark: the session.
        given: the input rows; or for a job with several inputs, rows by name.
        schema: the fields of the rows; or by name.
        job: makes the result of the input, both streaming DataFrames. With several inputs they are
            passed by name.
        expected: the rows that the job should put out: dictionaries, rows of Spark or tuples.
        output_mode: Spark's: "append", "update" or "complete".
        key: the column that becomes the key of the input records.
        ignore_order: whether only the rows matter, and how often each is there.
        timeout_s: how long the job may take, in seconds of real time.

    Raises:
        AssertionError: the job put out other rows.
        StreamingQueryException: the job failed.
        AwaitTimeout: the job did not end in that time.
    """
    require_attribute("kafka", kafka, "topic", "a cluster")
    require_attribute("spark", spark, "createDataFrame", "a SparkSession")
    require_function("job", job, "streaming DataFrames")
    require_number("timeout_s", timeout_s)
    inputs = dict(given) if isinstance(given, Mapping) else {"": given}
    schemas = dict(schema) if isinstance(schema, Mapping) else dict.fromkeys(inputs, schema)
    if missing := sorted(inputs.keys() - schemas.keys()):
        raise ConfigError(f"there is no schema for {missing[0]!r}")
    topics = {name: kafka.topic() for name in inputs}
    try:
        for name, topic in topics.items():
            topic.write(spark.createDataFrame(list(inputs[name]), schemas[name]), key=key)
        frames = {name: topic.stream(spark, schema=schemas[name]) for name, topic in topics.items()}
        result = job(**frames) if isinstance(given, Mapping) else job(frames[""])
        rows = _run(spark, result, list(topics.values()), output_mode, timeout_s)
    finally:
        for topic in topics.values():
            topic.delete()
    told = [FoundRow(value=_plain(row), where=f"row {at}") for at, row in enumerate(rows)]
    wanted = [_row(row, result.columns) for row in _rows(expected)]
    if lines := find_difference(wanted, told, is_ordered=not ignore_order):
        raise AssertionError("\n".join([f"the result differs: {lines[0]}", *lines[1:]]))


def read_records(
    topic: ReadableTopic, schema: "str | StructType | None" = None
) -> list[DecodedRecord]:
    """The topic's committed records, by partition and offset, decoded as `latest_by_key` says."""
    require_attribute("topic", topic, "read", "a topic's handle")
    if schema is not None:
        return _parse_records(topic, schema)
    return [
        DecodedRecord(
            partition=message.partition,
            offset=message.offset,
            timestamp_ms=message.timestamp_ms,
            key=_text(message.key),
            value=_json(message.value) if topic.decode is None else message.decoded(),
        )
        for message in topic.read()
    ]


def _parse_records(topic: ReadableTopic, schema: "str | StructType") -> list[DecodedRecord]:
    options = dict(topic.spark_options())
    servers, name = options.pop("kafka.bootstrap.servers"), options.pop("subscribe")
    committed = {**options, "kafka.isolation.level": "read_committed"}
    frame = topic_to_df(_require_session(), servers, name, committed, schema=schema)
    frame = frame.selectExpr(
        "partition", "offset", "unix_millis(timestamp) AS timestamp_ms", "key", "value"
    )
    rows: list[Any] = frame.orderBy("partition", "offset").collect()
    return [DecodedRecord(**{**row.asDict(), "value": _plain(row.value)}) for row in rows]


def _run(
    spark: "SparkSession",
    result: "DataFrame",
    inputs: Sequence[KafkaTopic],
    output_mode: str,
    timeout_s: float,
) -> list[Any]:
    """The rows that a streaming DataFrame puts out until its input is used up."""
    table = f"embedkafka_{uuid.uuid4().hex}"
    writer = result.writeStream.format("memory").queryName(table).outputMode(output_mode)
    query = writer.trigger(availableNow=True).start()
    try:
        # A query of Spark Connect does not tell what it reads; another may read some inputs only.
        topics = inputs if find_execution(query) is None else None
        drain(query, topics=topics, timeout_s=timeout_s)
        return spark.table(table).collect()
    finally:
        query.stop()
        spark.catalog.dropTempView(table)


def _rows(rows: "Iterable[Any] | DataFrame") -> list[Any]:
    given: Any = rows
    if hasattr(given, "collect"):  # a DataFrame
        return list(given.collect())
    return require_list("rows", given, '[{"id": 1}]', refusal=ConfigError)


def _row(row: Any, names: Sequence[str] | None) -> Any:
    """The row as it is compared: a dictionary with all fields, or a plain value."""
    row = _plain(row)
    if isinstance(row, tuple):
        if names is None:
            raise ConfigError(f"the tuple {row!r} needs a schema that names its fields")
        if len(names) != len(row):
            raise ConfigError(f"the tuple {row!r} has not the fields {', '.join(names)}")
        return dict(zip(names, row, strict=True))
    if isinstance(row, Mapping) and names is not None:
        if unknown := sorted(row.keys() - set(names)):
            raise ConfigError(f"there is no field {unknown[0]!r}, only {', '.join(names)}")
        return {name: row.get(name) for name in names}
    return row


def _field_names(schema: "str | StructType") -> list[str]:
    from pyspark.sql.types import StructType

    if isinstance(schema, StructType):
        return schema.fieldNames()
    parsed: Any = _require_session().createDataFrame([], schema).schema
    return list(parsed.fieldNames())


def _require_session() -> "SparkSession":
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None:
        raise ConfigError("a schema needs a Spark session, and none is active: use `spark`")
    return spark


def _follows(record: DecodedRecord, known: DecodedRecord) -> bool:
    if record.partition == known.partition:
        return record.offset > known.offset
    return record.timestamp_ms > known.timestamp_ms


def _plain(row: Any) -> Any:
    return row.asDict(recursive=True) if hasattr(row, "asDict") else row


def _text(data: bytes | None) -> str | bytes | None:
    text = None if data is None else find_text(data)
    return data if text is None else text


def _json(data: bytes | None) -> Any:
    text = _text(data)
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
