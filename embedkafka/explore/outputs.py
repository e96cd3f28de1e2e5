"""Outputs: what a job has written, as an invariant sees it and as the verdict compares it."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from embedkafka.cluster.clients.decoding import Decode, Decoder, require_decoder
from embedkafka.explore.options import Options
from embedkafka.explore.plain_rows import plain_row
from embedkafka.explore.varying import without_fields
from embedkafka.explore.verdict import NO_KEY, Items, canonical
from embedkafka.runtime.arguments import require_function, require_list, require_text, shown
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass
from embedkafka.spark import assertions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from embedkafka.cluster.handles.topic import Topic

_HAS_TOPIC = "an output with partitions has a topic"


class Output(Protocol):
    """How to read one output."""

    @property
    def partitions(self) -> int | None:
        """How many partitions its topic gets; None if it is no topic."""

    @property
    def decode(self) -> Decode | None:
        """The decoder of its topic's values, if it has one."""

    @property
    def ordered(self) -> bool:
        """Whether the items of a key have an order that counts."""

    @property
    def is_fresh(self) -> bool:
        """Whether each schedule has a new one, which is empty at first."""

    @property
    def can_restart(self) -> bool:
        """Whether Spark lets a query into this kind of sink start again from its checkpoint."""

    def read(self, spark: "SparkSession", options: Options, topic: "Topic | None") -> object:
        """What is there, for the invariant."""

    def items(self, found: Any) -> Items:
        """What `read` found, by key, for the verdict. Any: each output knows what it returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestByKey:
    """A topic, of which the last value of each key counts: `latest_by_key`."""

    schema: "str | StructType | None" = None
    ignore: tuple[str, ...] = ()
    decode: Decode | None = None
    partitions: int | None = 1
    ordered: bool = False
    can_restart: bool = True
    is_fresh: bool = True

    def read(self, spark: "SparkSession", options: Options, topic: "Topic | None") -> object:
        assert topic is not None, _HAS_TOPIC
        return assertions.latest_by_key(topic, self.schema)

    def items(self, found: Mapping[str | bytes, object]) -> Items:
        return {_key(key): [without_fields(value, self.ignore)] for key, value in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestBy:
    """A topic, of which the last value counts that has the same fields: `latest_by`."""

    fields: tuple[str, ...]
    schema: "str | StructType | None" = None
    ignore: tuple[str, ...] = ()
    decode: Decode | None = None
    partitions: int | None = 1
    ordered: bool = False
    can_restart: bool = True
    is_fresh: bool = True

    def read(self, spark: "SparkSession", options: Options, topic: "Topic | None") -> object:
        assert topic is not None, _HAS_TOPIC
        records = assertions.read_records(topic, self.schema)
        latest = {self._key_of(record.value): record.value for record in records}
        return list(latest.values())

    def items(self, found: Iterable[object]) -> Items:
        return {self._key_of(value): [without_fields(value, self.ignore)] for value in found}

    def _key_of(self, value: object) -> str:
        return ", ".join(canonical(_field(value, name)) for name in self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllRecords:
    """A topic, of which each record counts: `all_records`."""

    duplicates: bool = False
    schema: "str | StructType | None" = None
    ignore: tuple[str, ...] = ()
    decode: Decode | None = None
    partitions: int | None = 1
    ordered: bool = True
    can_restart: bool = True
    is_fresh: bool = True

    def read(self, spark: "SparkSession", options: Options, topic: "Topic | None") -> object:
        assert topic is not None, _HAS_TOPIC
        records = assertions.read_records(topic, self.schema)
        return [(record.key, record.value) for record in records]

    def items(self, found: Iterable[tuple[str | bytes | None, object]]) -> Items:
        items: dict[str, list[object]] = {}
        for key, value in found:
            items.setdefault(_key(key), []).append(without_fields(value, self.ignore))
        return {key: _unique(values) for key, values in items.items()} if self.duplicates else items


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows in any order: of a table in memory, of files, or of what a function returns."""

    rows: Callable[["SparkSession", Options], object]
    key: str | None = None
    ignore: tuple[str, ...] = ()
    decode: Decode | None = None
    partitions: int | None = None
    ordered: bool = False
    can_restart: bool = True
    is_fresh: bool = True

    def read(self, spark: "SparkSession", options: Options, topic: "Topic | None") -> object:
        found = self.rows(spark, options)
        collect = getattr(found, "collect", None)
        if collect is not None:  # a DataFrame
            found = collect()
        if isinstance(found, Mapping):
            return dict(found)
        if isinstance(found, str | bytes) or not isinstance(found, Iterable):
            raise ConfigError(f"an output must give rows or a mapping, got {shown(found)}")
        return [plain_row(row) for row in found]

    def items(self, found: Mapping[object, object] | Sequence[object]) -> Items:
        if isinstance(found, Mapping):
            return {str(key): [without_fields(value, self.ignore)] for key, value in found.items()}
        items: dict[str, list[object]] = {}
        for row in found:
            items.setdefault(self._key_of(row), []).append(without_fields(row, self.ignore))
        return items

    def _key_of(self, row: object) -> str:
        return NO_KEY if self.key is None else canonical(_field(row, self.key))


