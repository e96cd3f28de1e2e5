"""GSSAPI with a real KDC: a broker accepts tickets, and clients show theirs.

Needs an MIT KDC (Debian: krb5-kdc, krb5-admin-server, krb5-user), and the packages gssapi, k5test.
"""

import shutil
import struct
from collections.abc import Iterator

import pytest

from embedkafka import ConfigError
from embedkafka.runtime.addresses import parse_address
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import MetadataRequest
from embedkafka.wire.protocol.messages.topics import ElectLeadersRequest
from tests.java_tools.java_client import JavaClient
from tests.java_tools.jvm import JavaProcessError
from tests.wire.kerberos_cluster import Realm, between_brokers, for_clients, negotiate, running
from tests.wire.raw_client import RawClient
from tests.wire.sasl_cluster import SaslCluster, authenticate, handshake
from tests.wire.tokens import create

kafka = pytest.importorskip("kafka")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("krb5kdc") is None, reason="there is no KDC"),
]


ON_EITHER_KIND = ("kerberized", "kind")


@pytest.fixture(scope="module")
def realm() -> Iterator[Realm]:
    pytest.importorskip("k5test")
    pytest.importorskip("gssapi")
    realm = Realm()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in realm.environment.items():
            patch.setenv(name, value)
        yield realm
    realm.stop()


@pytest.fixture(scope="module")
def kind(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="session")
def version(request: pytest.FixtureRequest) -> str:
    wanted: str = request.config.getoption("--oracle-version")
    return wanted


@pytest.fixture(scope="module")
def kerberized(request: pytest.FixtureRequest, realm: Realm, version: str) -> Iterator[SaslCluster]:
    """One broker whose clients show tickets."""
    config = for_clients(realm.broker_login())
    with running(request.param, realm, config, version) as started:
        yield started


def log_in(client: RawClient, realm: Realm) -> None:
    handshake(client, "GSSAPI")

    def send(token: bytes) -> bytes:
        answer = authenticate(client, token)
        assert answer.error_code == 0, answer.error_message
        return bytes(answer.auth_bytes)

    negotiate(realm.initiate(), send)


def test_a_client_with_a_ticket_is_let_in(realm: Realm, kerberized: SaslCluster) -> None:
    with kerberized.connect() as client:
        log_in(client, realm)
        assert client.call(MetadataRequest(topics=[]), 12).brokers


def test_a_rule_makes_the_name_of_a_user(realm: Realm, kerberized: SaslCluster) -> None:
    with kerberized.connect() as client:
        log_in(client, realm)
        token = create(client)
        assert (token.error_code, token.principal_name) == (0, "job")


def test_a_client_of_kafka_0_9_sends_its_tokens_without_a_handshake(
    realm: Realm, kerberized: SaslCluster, version: str
) -> None:
    with kerberized.connect() as client:
        context = realm.initiate()
        client.send_frame(context.step())
        if kerberized.kind == "apache" and not version.startswith("3."):
            with pytest.raises(ConnectionError):  # Kafka 4 has dropped it
                client.receive_frame()
            return
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


def test_brokers_log_in_to_each_other_with_their_key(kind: str, realm: Realm, version: str) -> None:
    config = between_brokers(realm.broker_login(serviceName="kafka"))
    with running(kind, realm, config, version, brokers=2) as started:
        for address in started.listeners["PLAINTEXT"].split(","):  # one is not the controller's
            with RawClient(*parse_address(address)) as client:
                answer = client.call(ElectLeadersRequest(topic_partitions=None))
                assert answer.error_code == ErrorCode.NONE


def test_brokers_that_log_in_to_each_other_need_the_name_of_their_service(
    kind: str, realm: Realm, version: str
) -> None:
    config = between_brokers(realm.broker_login())
    with (
        pytest.raises((ConfigError, JavaProcessError), match="serviceName"),
        running(kind, realm, config, version),
    ):
        pass


def test_a_keytab_without_the_key_is_refused_at_the_start(
    kind: str, realm: Realm, version: str
) -> None:
    config = for_clients(realm.broker_login(principal=realm.service.replace("kafka", "other")))
    with (
        pytest.raises((ConfigError, JavaProcessError), match=r"the key of other|LoginException"),
        running(kind, realm, config, version),
    ):
        pass


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # it leaves sockets to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_kafka_python_logs_in_with_its_ticket(realm: Realm, kerberized: SaslCluster) -> None:
    realm.get_ticket()
    admin = kafka.KafkaAdminClient(
        bootstrap_servers=kerberized.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_name=realm.service_name(),
    )
    try:
        assert isinstance(admin.list_topics(), list)
    finally:
        admin.close()


@pytest.mark.java
@pytest.mark.parametrize("line", ["3.9", "4"])
def test_a_java_client_logs_in_with_its_keytab(
    realm: Realm, kerberized: SaslCluster, line: str
) -> None:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": realm.user_login(),
    }
    topic = f"of-java-{line}"
    with JavaClient(line, properties=realm.properties) as java:
        with java.producer(kerberized.bootstrap_servers, **settings) as producer:
            producer.send_one(topic, b"over GSSAPI")
        reading = {**settings, "group.id": f"group-{line}", "auto.offset.reset": "earliest"}
        with java.consumer(kerberized.bootstrap_servers, **reading) as consumer:
            consumer.subscribe(topic)
            assert [record.value for record in consumer.poll()] == [b"over GSSAPI"]
