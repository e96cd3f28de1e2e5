"""Records as hashes: what of a record is its key, what is its value, and where it is.

Two hashes of 64 bits with different seeds stand for a key, and two for a value. Among *n* different
keys, or values of a key, the chance that any two share both hashes is about n²/2¹²⁹, which is
1.5e-19 for ten billion. This guards against accidents, not against forged records.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.values import dataclass
from embedkafka.spark.delivery.origins import Origin
from embedkafka.spark.delivery.tally import RecordPlace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: A column, a field of the JSON value, several of them, or a function of the DataFrame.
Selector = str | Sequence[str] | Callable[["DataFrame"], "Column"]
Transform = Callable[["DataFrame"], "DataFrame"]

#: Texts that examples show are cut after this many characters.
LONGEST_TEXT: Final = 240

#: The columns of the connector's source, which are not part of a row written as JSON.
_CONNECTOR_COLUMNS: Final = frozenset(
    {"key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One side of an audit: where its records come from, and what of them counts."""

    side: int
    origin: Origin
    key: Selector
    value: Selector
    transform: Transform | None = None

    def records(self, places: Sequence[RecordPlace] | None = None) -> "DataFrame":
        """The records after the transform, with the columns `key` and `value`.

        All of them, or a few with those at `places` among them. As `Topic.write` would, makes each
        row a JSON object if there is no column `value`.
        """
        from pyspark.sql import functions as F

        frame = self.origin.frame() if places is None else self.origin.frame_with(places)
        if self.transform is not None:
            frame = self.transform(frame)
        columns = frame.columns
        added = {} if "key" in columns else {"key": F.lit(None).cast("binary")}
        if "value" not in columns:
            fields = [column for column in columns if column not in _CONNECTOR_COLUMNS]
            if not fields:
                raise InvalidArgument(f"no column holds a value; there are {', '.join(columns)}")
            added["value"] = F.to_json(F.struct(*fields))
        return frame.withColumns(added) if added else frame

    def fingerprints(
        self, records: "DataFrame", *, name_topics: bool = False, with_text: bool = False
    ) -> "DataFrame":
        """One row of numbers for each record, with the start of its key and value if asked.

        A topic is a number too unless topics must be named: Spark aggregates numbers in place.
        """
        from pyspark.sql import functions as F

        key, value = selected(records, self.key), selected(records, self.value)
        topic = F.lit(0)
        if name_topics:
            topic = F.col("topic") if self.has_topics(records) else F.lit(self.origin.name)
        shown = {"shown_key": key, "shown_value": value} if with_text else {}
        return records.select(
            F.lit(self.side).alias("side"),
            _has_any(key).alias("keyed"),
            _has_any(value).alias("valued"),
            # Records without a key are spread by their value: otherwise one task gets them all.
            F.when(_has_any(key), _hash(1, key)).otherwise(_hash(3, value)).alias("key_hash"),
            _hash(2, key).alias("key_hash_2"),
            _hash(1, value).alias("value_hash"),
            _hash(2, value).alias("value_hash_2"),
            topic.alias("topic"),
            _number(records, "partition", "int"),
            _number(records, "offset", "bigint"),
            *(_text(parts).alias(name) for name, parts in shown.items()),
        )

    def has_topics(self, records: "DataFrame") -> bool:
        """Whether only the records say which topics they are of."""
        return not self.origin.is_topic and "topic" in records.columns


def selected(records: "DataFrame", selector: Selector) -> "list[Column]":
    """What a selector names, as bytes: text as UTF-8; structs, arrays and maps as JSON."""
    if isinstance(selector, str):
        chosen = [_named(records, selector)]
    elif callable(selector):
        chosen = [selector(records)]
    else:
        chosen = [_named(records, name) for name in selector]
    return [_bytes(records, column) for column in chosen]


def describe(selector: Selector) -> str:
    """A selector in words, for a report."""
    if isinstance(selector, str):
        return selector
    if callable(selector):
        name = getattr(selector, "__name__", "<lambda>")
        return "a function" if name == "<lambda>" else f"{name}()"
    return ", ".join(selector)


def _named(records: "DataFrame", name: str) -> "Column":
    """The column of that name if there is one, otherwise a field of the JSON value.

    Names that begin with `$` are JSON paths.
    """
    from pyspark.sql import functions as F

    if name in records.columns:
        return F.col(f"`{name}`")
    path = name if name.startswith("$") else f"$.{name}"
    return F.get_json_object(F.col("value").cast("string"), path)


def _bytes(records: "DataFrame", column: "Column") -> "Column":
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    data_type = records.select(column.alias("selected")).schema["selected"].dataType
    if isinstance(data_type, T.BinaryType):
        return column
    if isinstance(data_type, T.StructType | T.ArrayType | T.MapType):
        column = F.to_json(column, {"ignoreNullFields": "false"})
    return column.cast("string").cast("binary")


def _hash(seed: int, parts: "Sequence[Column]") -> "Column":
    """A hash of 64 bits. Spark's skips nulls: without the flags, (null, x) would be (x, null)."""
    from pyspark.sql import functions as F

    flagged = [column for part in parts for column in (part.isNull(), part)]
    return F.xxhash64(F.lit(seed), *flagged)


def _has_any(parts: "Sequence[Column]") -> "Column":
    from pyspark.sql import functions as F

    return F.coalesce(*parts).isNotNull()


def _text(parts: "Sequence[Column]") -> "Column":
    """The start of it, for a reader."""
    from pyspark.sql import functions as F

    if len(parts) == 1:
        whole = parts[0].cast("string")
    else:
        whole = F.concat_ws(", ", *(F.coalesce(p.cast("string"), F.lit("null")) for p in parts))
    return F.substring(whole, 1, LONGEST_TEXT + 1)


def _number(records: "DataFrame", name: str, data_type: str) -> "Column":
    from pyspark.sql import functions as F

    column = F.col(name) if name in records.columns else F.lit(None)
    return column.cast(data_type).alias(name)
