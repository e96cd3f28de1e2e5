"""The Spark session that the options ask for: local, on a cluster, or on a Connect server."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest

from pytest_embedkafka.options import read_options, shares_spark
from pytest_embedkafka.spark_sharing import find_shared_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "pytest"


def open_session(
    config: pytest.Config, progress: Callable[[str], None]
) -> "AbstractContextManager[SparkSession]":
    options = read_options(config)
    if options.spark_remote:
        from embedkafka.spark.remote import LIKE_LOCAL, connect_session

        return connect_session(options.spark_remote, config={**LIKE_LOCAL, **options.spark_config})
    if shared := find_shared_server(config):
        from embedkafka.spark.remote import connect_session

        return connect_session(shared)  # the server has started with the settings
    if options.spark_master:
        from embedkafka.spark.remote import cluster_session

        return cluster_session(
            options.spark_master,
            _NAME,
            packages=options.spark_packages,
            config=options.spark_config,
            archive=options.spark_archive,
            progress=progress,
        )
    from embedkafka.spark.session import local_session

    return local_session(
        _NAME,
        packages=options.spark_packages,
        config=options.spark_config,
        archive=options.spark_archive,
        warm=options.spark_warm,
        progress=progress,
    )


def describe_spark(config: pytest.Config) -> list[str]:
    """Lines for pytest's header: the warm JVMs, if `spark` may take one."""
    options = read_options(config)
    if not options.spark_warm:
        return []
    if options.spark_master or options.spark_remote or shares_spark(config):
        return ["spark: not warm; only a local session of each process can be"]
    from embedkafka import EmbedKafkaError
    from embedkafka.spark.warm.home import default_home, find_kept

    try:
        kept = find_kept(default_home())
    except EmbedKafkaError as error:
        return [f"spark: not warm: {error}"]
    return [f"spark: warm {each}" for each in kept] or [
        "spark: no warm JVM yet; this run leaves one for ten minutes"
    ]


def master_of(session: "SparkSession") -> str | None:
    """Where the session's executors run; a Connect server's own session knows it too."""
    return session.conf.get("spark.master", None)
