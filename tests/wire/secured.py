"""Clusters with an authorizer: clients are anonymous, and may do what a test grants them.

Apache Kafka's brokers log in at a listener of their own, as a super user. The tests change ACLs
there; on embedkafka they do it without a client.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from embedkafka import EmbeddedKafka
from embedkafka.runtime.addresses import parse_address
from embedkafka.security.acl.acls import Acl
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.security import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from tests.java_tools.oracle import ApacheKafka
from tests.java_tools.ports import free_ports
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient

ANYONE: Final = "ANONYMOUS"
EVERYTHING: Final = (
    Acl.allow(ANYONE, "ALL", topic="*"),
    Acl.allow(ANYONE, "ALL", group="*"),
    Acl.allow(ANYONE, "ALL", transactional_id="*"),
    Acl.allow(ANYONE, "ALL", cluster=True),
)
_LOGIN: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="secret" user_admin="secret";'
)


class Secured:
    """A cluster of one broker with an authorizer."""

    def __init__(self, address: str) -> None:
        self.bootstrap_servers = address

    def connect(self) -> RawClient:
        """An anonymous client."""
        return RawClient(*parse_address(self.bootstrap_servers))

    def grant(self, *acls: Acl) -> None:
        """Makes these the only ACLs; returns when they are in force."""
        raise NotImplementedError


class SecuredEmbedded(Secured):
    def __init__(self, kafka: EmbeddedKafka) -> None:
        super().__init__(kafka.bootstrap_servers)
        self._kafka = kafka

    def grant(self, *acls: Acl) -> None:
        self._kafka.acls.replace(acls)


class SecuredApache(Secured):
    def __init__(self, address: str, admin_port: int) -> None:
        super().__init__(address)
        self._admin_port = admin_port

    def grant(self, *acls: Acl) -> None:
        with RawClient("127.0.0.1", self._admin_port) as admin:
            admin.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            answer = admin.call(SaslAuthenticateRequest(auth_bytes=b"\0admin\0secret"), 2)
            assert answer.error_code == ErrorCode.NONE, answer.error_message
            replace_acls(admin, acls)


def replace_acls(admin: RawClient, acls: Sequence[Acl]) -> None:
    """Makes these the only ACLs; returns when they are in force."""
    anything = DeleteAclsRequest.Filter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    admin.call(DeleteAclsRequest(filters=[anything]), 3)
    eventually(lambda: _count(admin) == 0, "the former ACLs are gone")
    results = admin.call(CreateAclsRequest(creations=list(map(creation, acls))), 3).results
    assert not [result for result in results if result.error_code]
    eventually(lambda: _count(admin) == len(set(acls)), "the ACLs are in force")


def _count(admin: RawClient) -> int:
    anything = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return sum(len(resource.acls) for resource in admin.call(anything, 3).resources)


def creation(acl: Acl) -> CreateAclsRequest.Creation:
    return CreateAclsRequest.Creation(
        resource_type=acl.resource.resource_type,
        resource_name=acl.resource.name,
        resource_pattern_type=acl.resource.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


@contextmanager
def secured_cluster(kind: str, config: Mapping[str, object]) -> Iterator[Secured]:
    """A running one, of either kind."""
    if kind == "embedded":
        name = "kafka.security.authorizer.AclAuthorizer"
        with EmbeddedKafka(brokers=1, config={**config, "authorizer.class.name": name}) as kafka:
            yield SecuredEmbedded(kafka)
        return
    (admin_port,) = free_ports(1)
    protocols = "PLAINTEXT:PLAINTEXT,ADMIN:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
    settings = {
        **config,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": "ADMIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.admin.plain.sasl.jaas.config": _LOGIN,
        "listener.name.controller.plain.sasl.jaas.config": _LOGIN,
    }
    with ApacheKafka(config=settings, more_listeners={"ADMIN": admin_port}) as kafka:
        yield SecuredApache(kafka.bootstrap_servers, admin_port)
