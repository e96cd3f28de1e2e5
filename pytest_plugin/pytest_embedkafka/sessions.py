"""The Spark session that the options ask for: local, on a cluster, or on a Connect server."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest

from pytest_embedkafka.options import read_options
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
        progress=progress,
    )


def master_of(session: "SparkSession") -> str | None:
    """Where the session's executors run; a Connect server's own session knows it too."""
    return session.conf.get("spark.master", None)