def latest_by_key(
    schema: "str | StructType | None" = None,
    *,
    partitions: int = 1,
    decode: Decoder | None = None,
    ignore: Iterable[str] = (),
) -> Output:
    """An output topic of which the last value of each key counts: a compacted or update topic.

    An invariant gets a mapping of keys to values, without the keys whose last value is a tombstone.

    Args:
        schema: what Spark parses the values with, such as "sku STRING, revenue DOUBLE". Without
            it, values are parsed as JSON, which is quicker; those that are none stay text.
        partitions: how many partitions the topic has.
        decode: decodes the values instead; as for `kafka.topic`.
        ignore: fields of the values that schedules may change, such as a time of processing. An
            invariant gets them all the same.
    """
    return LatestByKey(
        schema=schema, decode=require_decoder(decode), partitions=partitions, ignore=_fields(ignore)
    )


def latest_by(
    *fields: str,
    schema: "str | StructType | None" = None,
    decode: Decoder | None = None,
    ignore: Iterable[str] = (),
) -> Output:
    """An output topic of which the last value with the same fields counts: update mode, no key.

        latest_by("sensor", "window_start")

    The topic has one partition, so that it has an order. An invariant gets a list of these values.

    Args:
        *fields: names of fields of the values.
        schema: as for `latest_by_key`.
        decode: as for `latest_by_key`.
        ignore: as for `latest_by_key`.
    """
    if not fields:
        raise ConfigError('latest_by needs a field of the values: `latest_by("sensor")`')
    names = [require_text("a field", name, refusal=ConfigError) for name in fields]
    decoder = require_decoder(decode)
    return LatestBy(fields=tuple(names), schema=schema, decode=decoder, ignore=_fields(ignore))


def all_records(
    schema: "str | StructType | None" = None,
    *,
    duplicates: bool = False,
    partitions: int = 1,
    decode: Decoder | None = None,
    ignore: Iterable[str] = (),
) -> Output:
    """An output topic of which every record counts, in its order per key.

    An invariant gets a list of pairs, key and value. Spark's `kafka` sink promises each record at
    least once: it repeats a batch after a crash.

    Args:
        schema: as for `latest_by_key`.
        duplicates: whether a record may be there again, because those who read the topic allow for
            it. Of equal values of a key only the first is compared.
        partitions: how many partitions the topic has.
        decode: as for `latest_by_key`.
        ignore: as for `latest_by_key`.
    """
    return AllRecords(
        duplicates=duplicates,
        schema=schema,
        decode=require_decoder(decode),
        partitions=partitions,
        ignore=_fields(ignore),
    )


def table(name: str, *, key: str | None = None, ignore: Iterable[str] = ()) -> Output:
    """A table in memory: `.format("memory").queryName(options.table(name))`.

    An invariant gets a list of mappings. Spark cannot restart a query into such a table, except in
    complete mode, so schedules have no restarts and crashes.

    Args:
        name: what the job passes to `options.table`.
        key: the column by which rows are compared.
        ignore: columns that schedules may change, as for `latest_by_key`.
    """
    return Rows(
        rows=lambda spark, options: spark.table(options.table(name)),
        key=key,
        ignore=_fields(ignore),
        can_restart=False,
    )


def files(
    name: str, *, format: str = "parquet", key: str | None = None, ignore: Iterable[str] = ()
) -> Output:
    """Files that the job writes to `options.path(name)`.

    An invariant gets a list of mappings.

    Args:
        name: what the job passes to `options.path`.
        format: the format of the files, as Spark calls it.
        key: the column by which rows are compared.
        ignore: columns that schedules may change, as for `latest_by_key`.
    """

    def load(spark: "SparkSession", options: Options) -> object:
        return spark.read.format(format).load(options.path(name))

    return Rows(rows=load, key=key, ignore=_fields(ignore))


