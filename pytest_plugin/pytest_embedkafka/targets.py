"""The clusters that the options name, checked before the first test.

Imports embedkafka only if an option names a cluster outside this process.
"""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_embedkafka.options import (
    BOOTSTRAP,
    Options,
    chooses_addresses,
    embedded_settings,
    is_strict,
    leftovers,
    read_options,
    shares_kafka,
)

if TYPE_CHECKING:
    from embedkafka.spark.client_settings import ClientSettings


def check_targets(config: pytest.Config) -> None:
    """Raises `pytest.UsageError` for options that no run could use."""
    if config.getoption("help", default=False):
        return
    options = read_options(config)
    leftovers(config)
    is_strict(config)
    if options.client_config:
        external_cluster(options)
    elif options.security and shares_kafka(config):
        raise pytest.UsageError(
            "kafka_security is for a cluster in the process of its tests: leave out "
            "--kafka-xdist=shared"
        )
    if options.spark_master and options.spark_remote:
        raise pytest.UsageError(
            "--spark-master and --spark-remote exclude each other: the first starts a driver here, "
            "the second uses the driver of a Spark Connect server"
        )
    if options.spark_master or options.spark_remote:
        _check_spark(options)


def describe_target(config: pytest.Config) -> str:
    """A line for pytest's header: the cluster behind `kafka`."""
    options = read_options(config)
    named = external_cluster(options)
    if named is None:
        brokers = "1 broker" if options.brokers == 1 else f"{options.brokers} brokers"
        whose = "for all workers" if shares_kafka(config) else "in this process"
        secured = f" over {options.security.upper()}" if options.security else ""
        return f"kafka: {brokers} {whose}{secured}"
    given = config.getoption("kafka_bootstrap") or config.getini("kafka_bootstrap")
    source = "--kafka-bootstrap" if given else f"${BOOTSTRAP}"
    if options.client_config:
        source = "--kafka-client-config"
    return f"kafka: {named[0]} ({source})"


def require_usable(config: pytest.Config) -> None:
    """Raises `pytest.UsageError` if the cluster does not answer, or cannot be made or started.

    Called when there are tests that need it.
    """
    from embedkafka import EmbeddedKafka, EmbedKafkaError

    options = read_options(config)
    try:
        if named := external_cluster(options):
            from embedkafka.cluster.clients.client_admin import require_admin

            require_admin(*named)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its start warns
            cluster = EmbeddedKafka(**embedded_settings(options))
            if chooses_addresses(options):
                with cluster:
                    return
    except EmbedKafkaError as error:
        raise pytest.UsageError(str(error).replace("`port`", "--kafka-port")) from error


def external_cluster(options: Options) -> "tuple[str, ClientSettings | None] | None":
    """The external cluster's addresses and how clients connect to it; None without one."""
    if not options.client_config:
        return (options.bootstrap_servers, None) if options.bootstrap_servers else None
    settings = _read_client_config(options.client_config)
    servers = options.bootstrap_servers or settings.bootstrap_servers
    if servers is None:
        raise pytest.UsageError(
            "--kafka-client-config is for an external cluster: name it with --kafka-bootstrap, or "
            f"with bootstrap.servers in {options.client_config}"
        )
    return servers, settings


def _read_client_config(file: str) -> "ClientSettings":
    from embedkafka import ConfigError
    from embedkafka.runtime.properties import parse_properties
    from embedkafka.spark.client_settings import translate_properties

    try:
        properties = parse_properties(Path(file).read_text(encoding="utf-8"))
        for name, value in properties.items():
            if name.endswith("store.location") and not Path(value).is_file():
                raise ConfigError(f"{name}={value} is no file")
        return translate_properties(properties)
    except (OSError, ValueError, ConfigError) as error:
        raise pytest.UsageError(f"--kafka-client-config {file}: {error}") from error


def _check_spark(options: Options) -> None:
    from embedkafka import ConfigError
    from embedkafka.spark.remote import require_master, require_remote

    try:
        if options.spark_master:
            require_master(options.spark_master)
        if options.spark_remote:
            require_remote(options.spark_remote)
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from error
