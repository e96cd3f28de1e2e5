"""Offsets of a topic at one moment, asked with the Java client of Spark's driver.

That client takes the same settings as the connector, security included.
"""

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from embedkafka.runtime.failures import ConfigError, EmbedKafkaError
from embedkafka.runtime.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX: Final = "kafka."
_TIMEOUTS: Final = {"default.api.timeout.ms": "30000", "request.timeout.ms": "15000"}
_NAMES_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """The offsets of a partition from `start`, up to but without `end`."""

    start: int
    end: int


def offset_ranges(
    spark: "SparkSession", options: Mapping[str, str], topic: str
) -> dict[int, OffsetRange]:
    """What each partition holds now. With read_committed, `end` is the last stable offset.

    Raises:
        ConfigError: there is no such topic, or the session cannot ask.
        EmbedKafkaError: the brokers do not answer.
    """
    from py4j.protocol import Py4JJavaError

    jvm = _require_java_client(spark)
    settings = jvm.java.util.HashMap()
    own = {
        key.removeprefix(_PREFIX): value
        for key, value in options.items()
        if key.startswith(_PREFIX)
    }
    for name, value in {**_TIMEOUTS, **own}.items():
        settings.put(name, value)
    servers = own.get("bootstrap.servers", "")
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            return _ask(jvm, admin, topic, committed=own.get("isolation.level") == "read_committed")
        finally:
            admin.close()
    except Py4JJavaError as error:
        raise EmbedKafkaError(f"cannot ask {servers} for {topic}: {_root(error)}") from error


def _ask(jvm: Any, admin: Any, topic: str, *, committed: bool) -> dict[int, OffsetRange]:
    """Any: Java objects."""
    names = set(admin.listTopics().names().get())
    if topic not in names:
        raise ConfigError(no_such_topic(topic, names))
    described = admin.describeTopics(jvm.java.util.Collections.singletonList(topic))
    partitions = [
        info.partition() for info in described.allTopicNames().get().get(topic).partitions()
    ]
    levels = jvm.org.apache.kafka.common.IsolationLevel
    level = levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED
    admin_package = jvm.org.apache.kafka.clients.admin
    at = {
        number: jvm.org.apache.kafka.common.TopicPartition(topic, number) for number in partitions
    }

    def ask(which: Any) -> dict[int, int]:
        specs = jvm.java.util.HashMap()
        for partition in at.values():
            specs.put(partition, which)
        found = admin.listOffsets(specs, admin_package.ListOffsetsOptions(level)).all().get()
        return {number: found.get(partition).offset() for number, partition in at.items()}

    starts = ask(admin_package.OffsetSpec.earliest())
    ends = ask(admin_package.OffsetSpec.latest())
    return {number: OffsetRange(start=starts[number], end=ends[number]) for number in partitions}


def _require_java_client(spark: "SparkSession") -> Any:
    """The gateway to the driver's JVM. Any: py4j makes its attributes as they are used."""
    from py4j.java_gateway import JavaPackage

    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise ConfigError(
            "Spark Connect cannot ask Kafka for offsets: pass DataFrames of the kafka source "
            "instead of topics"
        )
    if isinstance(jvm.org.apache.kafka.clients.admin.AdminClient, JavaPackage):
        raise ConfigError(
            "this Spark session has no Kafka connector: add the jars that `embedkafka spark-jars` "
            "prints, for instance as spark.jars"
        )
    return jvm


def no_such_topic(topic: str, names: set[str]) -> str:
    """A message with the names most like the missing one, or some names if none is."""
    near = difflib.get_close_matches(topic, names, n=_NAMES_SHOWN) or sorted(names)[:_NAMES_SHOWN]
    return f"there is no topic {topic}; there " + (
        f"are {', '.join(near)}" + (", ..." if len(names) > len(near) else "")
        if names
        else "are none"
    )


def _root(error: Any) -> str:
    """The innermost cause. Any: a Java exception."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString())
