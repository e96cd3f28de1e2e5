"""Tells a session without the Kafka connector from other failures, and says the way out."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_SPARK_SAYS: Final = "Failed to find data source: kafka"

NOTE: Final = (
    "embedkafka: this Spark session has no Kafka connector. The fixture `spark` has it, and so has "
    "`embedkafka.spark.local_session()`. For a session of your own, `embedkafka spark-jars` prints "
    "the jars to give it as spark.jars when it starts."
)


@contextmanager
def explaining_missing_connector() -> Iterator[None]:
    """Adds the way out to Spark's error, if that is what the block raises."""
    try:
        yield
    except Exception as error:
        explain_missing_connector(error)
        raise


def explain_missing_connector(error: BaseException) -> None:
    """Adds a note to the error, and to those behind it, that speak of the connector."""
    behind: BaseException | None = error
    seen: set[int] = set()
    while behind is not None and id(behind) not in seen:
        seen.add(id(behind))
        with suppress(Exception):  # an error may ask its JVM for its text
            if _SPARK_SAYS in str(behind) and NOTE not in getattr(behind, "__notes__", ()):
                behind.add_note(NOTE)
        behind = behind.__cause__ or behind.__context__
