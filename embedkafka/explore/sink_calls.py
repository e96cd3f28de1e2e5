"""Which calls in `foreachBatch` write, by their names, and what they raise when they fail.

Not here: finding the calls while the function runs (`batch_functions`).
"""

import sys
from collections.abc import Mapping
from typing import Any, Final

_FILES: Final = frozenset({"csv", "json", "orc", "parquet", "text", "xml"})
_WRITERS: Final[Mapping[str, frozenset[str]]] = {
    "DataFrameWriter": frozenset({"insertInto", "jdbc", "save", "saveAsTable", *_FILES}),
    "DataFrameWriterV2": frozenset(
        {"append", "create", "createOrReplace", "overwrite", "overwritePartitions", "replace"}
    ),
    "DeltaMergeBuilder": frozenset({"execute"}),
    "MergeIntoWriter": frozenset({"merge"}),
}
"""Spark's, by the class, whose module has other classes with methods of these names."""

_DATABASE: Final = frozenset({"execute", "executemany", "commit"})
_PRODUCER: Final = frozenset({"commit_transaction", "flush", "produce"})
_CLIENTS: Final[Mapping[str, frozenset[str]]] = {
    "confluent_kafka": _PRODUCER,
    "cimpl": _PRODUCER,
    "duckdb": _DATABASE,
    "psycopg": _DATABASE,
    "psycopg2": _DATABASE,
    "pymysql": _DATABASE,
    "sqlite3": _DATABASE,
}
"""Clients, by the package that a method's class is from."""

_SPARK: Final = ("pyspark", "delta")
_STATEMENTS: Final = ("INSERT", "MERGE", "UPDATE", "DELETE", "CREATE", "REPLACE", "TRUNCATE")
_SAYS: Final = "explore: the sink is away for a moment"


def find_write(owner: object, name: str, arguments: Mapping[str, Any]) -> str | None:
    """The name of a call that writes, from its object; None if it does not write."""
    class_ = type(owner)
    package = str(class_.__module__).partition(".")[0]
    if package in _SPARK:
        is_write = name in _WRITERS.get(class_.__name__, ()) or (
            class_.__name__ == "SparkSession"
            and name == "sql"
            and str(arguments.get("sqlQuery", "")).lstrip().upper().startswith(_STATEMENTS)
        )
    else:
        is_write = name in _CLIENTS.get(package, ())
    return f"{class_.__name__}.{name}" if is_write else None


def sends(name: str) -> bool:
    """Whether a call of this name only hands a record to a producer."""
    return name.endswith(".produce")


def flushes(name: str) -> bool:
    """Whether a call of this name waits until a producer has sent everything."""
    return name.endswith((".flush", ".commit_transaction"))


def failure_of(owner: object) -> Exception:
    """What this client raises when what it writes to is away."""
    package = type(owner).__module__.partition(".")[0]
    if package in _SPARK:
        return _failure_of_spark()
    if package in ("confluent_kafka", "cimpl"):
        from confluent_kafka import KafkaError, KafkaException

        return KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN, _SAYS))
    kind: type[Exception] = getattr(sys.modules[package], "OperationalError", ConnectionError)
    return kind(_SAYS)


def _failure_of_spark() -> Exception:
    """What PySpark raises when a task of a write has failed. Any: py4j has no types."""
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    failure: Any = context._jvm.org.apache.spark.SparkException(_SAYS)
    make: Any = Py4JJavaError
    raised: Exception = make("An error occurred while calling a writer.", failure)
    return raised
