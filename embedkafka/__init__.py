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
    from embedkafka.broker.controller.event_log import ControllerEvent as ControllerEvent
    from embedkafka.broker.controller.state_change_log import StateChange as StateChange
    from embedkafka.cluster.access.acls import Acls as Acls
    from embedkafka.cluster.access.logins import Logins as Logins
    from embedkafka.cluster.access.quotas import ClientQuota as ClientQuota
    from embedkafka.cluster.access.quotas import Quotas as Quotas
    from embedkafka.cluster.access.security import Security as Security
    from embedkafka.cluster.clients.group_status import GroupMember as GroupMember
    from embedkafka.cluster.clients.group_status import GroupStatus as GroupStatus
    from embedkafka.cluster.clients.message import Message as Message
    from embedkafka.cluster.cluster import Cluster as Cluster
    from embedkafka.cluster.cluster_state import PartitionStatus as PartitionStatus
    from embedkafka.cluster.config import ClusterConfig as ClusterConfig
    from embedkafka.cluster.config import TopicSpec as TopicSpec
    from embedkafka.cluster.embedded import EmbeddedKafka as EmbeddedKafka
    from embedkafka.cluster.handles.brokers import BrokerHandle as BrokerHandle
    from embedkafka.cluster.handles.brokers import BrokerHandles as BrokerHandles
    from embedkafka.cluster.handles.group import GroupHandle as GroupHandle
    from embedkafka.cluster.handles.topic import Topic as Topic
    from embedkafka.cluster.lifecycle.lifecycle import BrokerState as BrokerState
    from embedkafka.cluster.owned.brokers import OwnedBroker as OwnedBroker
    from embedkafka.cluster.owned.brokers import OwnedBrokers as OwnedBrokers
    from embedkafka.cluster.owned.groups import OwnedGroup as OwnedGroup
    from embedkafka.cluster.owned.topics import OwnedTopic as OwnedTopic
    from embedkafka.cluster.reports.followers import FollowerStatus as FollowerStatus
    from embedkafka.cluster.reports.metrics import Metric as Metric
    from embedkafka.cluster.reports.metrics import Metrics as Metrics
    from embedkafka.cluster.reports.waits import WaitingRequest as WaitingRequest
    from embedkafka.cluster.request_log import Mark as Mark
    from embedkafka.cluster.request_log import SeenRequest as SeenRequest
    from embedkafka.cluster.restoring.snapshot import Snapshot as Snapshot
    from embedkafka.cluster.test_case import EmbeddedKafkaTestCase as EmbeddedKafkaTestCase
    from embedkafka.faults.disk import Disk as Disk
    from embedkafka.faults.injection import Faults as Faults
    from embedkafka.faults.injection import RequestFilter as RequestFilter
    from embedkafka.faults.links import LinkFault as LinkFault
    from embedkafka.faults.plans import FaultPlan as FaultPlan
    from embedkafka.faults.plans import FaultStep as FaultStep
    from embedkafka.faults.request_faults import Fault as Fault
    from embedkafka.page.server import PageServer as PageServer
    from embedkafka.runtime.clock import Frozen as Frozen
    from embedkafka.runtime.clock import SystemClock as SystemClock
    from embedkafka.runtime.failures import AwaitTimeout as AwaitTimeout
    from embedkafka.runtime.failures import BackgroundFailure as BackgroundFailure
    from embedkafka.runtime.failures import ClusterClosed as ClusterClosed
    from embedkafka.runtime.failures import ConfigError as ConfigError
    from embedkafka.runtime.failures import ConfigWarning as ConfigWarning
    from embedkafka.runtime.failures import DirectoryInUse as DirectoryInUse
    from embedkafka.runtime.failures import EmbedKafkaError as EmbedKafkaError
    from embedkafka.runtime.failures import InvalidArgument as InvalidArgument
    from embedkafka.runtime.failures import QueryFailed as QueryFailed
    from embedkafka.runtime.failures import UndecodableMessage as UndecodableMessage
    from embedkafka.runtime.ids import TopicPartition as TopicPartition
    from embedkafka.security.acl.acls import Acl as Acl
    from embedkafka.security.acl.acls import PatternType as PatternType
    from embedkafka.security.acl.acls import PermissionType as PermissionType
    from embedkafka.security.acl.acls import ResourcePattern as ResourcePattern
    from embedkafka.security.acl.authorizer import Refusal as Refusal
    from embedkafka.security.acl.operations import AclOperation as AclOperation
    from embedkafka.security.acl.operations import ResourceType as ResourceType
    from embedkafka.wire.protocol.api_keys import ApiKey as ApiKey
    from embedkafka.wire.protocol.errors import ErrorCode as ErrorCode

