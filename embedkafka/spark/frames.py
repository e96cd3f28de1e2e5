"""Topics as DataFrames, batch and streaming, through Spark's Kafka connector.

Anything with a name and `spark_options()` is a topic here, so these functions serve embedded and
external clusters alike.
"""

import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from embedkafka.runtime.arguments import require_known
from embedkafka.runtime.failures import AwaitTimeout, ConfigError
from embedkafka.spark.connector.missing import explaining_missing_connector

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import DataType, StructType

_BOOTSTRAP: Final = "kafka.bootstrap.servers"

PROMPT_READS: Final[Mapping[str, str]] = {"kafka.fetch.max.wait.ms": "10"}
"""Spark asks for a partition's ends behind a fetch that waits for more records: half a second of
every batch by default."""

_FORMATS: Final = ("json", "avro", "text", "binary")
_WITH_SCHEMA: Final = ("json", "avro")
_NO_AVRO: Final = (
    'format "avro" needs a module of Spark: `--spark-package spark-avro`, or '
    '`local_session(packages=["spark-avro"])`'
)

#: Columns of the connector's sink that are never part of a JSON value.
_SINK_COLUMNS: Final = frozenset({"key", "value", "topic", "partition", "headers"})


class KafkaTopic(Protocol):
    """A topic that Spark can read and write."""

    @property
    def name(self) -> str:
        """The topic's name."""

    def spark_options(self) -> Mapping[str, str]:
        """`subscribe` with the topic's name, and `kafka.*` options that say how to connect."""


@explaining_missing_connector()
def topic_to_df(
    spark: "SparkSession",
    bootstrap_servers: str,
    topic: str,
    options: Mapping[str, object] | None = None,
    *,
    schema: "str | StructType | None" = None,
    binary: bool = False,
) -> "DataFrame":
    """Everything in the topic now, one row per record.

    Keys and values are strings; with `schema` the value is a struct parsed from JSON; with
    `binary` both stay bytes. `options` are the connector's (`endingOffsets`, `includeHeaders`).
    """
    chosen = {
        _BOOTSTRAP: bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        **option_texts(options),
    }
    frame = spark.read.format("kafka").options(**chosen).load()
    return _decoded(frame, schema=schema, binary=binary)


@explaining_missing_connector()
def write_df(
    df: "DataFrame",
    bootstrap_servers: str,
    topic: str,
    *,
    key: str | None = None,
    options: Mapping[str, object] | None = None,
) -> None:
    """Appends the rows to the topic; `to_records` defines how a row becomes a record."""
    chosen = {_BOOTSTRAP: bootstrap_servers, "topic": topic, **option_texts(options)}
    to_records(df, key=key).write.format("kafka").options(**chosen).save()


@explaining_missing_connector()
def stream(
    spark: "SparkSession",
    topic: KafkaTopic,
    *,
    schema: "str | StructType | None" = None,
    binary: bool = False,
    options: Mapping[str, object] | None = None,
) -> "DataFrame":
    """The topic as a streaming DataFrame from its first record, decoded like `topic_to_df`."""
    chosen = {**topic.spark_options(), "startingOffsets": "earliest", **option_texts(options)}
    frame = spark.readStream.format("kafka").options(**chosen).load()
    return _decoded(frame, schema=schema, binary=binary)


@explaining_missing_connector()
def stream_columns(
    spark: "SparkSession",
    topic: KafkaTopic,
    *,
    schema: "str | Mapping[str, object] | StructType | None" = None,
    format: str | None = None,
    key: str | None = None,
    headers: str | None = None,
    timestamp: str | None = None,
    options: Mapping[str, object] | None = None,
) -> "DataFrame":
    """The topic as a stream from its first record, a column for each field of the value.

    `format` says how the value is written: "json" (with a Spark schema) and "avro" (with an Avro
    schema) make columns of its fields, "text" and "binary" make one column `value`. By default it
    is JSON if there is a schema, and else text. `key`, `headers` and `timestamp` name columns for
    those parts of the record; without a name they are left out.
    """
    from pyspark.sql import functions as F

    chosen_format = _require_format(format, schema)
    chosen: dict[str, object] = {**topic.spark_options(), **(options or {})}
    if headers is not None:
        chosen["includeHeaders"] = True
    frame = spark.readStream.format("kafka").options(**option_texts(chosen)).load()
    value = _parsed_value(chosen_format, schema)
    record_key = F.col("key") if chosen_format == "binary" else F.col("key").cast("string")
    parts = ((key, record_key), (headers, F.col("headers")), (timestamp, F.col("timestamp")))
    named = [column.alias(name) for name, column in parts if name is not None]
    columns = _flattened(frame, value, named, is_struct=chosen_format in _WITH_SCHEMA)
    if len(set(columns.columns)) < len(columns.columns):
        raise ConfigError(
            f"two columns would have the same name: {', '.join(columns.columns)}; give key, "
            "headers and timestamp names that no other column has"
        )
    return columns


