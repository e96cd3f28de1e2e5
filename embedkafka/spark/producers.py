"""Closes the producers that Spark keeps after a write, when their cluster goes.

Spark keeps a producer for ten minutes after its last use. The producer of a cluster that is gone
tries to reconnect, and says so in Spark's log several times a second, during the tests that follow.

Owner: none; the JVM's pool owns the producers and locks itself.
"""

import sys
from collections.abc import Collection, Iterator
from typing import Any, Final

_POOL: Final = "org.apache.spark.sql.kafka010.producer.InternalKafkaProducerPool$"
_LONG_AGO: Final = -(2**63)


def close_producers(addresses: Collection[str]) -> None:
    """Closes the idle producers whose bootstrap servers are among these `host:port`.

    Does nothing if this process has no Spark session, or the session no Kafka connector.
    """
    context = _find_context()
    if context is None:
        return
    from py4j.protocol import Py4JError

    try:
        pool = _find_pool(context._jvm)
        expired = False
        for servers, entry in _entries(pool):
            if not addresses or servers.isdisjoint(addresses):
                continue
            _private(entry, "_expireAt").setLong(entry, _LONG_AGO)
            expired = True
        if expired:
            evict = pool.getClass().getDeclaredMethod("evictExpired", None)
            evict.setAccessible(True)
            evict.invoke(pool, None)
    except Py4JError:
        return  # no connector, or a JVM that is ending: there is no producer to close
    except OSError:
        return


def _find_context() -> Any:
    """The running SparkContext, without importing PySpark. Any: it is not imported."""
    pyspark: Any = sys.modules.get("pyspark")
    context_class = getattr(pyspark, "SparkContext", None)
    return getattr(context_class, "_active_spark_context", None)


def _find_pool(jvm: Any) -> Any:
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    field = jvm.java.lang.Class.forName(_POOL, True, loader).getDeclaredField("pool")
    field.setAccessible(True)
    return field.get(None)


def _entries(pool: Any) -> Iterator[tuple[set[str], Any]]:
    """The bootstrap servers of each producer, and its entry."""
    entries = pool.getAsMap().iterator()
    while entries.hasNext():
        entry = entries.next()
        settings = entry._1().iterator()
        while settings.hasNext():
            setting = settings.next()
            if setting._1() == "bootstrap.servers":
                yield {each.strip() for each in str(setting._2()).split(",")}, entry._2()


def _private(target: Any, name: str) -> Any:
    field = target.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field
