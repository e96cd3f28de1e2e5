"""A real multi-broker Kafka cluster inside the test process.

    from embedkafka import EmbeddedKafka

    with EmbeddedKafka(brokers=3) as kafka:
        kafka.topic("orders").send("hello")

Each name below is imported when it is first used, so importing the package is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedkafka.cluster.broker_handle import BrokerHandle
    from embedkafka.cluster.cluster_state import PartitionStatus
    from embedkafka.cluster.config import ClusterConfig, TopicSpec
    from embedkafka.cluster.embedded import EmbeddedKafka
    from embedkafka.cluster.lifecycle import BrokerState
    from embedkafka.cluster.message import Message
    from embedkafka.cluster.request_log import Mark, SeenRequest
    from embedkafka.cluster.snapshot import Snapshot
    from embedkafka.cluster.topic import Topic
    from embedkafka.faults.disk import Disk
    from embedkafka.faults.injection import Faults, RequestFilter
    from embedkafka.faults.links import LinkFault
    from embedkafka.faults.plans import FaultPlan, FaultStep
    from embedkafka.faults.request_faults import Fault
    from embedkafka.protocol.api_keys import ApiKey
    from embedkafka.protocol.errors import ErrorCode
    from embedkafka.runtime.clock import Frozen, SystemClock
    from embedkafka.runtime.failures import (
        AwaitTimeout,
        BackgroundFailure,
        ClusterClosed,
        ConfigError,
        ConfigWarning,
        DirectoryInUse,
        EmbedKafkaError,
        InvalidArgument,
        UndecodableMessage,
    )

_HOMES = {
    "ApiKey": "protocol.api_keys",
    "AwaitTimeout": "runtime.failures",
    "BackgroundFailure": "runtime.failures",
    "BrokerHandle": "cluster.broker_handle",
    "BrokerState": "cluster.lifecycle",
    "ClusterClosed": "runtime.failures",
    "ClusterConfig": "cluster.config",
    "ConfigError": "runtime.failures",
    "ConfigWarning": "runtime.failures",
    "DirectoryInUse": "runtime.failures",
    "Disk": "faults.disk",
    "EmbedKafkaError": "runtime.failures",
    "EmbeddedKafka": "cluster.embedded",
    "ErrorCode": "protocol.errors",
    "Fault": "faults.request_faults",
    "FaultPlan": "faults.plans",
    "FaultStep": "faults.plans",
    "Faults": "faults.injection",
    "Frozen": "runtime.clock",
    "InvalidArgument": "runtime.failures",
    "LinkFault": "faults.links",
    "Mark": "cluster.request_log",
    "Message": "cluster.message",
    "PartitionStatus": "cluster.cluster_state",
    "RequestFilter": "faults.injection",
    "SeenRequest": "cluster.request_log",
    "Snapshot": "cluster.snapshot",
    "SystemClock": "runtime.clock",
    "Topic": "cluster.topic",
    "TopicSpec": "cluster.config",
    "UndecodableMessage": "runtime.failures",
}

__all__ = [
    "ApiKey",
    "AwaitTimeout",
    "BackgroundFailure",
    "BrokerHandle",
    "BrokerState",
    "ClusterClosed",
    "ClusterConfig",
    "ConfigError",
    "ConfigWarning",
    "DirectoryInUse",
    "Disk",
    "EmbedKafkaError",
    "EmbeddedKafka",
    "ErrorCode",
    "Fault",
    "FaultPlan",
    "FaultStep",
    "Faults",
    "Frozen",
    "InvalidArgument",
    "LinkFault",
    "Mark",
    "Message",
    "PartitionStatus",
    "RequestFilter",
    "SeenRequest",
    "Snapshot",
    "SystemClock",
    "Topic",
    "TopicSpec",
    "UndecodableMessage",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