@explaining_missing_connector()
def run_available_now(
    df: "DataFrame",
    sink: KafkaTopic,
    checkpoint: str | Path,
    *,
    key: str | None = None,
    output_mode: str = "append",
    options: Mapping[str, object] | None = None,
    timeout_s: int = 120,
) -> "StreamingQuery":
    """Runs a streaming DataFrame into the sink topic until all present input is processed.

    A later call with the same checkpoint continues where this one stopped. Raises what the query
    raised, or `AwaitTimeout` with its last progress.
    """
    chosen = {
        **_connection(sink),
        "topic": sink.name,
        "checkpointLocation": str(checkpoint),
        **option_texts(options),
    }
    writer = to_records(df, key=key).writeStream.format("kafka").options(**chosen)
    query = writer.outputMode(output_mode).trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(timeout_s):
            raise AwaitTimeout(
                f"the query into {sink.name} did not end within {timeout_s} s; "
                f"status {query.status}, last progress {query.lastProgress}"
            )
    finally:
        query.stop()
    return query


def to_records(df: "DataFrame", *, key: str | None = None) -> "DataFrame":
    """The DataFrame in the form that the connector's sink takes.

    The record's value is the column `value`: text and bytes as they are, structs, arrays and maps
    as JSON, anything else as text. Without that column, each row becomes a JSON object. The key is
    the column that `key` names, or the column `key`, encoded in the same way.
    """
    from pyspark.sql import functions as F

    if key is not None and key not in df.columns:
        raise ConfigError(
            f"there is no column {key!r} for the key; there are {', '.join(df.columns)}"
        )
    kept = [column for column in df.columns if column in _SINK_COLUMNS - {"key", "value"}]
    columns = [F.col(column) for column in kept]
    if (key_column := key or ("key" if "key" in df.columns else None)) is not None:
        columns.append(_encoded(F.col(key_column), df.schema[key_column].dataType).alias("key"))
    if "value" in df.columns:
        value = _encoded(F.col("value"), df.schema["value"].dataType)
    else:
        fields = [column for column in df.columns if column not in _SINK_COLUMNS]
        value = F.to_json(F.struct(*fields))
    return df.select(*columns, value.alias("value"))


def _encoded(column: "Column", data_type: "DataType") -> "Column":
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(data_type, T.StringType | T.BinaryType):
        return column
    if isinstance(data_type, T.StructType | T.ArrayType | T.MapType):
        return F.to_json(column)
    return column.cast("string")


def _decoded(frame: "DataFrame", *, schema: "str | StructType | None", binary: bool) -> "DataFrame":
    from pyspark.sql import functions as F

    if binary:
        return frame
    value = F.col("value").cast("string")
    decoded = {
        "key": F.col("key").cast("string"),
        "value": value if schema is None else F.from_json(value, schema),
    }
    return frame.withColumns(decoded)


def _require_format(format: str | None, schema: object) -> str:
    if format is None:
        return "text" if schema is None else "json"
    require_known("format", format, _FORMATS, refusal=ConfigError)
    if format in _WITH_SCHEMA and schema is None:
        raise ConfigError(
            f'format "{format}" needs a schema: '
            + ('schema="id INT, name STRING"' if format == "json" else "Avro's, as JSON")
        )
    if format not in _WITH_SCHEMA and schema is not None:
        raise ConfigError(f'format "{format}" has no schema: use "json" or "avro"')
    return format


def _parsed_value(format: str, schema: Any) -> "Column":
    """Any: Spark's schema as text or object, or Avro's as text or mapping."""
    from pyspark.sql import functions as F

    if format == "binary":
        return F.col("value")
    if format == "avro":
        return _from_avro(schema if isinstance(schema, str) else json.dumps(schema))
    text = F.col("value").cast("string")
    return text if format == "text" else F.from_json(text, schema)


def _flattened(
    frame: "DataFrame", value: "Column", named: "list[Column]", *, is_struct: bool
) -> "DataFrame":
    """The value, or its fields, and then the named columns.

    There are two structs first: a field may have the name of one of the source's columns.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    record = [F.struct(*named).alias("record")] if named else []
    try:
        halves = frame.select(value.alias("value"), *record)
    except AnalysisException as error:
        if "AVRO_NOT_LOADED" in str(error):
            raise ConfigError(_NO_AVRO) from error
        raise
    return halves.select("value.*" if is_struct else "value", *(["record.*"] if named else []))


def _from_avro(schema: str) -> "Column":
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    try:
        with redirect_stdout(StringIO()):  # it prints how to submit a job, which a test is not
            return from_avro(F.col("value"), schema)
    except TypeError as error:  # Spark 3.5: there is no such class in the JVM
        raise ConfigError(_NO_AVRO) from error


def _connection(topic: KafkaTopic) -> dict[str, str]:
    """The options that say how to connect: the brokers' addresses, and credentials if any."""
    options = topic.spark_options()
    return {name: value for name, value in options.items() if name.startswith("kafka.")}


def option_texts(options: Mapping[str, object] | None) -> dict[str, str]:
    """Options as Java reads them: `true`, not `True`."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (options or {}).items()
    }
