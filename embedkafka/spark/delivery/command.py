"""`embedkafka audit`: starts Spark, audits two topics, and ends Spark."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embedkafka.runtime.failures import ConfigError, EmbedKafkaError
from embedkafka.runtime.properties import read_properties
from embedkafka.spark.class_archive import ENVIRONMENT_VARIABLE, NO, USE
from embedkafka.spark.delivery.audit import audit
from embedkafka.spark.delivery.offsets import find_record_count
from embedkafka.spark.delivery.result import Delivery
from embedkafka.spark.remote import cluster_session, connect_session
from embedkafka.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_APP_NAME: Final = "embedkafka audit"
#: Sessions of ours are tuned for short tests; these undo it for an audit that may read for hours.
_MANY_TASKS: Final[Mapping[str, str]] = {"spark.sql.shuffle.partitions": "64"}
_FOR_VOLUME: Final[Mapping[str, str]] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4 -XX:-UseSerialGC -XX:+UseParallelGC",
    **_MANY_TASKS,
}
_FEW_RECORDS: Final = 200_000
"""Up to so many in both topics, Java's best machine code costs more than it saves."""
_MOST_LINES: Final = 5


def audit_topics(
    *,
    bootstrap_servers: str,
    source: str,
    sink: str,
    key: Sequence[str],
    value: Sequence[str],
    ordered: bool | None,
    isolation: str,
    examples: int,
    options: Mapping[str, str],
    spark_master: str,
    spark_remote: str | None,
    spark_config: Mapping[str, str],
) -> Delivery:
    """The result; what Spark raises becomes an `EmbedKafkaError`."""
    from pyspark.errors import PySparkException

    reading = {**options, "kafka.bootstrap.servers": bootstrap_servers}
    records = find_record_count(reading, (source, sink))
    with (
        connect_session(spark_remote, config={**_MANY_TASKS, **spark_config})
        if spark_remote
        else audit_session(spark_master, spark_config, records=records)
    ) as spark:
        try:
            return audit(
                source,
                sink,
                key=key if len(key) > 1 else key[0],
                value=value if len(value) > 1 else value[0],
                ordered=ordered,
                isolation=isolation,
                bootstrap_servers=bootstrap_servers,
                options=options,
                examples=examples,
                spark=spark,
            )
        except PySparkException as error:
            lines = str(error).splitlines()[:_MOST_LINES]
            raise EmbedKafkaError("Spark failed: " + "\n  ".join(lines)) from error


def client_options(file: Path | None) -> dict[str, str]:
    """The settings of a Java client's properties file, as options of Spark's connector."""
    if file is None:
        return {}
    try:
        settings = read_properties(file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read --client-config {file}: {error}") from error
    return {f"kafka.{name}": value for name, value in settings.items()}


@contextmanager
def audit_session(
    master: str, config: Mapping[str, str], *, records: int | None = None
) -> "Iterator[SparkSession]":
    """A local session, or one on a cluster; under `spark-submit` the one that it prepared.

    A local one is tuned for `records`; None is for any number.
    """
    settings = {**_FOR_VOLUME, **config}
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        from pyspark.sql import SparkSession

        session = SparkSession.builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()
    elif is_local(master):
        is_small = records is not None and records <= _FEW_RECORDS
        local = {"spark.master": master, **(config if is_small else settings)}
        # A machine that runs one audit does not want Spark's classes in its cache.
        archive = NO if os.environ.get(ENVIRONMENT_VARIABLE) == NO else USE
        with local_session(_APP_NAME, config=local, archive=archive) as session:
            yield session
    else:
        with cluster_session(master, _APP_NAME, config=settings) as session:
            yield session


def is_local(master: str) -> bool:
    """Whether Spark's driver does all the work."""
    return master == "local" or master.startswith("local[")
