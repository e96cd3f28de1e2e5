"""SASL: how clients log in, what they may send before, and what a refused one sees."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.configs import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
)
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest, MetadataRequest
from embedkafka.wire.protocol.messages.groups import HeartbeatRequest
from embedkafka.wire.protocol.messages.security import SaslAuthenticateRequest
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient
from tests.wire.sasl_cluster import (
    MAX_REAUTH_MS,
    MECHANISMS,
    PASSWORD,
    SCRAM,
    USER,
    SaslCluster,
    authenticate,
    bearer,
    handshake,
    scram_final,
    unsecured_token,
)

kafka = pytest.importorskip("kafka")

Unique = Callable[[str], str]
METADATA = MetadataRequest(topics=[])
INVALID = "Authentication failed: Invalid username or password"


def assert_hung_up(client: RawClient) -> None:
    with pytest.raises(ConnectionError):
        client.receive_frame()


def assert_logged_in(client: RawClient) -> None:
    assert client.call(METADATA, 12).brokers


# Raw connections.


def test_versions_handshake_token_and_then_everything(sasl_cluster: SaslCluster) -> None:
    with sasl_cluster.connect() as client:
        versions = client.call(ApiVersionsRequest(), 0)
        assert ApiKey.SASL_AUTHENTICATE in {api.api_key for api in versions.api_keys}
        shaken = handshake(client, "PLAIN")
        assert (shaken.error_code, sorted(shaken.mechanisms)) == (0, sorted(MECHANISMS))
        answer = authenticate(client, f"\0{USER}\0{PASSWORD}".encode())
        assert (answer.error_code, answer.error_message) == (0, "")
        assert (answer.auth_bytes, answer.session_lifetime_ms) == (b"", 0)
        assert_logged_in(client)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_wrong_password_gets_a_message_and_ends_the_connection(
    sasl_cluster: SaslCluster, version: int
) -> None:
    with sasl_cluster.connect() as client:
        handshake(client, "PLAIN")
        answer = authenticate(client, f"\0{USER}\0wrong".encode(), version)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == INVALID
        assert_hung_up(client)


def test_tokens_are_bare_after_a_handshake_of_version_0(sasl_cluster: SaslCluster) -> None:
    with sasl_cluster.connect() as client:
        assert handshake(client, "PLAIN", 0).error_code == 0
        client.send_frame(f"\0{USER}\0{PASSWORD}".encode())
        assert client.receive_frame() == b""
        assert_logged_in(client)
    with sasl_cluster.connect() as client:
        handshake(client, "PLAIN", 0)
        client.send_frame(f"\0{USER}\0wrong".encode())
        assert_hung_up(client)


def test_an_unknown_mechanism_is_refused_with_the_enabled_ones(sasl_cluster: SaslCluster) -> None:
    with sasl_cluster.connect() as client:
        answer = handshake(client, "CRAM-MD5")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert sorted(answer.mechanisms) == sorted(MECHANISMS)
        assert_hung_up(client)


def test_requests_before_the_handshake_end_the_connection(sasl_cluster: SaslCluster) -> None:
    for request, version in ((METADATA, 12), (SaslAuthenticateRequest(auth_bytes=b"x"), 2)):
        with sasl_cluster.connect() as client:
            client.send(request, version)
            assert_hung_up(client)


def test_other_requests_between_handshake_and_token_get_their_error(
    sasl_cluster: SaslCluster,
) -> None:
    with sasl_cluster.connect() as client:
        handshake(client, "PLAIN")
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert client.call(heartbeat, 4).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert_hung_up(client)


def test_api_versions_twice_ends_the_connection(sasl_cluster: SaslCluster) -> None:
    with sasl_cluster.connect() as client:
        client.call(ApiVersionsRequest(), 0)
        client.send(ApiVersionsRequest(), 0)
        assert_hung_up(client)


def test_a_client_that_has_logged_in_may_not_begin_again(sasl_cluster: SaslCluster) -> None:
    """Unless its session has an end."""
    with sasl_cluster.log_in() as client:
        assert handshake(client, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
        answer = authenticate(client, b"\0bob\0b")
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert answer.error_message == (
            "SaslAuthenticate request received after successful authentication"
        )
        assert_logged_in(client)


def test_a_frame_longer_than_a_login_needs_ends_the_connection(sasl_cluster: SaslCluster) -> None:
    with sasl_cluster.connect() as client:
        client.send_frame(b"x" * 20_001)
        assert_hung_up(client)
    with sasl_cluster.log_in() as client:
        many = [MetadataRequest.Topic(name=f"no-such-topic-{number}") for number in range(2000)]
        request = MetadataRequest(topics=many, allow_auto_topic_creation=False)
        assert len(client.call(request, 9).topics) == len(many)


def test_nonsense_ends_the_connection(sasl_cluster: SaslCluster) -> None:
    for frame in (b"", b"\x60\x82\x01 as a GSSAPI client of Kafka 0.9", b"\0"):
        with sasl_cluster.connect() as client:
            client.send_frame(frame)
            assert_hung_up(client)


@pytest.mark.parametrize("mechanism", SCRAM)
def test_scram_without_a_client_library(
    sasl_cluster: SaslCluster, unique: Unique, mechanism: str
) -> None:
    user = unique("user,=")
    sasl_cluster.add_user(user, "geheim", mechanism)
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r=fyko+d2lbbFgONRv9qkxdawL".encode()
    with sasl_cluster.connect() as client:
        handshake(client, mechanism)
        challenge = authenticate(client, b"n,," + first).auth_bytes
        assert challenge.startswith(b"r=fyko+d2lbbFgONRv9qkxdawL")
        assert challenge.endswith(b",s=c2FsdA==,i=4096")
        answer = authenticate(client, scram_final(mechanism, "geheim", first, challenge))
        assert answer.auth_bytes.startswith(b"v=")
        assert_logged_in(client)


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_wrong_scram_password_says_only_that_it_failed(
    sasl_cluster: SaslCluster, unique: Unique, mechanism: str
) -> None:
    user = unique("user")
    sasl_cluster.add_user(user, "geheim", mechanism)
    first = f"n={user},r=abc".encode()
    with sasl_cluster.connect() as client:
        handshake(client, mechanism)
        challenge = authenticate(client, b"n,," + first).auth_bytes
        answer = authenticate(client, scram_final(mechanism, "guess", first, challenge))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL "
            f"mechanism {mechanism}"
        )
        assert_hung_up(client)


def test_an_unknown_user_gets_the_same_error_in_the_end(sasl_cluster: SaslCluster) -> None:
    """Apache Kafka refuses it at once; here nothing tells it from a wrong password."""
    first = b"n=nobody,r=abc"
    with sasl_cluster.connect() as client:
        handshake(client, "SCRAM-SHA-512")
        answer = authenticate(client, b"n,," + first)
        if not answer.error_code:
            final = scram_final("SCRAM-SHA-512", "guess", first, answer.auth_bytes)
            answer = authenticate(client, final)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL "
            "mechanism SCRAM-SHA-512"
        )


def test_a_bearer_token_limits_the_session(sasl_cluster: SaslCluster) -> None:
    with sasl_cluster.connect() as client:
        handshake(client, "OAUTHBEARER")
        answer = authenticate(client, bearer(unsecured_token()))
        assert answer.error_code == 0
        assert 3_500_000 < answer.session_lifetime_ms <= 3_600_000
        assert_logged_in(client)


def test_a_bearer_token_that_has_expired_gets_a_json_error(sasl_cluster: SaslCluster) -> None:
    with sasl_cluster.connect() as client:
        handshake(client, "OAUTHBEARER")
        late = unsecured_token(iat=int(time.time()) - 60, exp=int(time.time()) - 10)
        answer = authenticate(client, bearer(late))
        assert (answer.error_code, answer.auth_bytes) == (0, b'{"status":"invalid_token"}')
        answer = authenticate(client, b"\x01")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == '{"status":"invalid_token"}'
        assert_hung_up(client)


# Re-authentication (KIP-368).


def test_a_session_with_an_end_is_renewed_on_the_same_connection(
    sasl_cluster: SaslCluster,
) -> None:
    with sasl_cluster.connect("REAUTH") as client:
        for _ in range(2):
            assert handshake(client, "PLAIN").error_code == 0
            answer = authenticate(client, f"\0{USER}\0{PASSWORD}".encode())
            assert (answer.error_code, answer.session_lifetime_ms) == (0, MAX_REAUTH_MS)
            assert_logged_in(client)


def test_the_next_renewal_within_a_second_is_refused(sasl_cluster: SaslCluster) -> None:
    with sasl_cluster.log_in("REAUTH") as client:
        for _ in range(20):  # on a busy machine, more than a second may pass between two
            refused = handshake(client, "PLAIN").error_code
            if refused:
                break
            authenticate(client, f"\0{USER}\0{PASSWORD}".encode())
        assert refused == ErrorCode.ILLEGAL_SASL_STATE
        assert_logged_in(client)


def test_a_renewal_may_not_change_the_user(sasl_cluster: SaslCluster) -> None:
    with sasl_cluster.log_in("REAUTH") as client:
        handshake(client, "PLAIN")
        answer = authenticate(client, b"\0bob\0b")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        assert_hung_up(client)


def test_a_renewal_may_not_change_the_mechanism(sasl_cluster: SaslCluster) -> None:
    with sasl_cluster.log_in("REAUTH") as client:
        assert handshake(client, "OAUTHBEARER").error_code == 0
        client.send(SaslAuthenticateRequest(auth_bytes=bearer(unsecured_token())), 2)
        assert_hung_up(client)


# Credentials by requests.


def test_credentials_are_refused_in_kafkas_words(sasl_cluster: SaslCluster, unique: Unique) -> None:
    twice, gone = unique("user"), unique("user")
    upsertion: dict[str, Any] = {"iterations": 4096, "salt": b"salt", "salted_password": b"x" * 32}
    _Upsertion = AlterUserScramCredentialsRequest.Upsertion
    request = AlterUserScramCredentialsRequest(
        deletions=[AlterUserScramCredentialsRequest.Deletion(name=gone, mechanism=1)],
        upsertions=[
            _Upsertion(name="", mechanism=1, **upsertion),
            _Upsertion(name="unknown", mechanism=9, **upsertion),
            _Upsertion(name="few", mechanism=1, **{**upsertion, "iterations": 4095}),
            _Upsertion(name="many", mechanism=1, **{**upsertion, "iterations": 16_385}),
            _Upsertion(name=twice, mechanism=1, **upsertion),
            _Upsertion(name=twice, mechanism=1, **upsertion),
        ],
    )
    with sasl_cluster.connect("PLAINTEXT") as client:
        results = {
            result.user: (ErrorCode(result.error_code).name, result.error_message)
            for result in client.call(request).results
        }
    assert results == {
        gone: ("RESOURCE_NOT_FOUND", "Attempt to delete a user credential that does not exist"),
        "": ("UNACCEPTABLE_CREDENTIAL", "Username must not be empty"),
        "unknown": ("UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism"),
        "few": ("UNACCEPTABLE_CREDENTIAL", "Too few iterations"),
        "many": ("UNACCEPTABLE_CREDENTIAL", "Too many iterations"),
        twice: (
            "DUPLICATE_RESOURCE",
            "A user credential cannot be altered twice in the same request",
        ),
    }


def test_users_without_a_credential_are_described_with_an_error(
    sasl_cluster: SaslCluster, unique: Unique
) -> None:
    gone, twice = unique("user"), unique("user")
    _User = DescribeUserScramCredentialsRequest.User
    wanted = [_User(name=gone), _User(name=twice), _User(name=twice)]
    with sasl_cluster.connect("PLAINTEXT") as client:
        answer = client.call(DescribeUserScramCredentialsRequest(users=wanted))
    assert {r.user: (ErrorCode(r.error_code).name, r.error_message) for r in answer.results} == {
        gone: (
            "RESOURCE_NOT_FOUND",
            f"Attempt to describe a user credential that does not exist: {gone}",
        ),
        twice: (
            "DUPLICATE_RESOURCE",
            f"Cannot describe SCRAM credentials for the same user twice in a single request: "
            f"{twice}",
        ),
    }


# Stock clients.


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_librdkafka_logs_in_and_moves_records(
    sasl_cluster: SaslCluster, unique: Unique, mechanism: str
) -> None:
    user, password = (USER, PASSWORD) if mechanism == "PLAIN" else (unique("user"), "p,=ü")
    if mechanism != "PLAIN":
        sasl_cluster.add_user(user, password, mechanism)
    client = sasl_cluster.librdkafka(mechanism, user, password)
    topic = unique("topic")
    producer = Producer(client)
    producer.produce(topic, b"over SASL")
    assert producer.flush(30) == 0
    consumer = Consumer({**client, "group.id": unique("group"), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = eventually(lambda: consumer.poll(1.0), "a record")
        assert message.value() == b"over SASL"
    finally:
        consumer.close()


def test_librdkafka_logs_in_with_a_bearer_token(sasl_cluster: SaslCluster) -> None:
    def token(config: str) -> tuple[str, float, str, dict[str, str]]:
        return unsecured_token(), time.time() + 3600, USER, {"traceId": "123"}

    client: dict[str, Any] = {
        "bootstrap.servers": sasl_cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": token,
    }
    admin = AdminClient(client)
    admin.poll(0)
    assert eventually(lambda: admin.list_topics(timeout=30).brokers, "the brokers")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_librdkafka_learns_why_it_is_refused(sasl_cluster: SaslCluster, mechanism: str) -> None:
    errors: list[KafkaError] = []
    client = sasl_cluster.librdkafka(mechanism, "nobody", "wrong")
    client |= {"error_cb": errors.append, "log_level": 0}
    admin = AdminClient(client)

    def refused() -> KafkaError | None:
        admin.poll(0.1)
        return next((e for e in errors if e.code() == KafkaError._AUTHENTICATION), None)

    assert "Authentication failed" in eventually(refused, "the refusal").str()
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=0.2)


def test_librdkafka_sets_and_deletes_credentials(sasl_cluster: SaslCluster, unique: Unique) -> None:
    user = unique("user")
    admin = AdminClient(sasl_cluster.librdkafka("PLAIN", USER, PASSWORD))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion(user, info, "pässwörd".encode())
    admin.alter_user_scram_credentials([upsertion])[user].result(30)
    login = AdminClient(sasl_cluster.librdkafka("SCRAM-SHA-256", user, "pässwörd"))
    assert login.list_topics(timeout=30).brokers
    deletion = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([deletion])[user].result(30)

    def described() -> None:
        found: Any = admin.describe_user_scram_credentials([user])
        found[user].result(30)

    with pytest.raises(KafkaException, match="does not exist"):
        eventually(described, "the user is gone")


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # it leaves sockets to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_kafka_python_logs_in(sasl_cluster: SaslCluster, unique: Unique) -> None:
    user = unique("user")
    sasl_cluster.add_user(user, "geheim", "SCRAM-SHA-512")
    for mechanism, name, password in (
        ("PLAIN", USER, PASSWORD),
        ("SCRAM-SHA-512", user, "geheim"),
    ):
        admin = kafka.KafkaAdminClient(
            bootstrap_servers=sasl_cluster.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=name,
            sasl_plain_password=password,
        )
        try:
            assert isinstance(admin.list_topics(), list)
        finally:
            admin.close()
