"""GSSAPI with a real KDC: a broker accepts tickets, and clients show theirs.

Needs an MIT KDC (Debian: krb5-kdc, krb5-admin-server, krb5-user), and the packages gssapi, k5test.
"""

import shutil
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from embedkafka import ConfigError, EmbeddedKafka
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.core import MetadataRequest
from embedkafka.protocol.messages.topics import ElectLeadersRequest
from tests.wire.raw_client import RawClient
from tests.wire.sasl_cluster import SaslCluster, authenticate, handshake

kafka = pytest.importorskip("kafka")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("krb5kdc") is None, reason="there is no KDC"),
]

SERVICE = "kafka/localhost"


@pytest.fixture(scope="module")
def realm() -> Iterator[Any]:  # Any: an optional package
    k5test = pytest.importorskip("k5test")
    pytest.importorskip("gssapi")
    realm = k5test.K5Realm(get_creds=False)
    realm.addprinc(f"{SERVICE}@{realm.realm}")
    realm.extract_keytab(f"{SERVICE}@{realm.realm}", realm.keytab)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in realm.env.items():
            patch.setenv(name, value)
        yield realm
    realm.stop()


def settings(realm: Any, **options: str) -> dict[str, object]:
    given = {"keyTab": realm.keytab, "principal": f"{SERVICE}@{realm.realm}", **options}
    shown = " ".join(f'{name}="{value}"' for name, value in given.items())
    module = f"com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true {shown};"
    return {
        "listeners": "INSIDE://127.0.0.1:0,SASL://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.sasl.gssapi.sasl.jaas.config": module,
    }


@pytest.fixture(scope="module")
def kerberized(realm: Any) -> Iterator[SaslCluster]:
    with EmbeddedKafka(config=settings(realm)) as kafka:
        yield SaslCluster(kind="embedded", listeners=kafka.listeners)


def between_brokers(realm: Any, **options: str) -> dict[str, object]:
    """Brokers log in to each other; their clients need not."""
    given = settings(realm, **options)
    return {
        **given,
        "listeners": "CLIENTS://127.0.0.1:0,SASL://localhost:0",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
    }


def initiate(realm: Any) -> Any:
    """A client's side of the context, with a ticket of the realm's user."""
    import gssapi

    realm.kinit(realm.user_princ, realm.password("user"))
    return gssapi.SecurityContext(name=service_name(realm), usage="initiate")


def service_name(realm: Any) -> Any:
    import gssapi

    return gssapi.Name(f"{SERVICE}@{realm.realm}", gssapi.NameType.kerberos_principal)


def negotiate(context: Any, send: Any) -> None:
    """The exchange of RFC 4752, without a security layer."""
    challenge = send(context.step())
    while not context.complete:
        challenge = send(context.step(challenge) or b"")
    offered = context.unwrap(challenge or send(b"")).message
    assert offered == struct.pack(">I", 1 << 24)
    send(context.wrap(struct.pack(">I", 1 << 24), False).message)


def test_a_client_with_a_ticket_is_let_in(realm: Any, kerberized: SaslCluster) -> None:
    with kerberized.connect() as client:
        handshake(client, "GSSAPI")

        def send(token: bytes) -> bytes:
            answer = authenticate(client, token)
            assert answer.error_code == 0, answer.error_message
            return bytes(answer.auth_bytes)

        negotiate(initiate(realm), send)
        assert client.call(MetadataRequest(topics=[]), 12).brokers


def test_a_client_of_kafka_0_9_sends_its_tokens_without_a_handshake(
    realm: Any, kerberized: SaslCluster
) -> None:
    with kerberized.connect() as client:
        context = initiate(realm)
        client.send_frame(context.step())
        context.step(client.receive_frame())
        client.send_frame(b"")
        context.unwrap(client.receive_frame())
        client.send_frame(context.wrap(struct.pack(">I", 1 << 24), False).message)
        assert client.call(MetadataRequest(topics=[]), 12).brokers


def test_a_token_that_is_no_ticket_is_refused(kerberized: SaslCluster) -> None:
    with kerberized.connect() as client:
        handshake(client, "GSSAPI")
        answer = authenticate(client, b"no ticket")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "due to invalid credentials with SASL mechanism GSSAPI" in answer.error_message


def test_brokers_log_in_to_each_other_with_their_key(realm: Any) -> None:
    with EmbeddedKafka(brokers=2, config=between_brokers(realm, serviceName="kafka")) as kafka:
        for handle in kafka.brokers:  # the one that is not the controller passes it on
            host, port = handle.address.split(":")
            with RawClient(host, int(port)) as client:
                answer = client.call(ElectLeadersRequest(topic_partitions=None))
                assert answer.error_code == ErrorCode.NONE


def test_brokers_that_log_in_to_each_other_need_the_name_of_their_service(realm: Any) -> None:
    with pytest.raises(ConfigError, match=r"needs serviceName, or sasl\.kerberos\.service\.name"):
        EmbeddedKafka(config=between_brokers(realm)).start()


def test_a_keytab_without_the_key_is_refused_at_the_start(realm: Any) -> None:
    bad = settings(realm, principal=f"other/localhost@{realm.realm}")
    with pytest.raises(ConfigError, match=r"the key of other/localhost@"):
        EmbeddedKafka(config=bad).start()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # it leaves sockets to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_kafka_python_logs_in_with_its_ticket(realm: Any, kerberized: SaslCluster) -> None:
    realm.kinit(realm.user_princ, realm.password("user"))
    admin = kafka.KafkaAdminClient(
        bootstrap_servers=kerberized.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_name=service_name(realm),
    )
    try:
        assert isinstance(admin.list_topics(), list)
    finally:
        admin.close()