_HOMES = {
    "Acl": "security.acl.acls",
    "AclOperation": "security.acl.operations",
    "Acls": "cluster.access.acls",
    "ApiKey": "wire.protocol.api_keys",
    "AwaitTimeout": "runtime.failures",
    "BackgroundFailure": "runtime.failures",
    "BrokerHandle": "cluster.handles.brokers",
    "BrokerHandles": "cluster.handles.brokers",
    "BrokerState": "cluster.lifecycle.lifecycle",
    "ClientQuota": "cluster.access.quotas",
    "Cluster": "cluster.cluster",
    "ClusterClosed": "runtime.failures",
    "ClusterConfig": "cluster.config",
    "ConfigError": "runtime.failures",
    "ConfigWarning": "runtime.failures",
    "ControllerEvent": "broker.controller.event_log",
    "DirectoryInUse": "runtime.failures",
    "Disk": "faults.disk",
    "EmbedKafkaError": "runtime.failures",
    "EmbeddedKafka": "cluster.embedded",
    "EmbeddedKafkaTestCase": "cluster.test_case",
    "ErrorCode": "wire.protocol.errors",
    "Fault": "faults.request_faults",
    "FaultPlan": "faults.plans",
    "FaultStep": "faults.plans",
    "Faults": "faults.injection",
    "FollowerStatus": "cluster.reports.followers",
    "Frozen": "runtime.clock",
    "GroupHandle": "cluster.handles.group",
    "GroupMember": "cluster.clients.group_status",
    "GroupStatus": "cluster.clients.group_status",
    "InvalidArgument": "runtime.failures",
    "LinkFault": "faults.links",
    "Logins": "cluster.access.logins",
    "Mark": "cluster.request_log",
    "Metric": "cluster.reports.metrics",
    "Metrics": "cluster.reports.metrics",
    "Message": "cluster.clients.message",
    "OwnedBroker": "cluster.owned.brokers",
    "OwnedBrokers": "cluster.owned.brokers",
    "OwnedGroup": "cluster.owned.groups",
    "OwnedTopic": "cluster.owned.topics",
    "PageServer": "page.server",
    "PartitionStatus": "cluster.cluster_state",
    "PatternType": "security.acl.acls",
    "PermissionType": "security.acl.acls",
    "QueryFailed": "runtime.failures",
    "Quotas": "cluster.access.quotas",
    "Refusal": "security.acl.authorizer",
    "RequestFilter": "faults.injection",
    "ResourcePattern": "security.acl.acls",
    "ResourceType": "security.acl.operations",
    "Security": "cluster.access.security",
    "SeenRequest": "cluster.request_log",
    "Snapshot": "cluster.restoring.snapshot",
    "StateChange": "broker.controller.state_change_log",
    "SystemClock": "runtime.clock",
    "Topic": "cluster.handles.topic",
    "TopicPartition": "runtime.ids",
    "TopicSpec": "cluster.config",
    "UndecodableMessage": "runtime.failures",
    "WaitingRequest": "cluster.reports.waits",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    value.__module__ = __name__  # what a traceback or a class's `repr` shows
    globals()[name] = value
    return value
