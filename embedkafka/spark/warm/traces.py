"""What a session leaves in its JVM beyond its SparkContext, and how it goes away.

The first session of a JVM keeps what the JVM was like before it; each one restores that.
Owner: the process that has leased the JVM.
Not here: files (`keeper`), and what ends with a SparkContext: tables, views, functions, settings.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from embedkafka.runtime.failures import EmbedKafkaError

_KEPT: Final = "embedkafka"
"""The id of what is kept, among the objects that py4j knows by an id."""

_OWN_IDS: Final = ("GATEWAY_SERVER", "j", "t", _KEPT)
"""py4j's own: its server, the names it has imported, its entry point."""

_MB: Final = 1 << 20

#: Threads that end with a session; one that is there keeps something of it.
_OF_A_SESSION: Final = ("stream execution thread for", "kafka-producer-network-thread")

#: Spark never ends these: a thread for each kind of Python worker that a SparkContext has had.
_WORKER_MONITOR: Final = "Idle Worker Monitor for"

_STATE_STORE: Final = "org.apache.spark.sql.execution.streaming.state.StateStore$"
_PRODUCERS: Final = "org.apache.spark.sql.kafka010.producer.InternalKafkaProducerPool$"
_CONSUMERS: Final = "org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer$"
_POOLS: Final = ("consumerPool", "fetchedDataPool")


class NotWhole(EmbedKafkaError):
    """Something of a session is still in the JVM."""


def keep_state(gateway: Any) -> None:
    """Keeps what the JVM is like now, before its first session. Any: untyped in py4j."""
    jvm = gateway.jvm
    kept = jvm.java.util.HashMap()
    kept.put("properties", jvm.java.lang.System.getProperties().clone())
    kept.put("levels", _levels(jvm))
    kept.put("threshold", _logging(jvm).sparkShellThresholdLevel())
    _bindings(gateway).put(_KEPT, kept)


def load_pools(gateway: Any) -> None:
    """Loads the connector's pools, which take a SparkContext to load. Any: untyped in py4j."""
    for _ in _kafka_pools(gateway):
        pass


def restore(gateway: Any) -> dict[str, int]:
    """Makes the JVM what it was before its first session; returns how much it holds.

    The SparkContext has been stopped. Any: untyped in py4j.

    Raises:
        NotWhole: a query, a producer or a SparkContext goes on.
    """
    jvm = gateway.jvm
    if _object(gateway, "org.apache.spark.SparkContext$").getActive().isDefined():
        raise NotWhole("a SparkContext is active")
    jvm.SparkSession.clearDefaultSession()
    jvm.SparkSession.clearActiveSession()
    for pool in _kafka_pools(gateway):
        pool.reset()
    _object(gateway, _STATE_STORE).stop()
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()
    _object(gateway, "org.apache.spark.util.Utils$").clearLocalRootDirs()
    kept = _bindings(gateway).get(_KEPT)
    jvm.java.lang.System.setProperties(kept.get("properties").clone())
    jvm.java.util.TimeZone.setDefault(None)
    _restore_levels(jvm, kept)
    for thread in jvm.java.lang.Thread.getAllStackTraces().keySet():
        if thread.getName().startswith(_WORKER_MONITOR):
            thread.interrupt()  # it sleeps between two looks
    threads = jvm.java.lang.Thread.getAllStackTraces().keySet().toString()
    for name in _OF_A_SESSION:
        if name in threads:
            raise NotWhole(f"a {name.removesuffix(' for')} runs")
    figures = _measure(jvm)
    _forget_objects(gateway)
    return figures


def _kafka_pools(gateway: Any) -> Iterator[Any]:
    """Of producers, consumers and fetched records; the last two are private to the connector."""
    yield _object(gateway, _PRODUCERS)
    consumers = _object(gateway, _CONSUMERS)
    for name in _POOLS:
        field = consumers.getClass().getDeclaredField(name)
        field.setAccessible(True)
        yield field.get(consumers)


def _logging(jvm: Any) -> Any:
    return getattr(getattr(jvm.org.apache.spark.internal, "Logging$"), "MODULE$")


def _loggers(jvm: Any) -> tuple[Any, Any]:
    """Log4j's context and the settings of its loggers, by name."""
    context = jvm.org.apache.logging.log4j.LogManager.getContext(False)
    return context, context.getConfiguration()


def _levels(jvm: Any) -> Any:
    levels = jvm.java.util.HashMap()
    _, configuration = _loggers(jvm)
    loggers = configuration.getLoggers()
    for name in loggers:
        levels.put(name, loggers[name].getLevel())
    return levels


def _restore_levels(jvm: Any, kept: Any) -> None:
    getattr(_logging(jvm), "sparkShellThresholdLevel_$eq")(kept.get("threshold"))
    context, configuration = _loggers(jvm)
    levels = kept.get("levels")
    loggers = configuration.getLoggers()
    for name in list(loggers):
        if levels.containsKey(name):
            loggers[name].setLevel(levels.get(name))
        else:
            configuration.removeLogger(name)
    context.updateLoggers()


def _measure(jvm: Any) -> dict[str, int]:
    """What a JVM may run out of, if sessions leave more and more."""
    beans = jvm.java.lang.management.ManagementFactory
    heap = beans.getMemoryMXBean().getHeapMemoryUsage()
    classes = beans.getMemoryMXBean().getNonHeapMemoryUsage()
    figures = {
        "threads": beans.getThreadMXBean().getThreadCount(),
        "MB of classes": classes.getUsed() // _MB,
        "percent of the heap": 100 * heap.getUsed() // heap.getMax(),
    }
    with suppress(Exception):  # not on every platform
        figures["open files"] = beans.getOperatingSystemMXBean().getOpenFileDescriptorCount()
    return figures


def _bindings(gateway: Any) -> Any:
    """All objects of the JVM that Python has known by an id."""
    from py4j.java_gateway import JavaObject

    return JavaObject("GATEWAY_SERVER", gateway._gateway_client).getGateway().getBindings()


def _forget_objects(gateway: Any) -> None:
    """Drops every object that a Python process has held; the last call into the JVM."""
    ids = gateway.jvm.java.util.ArrayList()
    for each in _OWN_IDS:
        ids.add(each)
    _bindings(gateway).keySet().retainAll(ids)


def _object(gateway: Any, name: str) -> Any:
    """A singleton of Scala, loaded if nothing has used it."""
    classes = gateway.jvm.java.lang.Class
    loader = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return classes.forName(name, True, loader).getField("MODULE$").get(None)
