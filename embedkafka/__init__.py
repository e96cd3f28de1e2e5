"""A real multi-broker Kafka cluster inside the test process.

    from embedkafka import EmbeddedKafka

    with EmbeddedKafka(brokers=3) as kafka:
        kafka.topic("orders").send("hello")

Each name below is imported when it is first used, so importing the package is quick.

PYTEST_DONT_REWRITE, because the assertions here are not a test author's.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedkafka.cluster.access.acls import Acls
    from embedkafka.cluster.access.logins import Logins
    from embedkafka.cluster.access.security import Security
    from embedkafka.cluster.broker_handle import BrokerHandle
    from embedkafka.cluster.clients.group_status import GroupMember, GroupStatus
    from embedkafka.cluster.clients.message import Message
    from embedkafka.cluster.clients.topic import Topic
    from embedkafka.cluster.cluster_state import PartitionStatus
    from embedkafka.cluster.config import ClusterConfig, TopicSpec
    from embedkafka.cluster.embedded import EmbeddedKafka
    from embedkafka.cluster.lifecycle.lifecycle import BrokerState
    from embedkafka.cluster.reports.followers import FollowerStatus
    from embedkafka.cluster.reports.metrics import Metric, Metrics
    from embedkafka.cluster.reports.waits import WaitingRequest
    from embedkafka.cluster.request_log import Mark, SeenRequest
    from embedkafka.cluster.restoring.snapshot import Snapshot
    from embedkafka.cluster.test_case import EmbeddedKafkaTestCase
    from embedkafka.controller.event_log import ControllerEvent
    from embedkafka.controller.state_change_log import StateChange
    from embedkafka.faults.disk import Disk
    from embedkafka.faults.injection import Faults, RequestFilter
    from embedkafka.faults.links import LinkFault
    from embedkafka.faults.plans import FaultPlan, FaultStep
    from embedkafka.faults.request_faults import Fault
    from embedkafka.page.server import PageServer
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
        QueryFailed,
        UndecodableMessage,
    )
    from embedkafka.runtime.ids import TopicPartition
    from embedkafka.security.acl.acls import Acl, PatternType, PermissionType, ResourcePattern
    from embedkafka.security.acl.authorizer import Refusal
    from embedkafka.security.acl.operations import AclOperation, ResourceType

_HOMES = {
    "Acl": "security.acl.acls",
    "AclOperation": "security.acl.operations",
    "Acls": "cluster.access.acls",
    "ApiKey": "protocol.api_keys",
    "AwaitTimeout": "runtime.failures",
    "BackgroundFailure": "runtime.failures",
    "BrokerHandle": "cluster.broker_handle",
    "BrokerState": "cluster.lifecycle.lifecycle",
    "ClusterClosed": "runtime.failures",
    "ClusterConfig": "cluster.config",
    "ConfigError": "runtime.failures",
    "ConfigWarning": "runtime.failures",
    "ControllerEvent": "controller.event_log",
    "DirectoryInUse": "runtime.failures",
    "Disk": "faults.disk",
    "EmbedKafkaError": "runtime.failures",
    "EmbeddedKafka": "cluster.embedded",
    "EmbeddedKafkaTestCase": "cluster.test_case",
    "ErrorCode": "protocol.errors",
    "Fault": "faults.request_faults",
    "FaultPlan": "faults.plans",
    "FaultStep": "faults.plans",
    "Faults": "faults.injection",
    "FollowerStatus": "cluster.reports.followers",
    "Frozen": "runtime.clock",
    "GroupMember": "cluster.clients.group_status",
    "GroupStatus": "cluster.clients.group_status",
    "InvalidArgument": "runtime.failures",
    "LinkFault": "faults.links",
    "Logins": "cluster.access.logins",
    "Mark": "cluster.request_log",
    "Metric": "cluster.reports.metrics",
    "Metrics": "cluster.reports.metrics",
    "Message": "cluster.clients.message",
    "PageServer": "page.server",
    "PartitionStatus": "cluster.cluster_state",
    "PatternType": "security.acl.acls",
    "PermissionType": "security.acl.acls",
    "QueryFailed": "runtime.failures",
    "Refusal": "security.acl.authorizer",
    "RequestFilter": "faults.injection",
    "ResourcePattern": "security.acl.acls",
    "ResourceType": "security.acl.operations",
    "Security": "cluster.access.security",
    "SeenRequest": "cluster.request_log",
    "Snapshot": "cluster.restoring.snapshot",
    "StateChange": "controller.state_change_log",
    "SystemClock": "runtime.clock",
    "Topic": "cluster.clients.topic",
    "TopicPartition": "runtime.ids",
    "TopicSpec": "cluster.config",
    "UndecodableMessage": "runtime.failures",
    "WaitingRequest": "cluster.reports.waits",
}

__all__ = [
    "Acl",
    "AclOperation",
    "Acls",
    "ApiKey",
    "AwaitTimeout",
    "BackgroundFailure",
    "BrokerHandle",
    "BrokerState",
    "ClusterClosed",
    "ClusterConfig",
    "ConfigError",
    "ConfigWarning",
    "ControllerEvent",
    "DirectoryInUse",
    "Disk",
    "EmbedKafkaError",
    "EmbeddedKafka",
    "EmbeddedKafkaTestCase",
    "ErrorCode",
    "Fault",
    "FaultPlan",
    "FaultStep",
    "Faults",
    "FollowerStatus",
    "Frozen",
    "GroupMember",
    "GroupStatus",
    "InvalidArgument",
    "LinkFault",
    "Logins",
    "Mark",
    "Message",
    "Metric",
    "Metrics",
    "PageServer",
    "PartitionStatus",
    "PatternType",
    "PermissionType",
    "QueryFailed",
    "Refusal",
    "RequestFilter",
    "ResourcePattern",
    "ResourceType",
    "Security",
    "SeenRequest",
    "Snapshot",
    "StateChange",
    "SystemClock",
    "Topic",
    "TopicPartition",
    "TopicSpec",
    "UndecodableMessage",
    "WaitingRequest",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    value.__module__ = __name__  # what a traceback or a class's `repr` shows
    globals()[name] = value
    return value
