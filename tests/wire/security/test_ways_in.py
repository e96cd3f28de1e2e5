"""A listener for anyone beside one with two mechanisms, under an authorizer: who gets what."""

from collections.abc import Iterator
from typing import Final

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.security.acl.acls import Acl
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages import core
from embedkafka.wire.protocol.messages.configs import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
)
from tests.java_tools.oracle import ApacheKafka
from tests.java_tools.ports import free_ports
from tests.wire.clients import eventually
from tests.wire.conftest import SHARED_CONFIG
from tests.wire.raw_client import RawClient
from tests.wire.sasl_cluster import (
    SaslCluster,
    authenticate,
    handshake,
    scram_final,
    scram_upsertion,
)
from tests.wire.secured import ANYONE, replace_acls
from tests.wire.tokens import create

_KAFKA: Final = "org.apache.kafka.common.security"
_PLAIN: Final = (
    f'{_KAFKA}.plain.PlainLoginModule required username="admin" password="secret" '
    'user_admin="secret" user_alice="a-secret";'
)
_SCRAM: Final = f"{_KAFKA}.scram.ScramLoginModule required;"
SETTINGS: Final = {
    "inter.broker.listener.name": "SASL",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": _PLAIN,
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": _SCRAM,
    "super.users": "User:admin",
    "delegation.token.secret.key": "the brokers' secret",
    "auto.create.topics.enable": False,
}
NAMES: Final = "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT"


ON_EITHER_KIND = ("ways",)


@pytest.fixture(scope="module")
def ways(request: pytest.FixtureRequest) -> Iterator[SaslCluster]:
    """bob has a credential of SCRAM alone, alice and admin have passwords of PLAIN alone."""
    config = {**SHARED_CONFIG, **SETTINGS}
    if request.param == "embedded":
        config |= {
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
            "listener.security.protocol.map": NAMES,
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        }
        with EmbeddedKafka(config=config) as kafka:
            yield prepared(SaslCluster(kind="embedded", listeners=kafka.listeners))
        return
    (port,) = free_ports(1)
    config |= {
        "listener.security.protocol.map": f"{NAMES},CONTROLLER:SASL_PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": _PLAIN,
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    }
    with ApacheKafka(config=config, more_listeners={"SASL": port}) as apache:
        listeners = {"PLAINTEXT": apache.bootstrap_servers, "SASL": f"127.0.0.1:{port}"}
        yield prepared(SaslCluster(kind="apache", listeners=listeners))


def prepared(ways: SaslCluster) -> SaslCluster:
    with ways.log_in(user="admin", password="secret") as admin:
        upsertion = scram_upsertion("bob", "b-secret", "SCRAM-SHA-512")
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        assert [each.error_code for each in admin.call(request).results] == [0]
        described = DescribeUserScramCredentialsRequest(users=None)
        eventually(lambda: len(admin.call(described).results) == 1, "bob is known")
    return ways


def grant(ways: SaslCluster, *acls: Acl) -> None:
    with ways.log_in(user="admin", password="secret") as admin:
        replace_acls(admin, acls)


def error_of(client: RawClient) -> int:
    """What a client is told of a topic that does not exist: nothing, unless it may see it."""
    topics = [core.MetadataRequest.Topic(name="orders")]
    request = core.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    (answer,) = client.call(request, 9).topics
    return int(answer.error_code)


def scram(ways: SaslCluster, user: str, password: str) -> int:
    first = f"n={user},r=abc".encode()
    with ways.connect() as client:
        handshake(client, "SCRAM-SHA-512")
        answer = authenticate(client, b"n,," + first)
        if not answer.error_code:
            final = scram_final("SCRAM-SHA-512", password, first, answer.auth_bytes)
            answer = authenticate(client, final)
        return int(answer.error_code)


def plain(ways: SaslCluster, user: str, password: str) -> int:
    with ways.connect() as client:
        handshake(client, "PLAIN")
        return int(authenticate(client, f"\0{user}\0{password}".encode()).error_code)


def test_each_client_has_the_rights_of_its_own_name(ways: SaslCluster) -> None:
    unknown, forbidden = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for who, expected in (
        (ANYONE, [unknown, forbidden]),
        ("alice", [forbidden, unknown]),
        ("*", [unknown, unknown]),
    ):
        grant(ways, Acl.allow(who, "DESCRIBE", topic="orders"))
        with (
            ways.connect("PLAINTEXT") as anyone,
            ways.log_in(user="alice", password="a-secret") as alice,
        ):
            assert [error_of(anyone), error_of(alice)] == expected


def test_anyone_without_rights_cannot_make_a_user(ways: SaslCluster) -> None:
    grant(ways)
    upsertion = scram_upsertion("intruder", "x", "SCRAM-SHA-512")
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
    with ways.connect("PLAINTEXT") as anyone:
        (result,) = anyone.call(request).results
        assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        bob = DescribeUserScramCredentialsRequest.User(name="bob")
        answer = anyone.call(DescribeUserScramCredentialsRequest(users=[bob]))
        assert [each.error_code for each in answer.results] == [
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        ]
    assert scram(ways, "intruder", "x") == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_anyone_gets_no_token_whatever_the_rights(ways: SaslCluster) -> None:
    grant(
        ways,
        Acl.allow(ANYONE, "ALL", cluster=True),
        Acl.allow(ANYONE, "CREATE_TOKENS", of_user="alice"),
    )
    with ways.connect("PLAINTEXT") as anyone:
        for_alice = create(anyone, owner_principal_type="User", owner_principal_name="alice")
        for answer in (create(anyone), for_alice):
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_a_listener_for_anyone_knows_no_logins(ways: SaslCluster) -> None:
    with ways.connect("PLAINTEXT") as anyone:
        answer = handshake(anyone, "PLAIN")
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_password_of_one_mechanism_is_none_of_another(ways: SaslCluster) -> None:
    refused = ErrorCode.SASL_AUTHENTICATION_FAILED
    assert scram(ways, "bob", "b-secret") == ErrorCode.NONE
    assert plain(ways, "alice", "a-secret") == ErrorCode.NONE
    for password in ("", "b-secret"):
        assert plain(ways, "bob", password) == refused
    for password in ("", "a-secret"):
        assert scram(ways, "alice", password) == refused


def test_each_listener_names_its_own_address(ways: SaslCluster) -> None:
    grant(ways)
    request = core.MetadataRequest(topics=[], allow_auto_topic_creation=False)
    with (
        ways.connect("PLAINTEXT") as anyone,
        ways.log_in(user="alice", password="a-secret") as alice,
    ):
        for client, name in ((anyone, "PLAINTEXT"), (alice, "SASL")):
            (broker,) = client.call(request, 9).brokers
            assert f"{broker.host}:{broker.port}" == ways.listeners[name]
