"""What a topic should hold, in one line of a test.

Without a schema these functions read the topic with a plain client, in milliseconds, and values are
JSON. With a schema Spark reads it and parses the values, so that a timestamp is a `datetime`.

Owner: the caller's thread.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass
from embedkafka.spark.frames import KafkaTopic, topic_to_df

if TYPE_CHECKING:
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


class ReadableTopic(KafkaTopic, Protocol):
    """A topic handle, of an embedded or an external cluster."""

    def read(self) -> Sequence[ReadRecord]:
        """Every committed record that is there now."""


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
        schema: parses the values with Spark, into dictionaries; without it they are JSON, or text
            if they are not.

    Raises:
        ConfigError: a record has no key, or there is no Spark session for the schema.
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


def read_records(
    topic: ReadableTopic, schema: "str | StructType | None" = None
) -> list[DecodedRecord]:
    """The topic's committed records, by partition and offset, decoded as `latest_by_key` says."""
    if schema is not None:
        return _parse_records(topic, schema)
    return [
        DecodedRecord(
            partition=message.partition,
            offset=message.offset,
            timestamp_ms=message.timestamp_ms,
            key=_text(message.key),
            value=_json(message.value),
        )
        for message in topic.read()
    ]


def _parse_records(topic: ReadableTopic, schema: "str | StructType") -> list[DecodedRecord]:
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None:
        raise ConfigError("a schema needs a Spark session, and none is active: use `spark`")
    options = dict(topic.spark_options())
    servers, name = options.pop("kafka.bootstrap.servers"), options.pop("subscribe")
    committed = {**options, "kafka.isolation.level": "read_committed"}
    frame = topic_to_df(spark, servers, name, committed, schema=schema)
    frame = frame.selectExpr(
        "partition", "offset", "unix_millis(timestamp) AS timestamp_ms", "key", "value"
    )
    rows: list[Any] = frame.orderBy("partition", "offset").collect()
    return [DecodedRecord(**{**row.asDict(), "value": _plain(row.value)}) for row in rows]


def _follows(record: DecodedRecord, known: DecodedRecord) -> bool:
    if record.partition == known.partition:
        return record.offset > known.offset
    return record.timestamp_ms > known.timestamp_ms


def _plain(row: Any) -> Any:
    return row.asDict(recursive=True) if hasattr(row, "asDict") else row


def _text(data: bytes | None) -> str | bytes | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return data


def _json(data: bytes | None) -> Any:
    text = _text(data)
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
