"""Lets a wait on a topic see that the Spark query behind it has failed, if there is Spark."""

import sys
from typing import TYPE_CHECKING

from embedkafka.runtime.forks import Owner

if TYPE_CHECKING:
    from embedkafka.spark.failed_queries import QueryWatch

_OWNER = Owner()


def watch_queries(topic: str) -> "QueryWatch | None":
    """None without Spark, and in a forked child: it must not speak to the parent's JVM."""
    if "pyspark.sql" not in sys.modules or not _OWNER.is_here:
        return None
    from embedkafka.spark.failed_queries import QueryWatch

    return QueryWatch(topic)
