"""Warns if Spark's executors run elsewhere and the brokers listen on loopback."""

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedkafka import Cluster
    from pytest_embedkafka.live import Live


def warn_of_loopback(live: "Live", cluster: "Cluster") -> None:
    """Called when the second of the two has started."""
    if live.spark_master is None:
        return
    from embedkafka import ConfigWarning
    from embedkafka.runtime.addresses import is_loopback, parse_address
    from embedkafka.spark.remote import runs_here

    servers = cluster.bootstrap_servers
    addresses = [parse_address(address) for address in servers.split(",")]
    if runs_here(live.spark_master) or not any(is_loopback(host) for host, _ in addresses):
        return
    warnings.warn(
        f"executors of {live.spark_master} cannot reach the brokers at {servers}, which listen on "
        "this machine alone: give --kafka-host an address of this machine that other machines can "
        "reach, or `host=` to kafka_cluster",
        ConfigWarning,
        stacklevel=2,
    )
