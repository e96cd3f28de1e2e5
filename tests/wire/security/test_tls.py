"""TLS listeners: who may connect, what their certificates make of them, what others see."""

import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from embedkafka import Acl
from embedkafka.runtime.addresses import parse_address
from embedkafka.security.certificates import CertificateAuthority
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest, MetadataRequest
from tests.wire.clients import eventually, poll
from tests.wire.one_partition import batch, produce
from tests.wire.raw_client import RawClient
from tests.wire.tls_cluster import LISTENERS, TlsCluster
from tests.wire.tokens import create

Unique = Callable[[str], str]
TIMEOUT_S = 30.0
TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def principal_of(client: RawClient) -> str:
    """Who the broker takes the client for: a request for a token is answered with its owner."""
    answer = create(client)
    assert answer.error_code in (0, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    return f"{answer.principal_type}:{answer.principal_name}"


def assert_refused(cluster: TlsCluster, listener: str, tls: ssl.SSLContext) -> str:
    """Neither the handshake nor a request succeeds: with TLS 1.3 the client hears it late."""
    with (
        pytest.raises((ssl.SSLError, ConnectionError)) as refused,
        cluster.connect(listener, tls=tls) as client,
    ):
        client.call(ApiVersionsRequest(), 0)
    return str(refused.value)


# Stock clients.


@pytest.mark.parametrize("listener", LISTENERS)
def test_librdkafka_writes_and_reads(
    tls_cluster: TlsCluster, unique: Unique, listener: str
) -> None:
    topic, group = unique("over-tls"), unique("readers")
    tls_cluster.grant(
        *(Acl.allow("*", operation, topic=topic) for operation in ("CREATE", "READ", "WRITE")),
        Acl.allow("*", "READ", group=group),
    )
    config = tls_cluster.librdkafka(listener, None if listener == "OPEN" else "alice")
    producer = Producer({**config, "acks": "all"})
    values = [bytes([number]) * 100_000 for number in range(20)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    readers = {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, **readers})
    consumer.subscribe([topic])
    assert sorted(str(message.value()) for message in poll(consumer, 20)) == sorted(
        map(str, values)
    )
    consumer.close()


def error_of(config: dict[str, Any], code: int) -> str:
    """What librdkafka reports about a connection that it cannot use."""
    errors: list[KafkaError] = []
    noted: Any = {"error_cb": errors.append}  # Any: the types know no callback
    admin: Any = AdminClient({**config, **noted})

    def found() -> str | None:
        admin.poll(0.1)
        return next((one.str() for one in errors if one.code() == code), None)

    return eventually(found, "librdkafka reports the error")


def test_librdkafka_refuses_a_broker_of_an_authority_it_does_not_know(
    tls_cluster: TlsCluster,
) -> None:
    other = tls_cluster.directory / "other-authority.pem"
    other.write_text(CertificateAuthority(datetime.now(UTC)).trusted)
    config = {**tls_cluster.librdkafka("OPEN"), "ssl.ca.location": str(other)}
    assert "certificate verify failed" in error_of(config, KafkaError._SSL)


def test_librdkafka_needs_a_certificate_where_one_is_required(tls_cluster: TlsCluster) -> None:
    refused = error_of(tls_cluster.librdkafka("MUTUAL"), KafkaError._TRANSPORT)
    assert "alert" in refused
    assert "certificate" in refused
    assert AdminClient(tls_cluster.librdkafka("MUTUAL", "alice")).list_topics(timeout=TIMEOUT_S)


def test_librdkafka_logs_in_over_tls_or_hears_why_not(tls_cluster: TlsCluster) -> None:
    config: dict[str, Any] = tls_cluster.librdkafka("SAFE", "alice")
    assert AdminClient(config).list_topics(timeout=TIMEOUT_S)
    refused = error_of({**config, "sasl.password": "wrong"}, KafkaError._AUTHENTICATION)
    assert "Authentication failed: Invalid username or password" in refused


# Raw connections.


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_both_versions_of_tls_are_spoken(tls_cluster: TlsCluster, version: ssl.TLSVersion) -> None:
    tls = tls_cluster.client_context()
    tls.minimum_version = tls.maximum_version = version
    with tls_cluster.connect("OPEN", tls=tls) as client:
        assert client.call(ApiVersionsRequest(), 0).error_code == 0
        spoken = client._socket
        assert isinstance(spoken, ssl.SSLSocket)
        assert spoken.version() == version.name.replace("_", ".")


def test_a_listener_speaks_the_enabled_versions_only(tls_cluster: TlsCluster) -> None:
    tls = tls_cluster.client_context()
    tls.maximum_version = TLS_1_2
    with tls_cluster.connect("OLD", tls=tls) as client:
        assert client.call(ApiVersionsRequest(), 0).error_code == 0
    tls = tls_cluster.client_context()
    tls.minimum_version = TLS_1_3
    assert_refused(tls_cluster, "OLD", tls)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_a_required_certificate_must_be_shown_and_trusted(
    tls_cluster: TlsCluster, version: ssl.TLSVersion
) -> None:
    stranger, expired = (tls_cluster.directory / f"{name}.pem" for name in ("stranger", "expired"))
    stranger.write_text(CertificateAuthority(datetime.now(UTC)).issue("alice"))
    expired.write_text(tls_cluster.authority.issue("alice", lifetime=timedelta(hours=-1)))
    for shown in (None, "stranger", "expired"):
        tls = tls_cluster.client_context(shown)
        tls.minimum_version = tls.maximum_version = version
        assert_refused(tls_cluster, "MUTUAL", tls)
    with tls_cluster.connect("MUTUAL", "alice") as client:
        assert principal_of(client) == "User:alice"


def test_a_requested_certificate_may_be_missing_but_not_wrong(tls_cluster: TlsCluster) -> None:
    with tls_cluster.connect("REQUESTED") as client:
        assert principal_of(client) == "User:ANONYMOUS"
    with tls_cluster.connect("REQUESTED", "alice") as client:
        assert principal_of(client) == "User:CN=alice"
    stranger = tls_cluster.directory / "stranger.pem"
    stranger.write_text(CertificateAuthority(datetime.now(UTC)).issue("alice"))
    assert_refused(tls_cluster, "REQUESTED", tls_cluster.client_context("stranger"))


def test_a_certificate_that_nothing_asks_for_is_not_looked_at(tls_cluster: TlsCluster) -> None:
    with tls_cluster.connect("OPEN", "alice") as client:
        assert principal_of(client) == "User:ANONYMOUS"


@pytest.mark.parametrize(
    ("subject", "listener", "principal"),
    [
        ({"CN": "Duke", "OU": "Sales", "C": "SE"}, "MUTUAL", "User:duke@sales"),
        ({"CN": "Duke"}, "MUTUAL", "User:Duke"),
        ({"CN": "Duke", "OU": "Sales", "C": "SE"}, "REQUESTED", "User:CN=Duke,OU=Sales,C=SE"),
        (
            {"CN": ' #a<b>"c+d=e;\\ ', "O": "Ærø, 東京"},
            "REQUESTED",
            r"User:CN=\ \#a\<b\>\"c\+d\=e\;\\\ ,O=Ærø\, 東京",
        ),
        (
            {"emailAddress": "a@b.c", "UID": "u", "DC": "d", "CN": "#x", "ST": "y z"},
            "REQUESTED",
            r"User:1.2.840.113549.1.9.1=#16056140622e63,UID=u,DC=d,CN=\#x,ST=y z",
        ),
    ],
)
def test_the_subject_of_a_certificate_names_its_client(
    tls_cluster: TlsCluster, subject: dict[str, str], listener: str, principal: str
) -> None:
    tls_cluster.issue_to("subject", subject)
    with tls_cluster.connect(listener, "subject") as client:
        assert principal_of(client) == principal


def test_a_certificate_to_which_no_rule_applies_gets_no_answer(tls_cluster: TlsCluster) -> None:
    tls_cluster.issue_to("eve", {"CN": "eve", "OU": "Marketing"})
    assert_refused(tls_cluster, "MUTUAL", tls_cluster.client_context("eve"))


def test_acls_hold_for_the_name_in_a_certificate(tls_cluster: TlsCluster, unique: Unique) -> None:
    topic = unique("named")
    tls_cluster.issue("bob")
    with tls_cluster.connect("PLAINTEXT") as admin:
        wanted = MetadataRequest(topics=[MetadataRequest.Topic(name=topic)])
        eventually(lambda: admin.call(wanted, 4) and admin.knows_leaders(topic, 1), "a topic")
        eventually(lambda: admin.leads(topic), "it is served")
    tls_cluster.grant(Acl.allow("alice", "WRITE", topic=topic))
    for name, code in (("alice", 0), ("bob", ErrorCode.TOPIC_AUTHORIZATION_FAILED)):
        with tls_cluster.connect("MUTUAL", name) as client:
            assert produce(client, topic, batch(b"x")).error_code == code


def test_over_sasl_the_login_is_the_name_and_a_certificate_is_not(
    tls_cluster: TlsCluster,
) -> None:
    with tls_cluster.log_in("bob") as client:
        assert principal_of(client) == "User:bob"


# Clients that speak something else.


def test_plain_text_on_a_tls_port_ends_the_connection(tls_cluster: TlsCluster) -> None:
    with RawClient(*parse_address(tls_cluster.listeners["OPEN"])) as client:
        client.send(ApiVersionsRequest(), 0)
        with pytest.raises(ConnectionError):
            while True:  # Apache Kafka answers with an alert first
                client._receive(1)


def test_tls_on_a_plain_port_ends_the_connection(tls_cluster: TlsCluster) -> None:
    tls = tls_cluster.client_context()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        RawClient(*parse_address(tls_cluster.listeners["PLAINTEXT"]), tls=tls)


def test_a_client_that_never_finishes_its_handshake_holds_no_other_up(
    tls_cluster: TlsCluster,
) -> None:
    address = parse_address(tls_cluster.listeners["OPEN"])
    slow = [socket.create_connection(address, TIMEOUT_S) for _ in range(5)]
    for connection in slow:
        connection.send(b"\x16\x03\x01\x02\x00\x01\x00")  # the beginning of a ClientHello
    with tls_cluster.connect("OPEN") as client:
        assert client.call(ApiVersionsRequest(), 0).error_code == 0
    for connection in slow:
        connection.close()
