"""Offsets of a topic at one moment.

The Java client of Spark's driver is asked: it takes every setting that the connector takes. Under
Spark Connect the driver is elsewhere, and librdkafka is asked with the settings that it has too.
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from embedkafka.runtime.failures import ConfigError, EmbedKafkaError
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import dataclass
from embedkafka.spark.offsets import ask_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX: Final = "kafka."
_TIMEOUTS: Final = {"default.api.timeout.ms": "30000", "request.timeout.ms": "15000"}
_TIMEOUT_S: Final = 30
_QUICK_ANSWER_S: Final = 10
_SECURITY: Final = ("sasl.", "ssl.", "security.")
_NAMES_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """The offsets of a partition from `start`, up to but without `end`."""

    start: int
    end: int


class NoSuchTopic(ConfigError):
    """There is no topic of that name; the message has names that are like it."""


def find_record_count(options: Mapping[str, str], topics: Sequence[str]) -> int | None:
    """How many offsets these topics have together, without Spark; None if librdkafka cannot say.

    It may lack what Java's client has, such as its key stores.

    Raises:
        NoSuchTopic: one of them does not exist.
    """
    settings = _client_settings(options)
    try:
        found = [_ask_librdkafka(settings, topic, _QUICK_ANSWER_S) for topic in topics]
    except NoSuchTopic:
        raise
    except EmbedKafkaError:
        return None
    return sum(each.end - each.start for ranges in found for each in ranges.values())


def offset_ranges(
    spark: "SparkSession", options: Mapping[str, str], topic: str
) -> dict[int, OffsetRange]:
    """What each partition holds now. With read_committed, `end` is the last stable offset.

    Raises:
        ConfigError: there is no such topic, or the session has no connector.
        EmbedKafkaError: the brokers do not answer.
    """
    settings = _client_settings(options)
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        return _ask_librdkafka(settings, topic, _TIMEOUT_S)
    from py4j.protocol import Py4JJavaError

    try:
        return _ask_java(jvm, settings, topic)
    except Py4JJavaError as error:
        raise _no_answer(settings, topic, _root(error)) from error


def _client_settings(options: Mapping[str, str]) -> dict[str, str]:
    return {
        key.removeprefix(_PREFIX): value
        for key, value in options.items()
        if key.startswith(_PREFIX)
    }


def _ask_java(jvm: Any, settings: Mapping[str, str], topic: str) -> dict[int, OffsetRange]:
    """Any: py4j makes the attributes of a JVM as they are used."""
    from py4j.java_gateway import JavaPackage

    package = jvm.org.apache.kafka.clients.admin
    if isinstance(package.AdminClient, JavaPackage):
        raise ConfigError(
            "this Spark session has no Kafka connector: add the jars that `embedkafka spark-jars` "
            "prints, for instance as spark.jars"
        )
    given = jvm.java.util.HashMap()
    for name, value in {**_TIMEOUTS, **settings}.items():
        given.put(name, value)
    admin = package.AdminClient.create(given)
    try:
        names = set(admin.listTopics().names().get())
        if topic not in names:
            raise NoSuchTopic(no_such_topic(topic, names))
        described = admin.describeTopics(jvm.java.util.Collections.singletonList(topic))
        found = described.allTopicNames().get().get(topic).partitions()
        level = getattr(jvm.org.apache.kafka.common.IsolationLevel, _isolation(settings).upper())
        partitions = {
            info.partition(): jvm.org.apache.kafka.common.TopicPartition(topic, info.partition())
            for info in found
        }

        def ask(which: Any) -> dict[int, int]:
            specs = jvm.java.util.HashMap()
            for partition in partitions.values():
                specs.put(partition, which)
            answer = admin.listOffsets(specs, package.ListOffsetsOptions(level)).all().get()
            return {number: answer.get(each).offset() for number, each in partitions.items()}

        return _ranges(ask(package.OffsetSpec.earliest()), ask(package.OffsetSpec.latest()))
    finally:
        admin.close()


def _ask_librdkafka(
    settings: Mapping[str, str], topic: str, timeout_s: float
) -> dict[int, OffsetRange]:
    import confluent_kafka
    from confluent_kafka.admin import AdminClient, OffsetSpec

    from embedkafka.spark.client_settings import translate_properties

    credentials = {name: value for name, value in settings.items() if name.startswith(_SECURITY)}
    connection = translate_properties(credentials).librdkafka
    servers = settings["bootstrap.servers"]
    # Any: confluent-kafka has no types.
    admin: Any = AdminClient({**connection, "bootstrap.servers": servers, "log_level": 2})
    specs: Any = OffsetSpec
    try:
        topics = admin.list_topics(timeout=timeout_s).topics
        if topic not in topics:
            raise NoSuchTopic(no_such_topic(topic, set(topics)))

        partitions = [TopicPartition(topic, number) for number in topics[topic].partitions]

        def ask(which: Any) -> dict[int, int]:
            offsets = ask_offsets(
                admin,
                partitions,
                which,
                is_committed=_isolation(settings) == "read_committed",
                timeout_s=timeout_s,
            )
            return {each.partition: offset for each, offset in offsets.items()}

        return _ranges(ask(specs.earliest()), ask(specs.latest()))
    except confluent_kafka.KafkaException as error:
        raise _no_answer(settings, topic, str(error)) from error


def _ranges(starts: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, OffsetRange]:
    return {
        number: OffsetRange(start=starts[number], end=ends[number]) for number in sorted(starts)
    }


def _isolation(settings: Mapping[str, str]) -> str:
    return settings.get("isolation.level", "read_uncommitted")


def _no_answer(settings: Mapping[str, str], topic: str, reason: str) -> EmbedKafkaError:
    servers = settings.get("bootstrap.servers", "")
    return EmbedKafkaError(f"cannot ask {servers} for the offsets of {topic}: {reason}")


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