def delta(name: str, *, key: str | None = None, ignore: Iterable[str] = ()) -> Output:
    """A Delta table that the job keeps at `options.path(name)`.

    An invariant gets a list of mappings. As long as there is no table, the output has no rows. The
    session needs Delta Lake's jars, its extension and its catalog.

    Args:
        name: what the job passes to `options.path`.
        key: the column by which rows are compared.
        ignore: columns that schedules may change, as for `latest_by_key`.
    """

    def load(spark: "SparkSession", options: Options) -> object:
        path = options.path(name)
        is_there = Path(path, "_delta_log").is_dir()
        return spark.read.format("delta").load(path) if is_there else []

    return Rows(rows=load, key=key, ignore=_fields(ignore))


def iceberg(name: str, *, key: str | None = None, ignore: Iterable[str] = ()) -> Output:
    """An Iceberg table that the job keeps as `options.table(name)`.

        iceberg("local.shop.orders")

    An invariant gets a list of mappings. As long as there is no table, the output has no rows. The
    session needs Iceberg's jar and the catalog. Each schedule has its own table, and
    leaves it: the warehouse belongs into a temporary directory.

    Args:
        name: what the job passes to `options.table`, with the catalog and the namespace.
        key: the column by which rows are compared.
        ignore: columns that schedules may change, as for `latest_by_key`.
    """

    def load(spark: "SparkSession", options: Options) -> object:
        table = options.table(name)
        return spark.table(table) if spark.catalog.tableExists(table) else []

    return Rows(rows=load, key=key, ignore=_fields(ignore))


def rows(
    function: Callable[..., object], *, key: str | None = None, ignore: Iterable[str] = ()
) -> Output:
    """What a function reads from anywhere else: a database that `foreachBatch` writes to.

    Args:
        function: takes the session, or the session and the job's `Options`; returns a DataFrame, a
            list of rows or mappings, or a mapping.
        key: the column by which rows are compared.
        ignore: columns that schedules may change, as for `latest_by_key`.
    """
    require_function("function", function, "the session", refusal=ConfigError)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError as error:  # one of Python's own has none
        raise ConfigError(f"function must be one of yours, got {shown(function)}") from error
    takes_options = len([each for each in parameters if each.kind is not each.KEYWORD_ONLY]) > 1

    def call(spark: "SparkSession", options: Options) -> object:
        return function(spark, options) if takes_options else function(spark)

    return Rows(rows=call, key=key, ignore=_fields(ignore), is_fresh=False)


def require_outputs(outputs: object) -> dict[str, Output]:
    """The outputs by name; a function stands for `rows(function)`.

    Raises:
        ConfigError: there are none, or one is neither an output nor a function.
    """
    if not isinstance(outputs, Mapping) or not outputs:
        raise ConfigError(
            f'outputs must be a mapping such as {{"revenue": latest_by_key()}}, '
            f"got {shown(outputs)}"
        )
    return {name: _require_output(name, output) for name, output in outputs.items()}


def _require_output(name: str, output: Any) -> Output:
    if isinstance(output, LatestByKey | LatestBy | AllRecords | Rows):
        return output
    if callable(output):
        return rows(output)
    raise ConfigError(
        f"the output {name} must be one of latest_by_key(), latest_by(), all_records(), table(), "
        f"files(), delta(), iceberg(), or a function of the session, got {shown(output)}"
    )


def _fields(ignore: object) -> tuple[str, ...]:
    given = require_list("ignore", ignore, '["processed_at"]', refusal=ConfigError)
    return tuple(require_text("a field to ignore", name, refusal=ConfigError) for name in given)


def _field(row: object, name: str) -> object:
    if not isinstance(row, Mapping) or name not in row:
        raise ConfigError(f"an output has a row without the key {name!r}: {row!r}")
    return row[name]


def _unique(values: Iterable[object]) -> list[object]:
    """Equal values once, each in the place of the first."""
    unique: dict[str, object] = {}
    for value in values:
        unique.setdefault(canonical(value), value)
    return list(unique.values())


def _key(key: str | bytes | None) -> str:
    return NO_KEY if key is None else str(key)
