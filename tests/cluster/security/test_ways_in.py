"""Clusters with several ways in: mechanisms beside each other, and a listener for anyone."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from embedkafka import Acl, ConfigError, EmbeddedKafka, InvalidArgument, Security, cli
from embedkafka.cli import endings
from embedkafka.cluster.access.sasl_settings import BROKERS_USER
from embedkafka.runtime.addresses import parse_address
from embedkafka.runtime.properties import parse_properties
from embedkafka.spark.client_settings import translate_properties
from embedkafka.wire.protocol.errors import ErrorCode
from tests.wire.raw_client import RawClient
from tests.wire.sasl_cluster import authenticate, handshake, scram_final
from tests.wire.tokens import create

TIMEOUT_S = 30.0
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
WITH_PASSWORDS = MECHANISMS[:3]
USERS = {"alice": "a-secret", "job": "j-secret"}
ALL_WAYS: dict[str, Any] = {
    "protocol": "SASL_PLAINTEXT",
    "mechanism": MECHANISMS,
    "users": USERS,
    "anonymous": True,
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    security = Security(**ALL_WAYS, acls=[Acl.allow("alice", "ALL", topic="orders")])
    with EmbeddedKafka(
        brokers=2,
        security=security,
        topics={"orders": 1},
        config={"delegation.token.secret.key": "the brokers' secret"},
    ) as cluster:
        yield cluster


def anonymous(kafka: EmbeddedKafka) -> dict[str, Any]:
    return {"bootstrap.servers": kafka.listeners["PLAINTEXT"], "log_level": 0}


def may_log_in(kafka: EmbeddedKafka, user: str, password: str, mechanism: str) -> bool:
    """Whether a broker takes the password; stock clients would need seconds to be refused."""
    with RawClient(*first_address(kafka, "SASL_PLAINTEXT")) as client:
        assert handshake(client, mechanism).error_code == ErrorCode.NONE
        if mechanism == "PLAIN":
            answer = authenticate(client, f"\0{user}\0{password}".encode())
        else:
            first = f"n={user},r=abc".encode()
            challenge = authenticate(client, b"n,," + first).auth_bytes
            answer = authenticate(client, scram_final(mechanism, password, first, challenge))
    assert answer.error_code in (ErrorCode.NONE, ErrorCode.SASL_AUTHENTICATION_FAILED)
    return answer.error_code == ErrorCode.NONE


def first_address(kafka: EmbeddedKafka, listener: str) -> tuple[str, int]:
    return parse_address(kafka.listeners[listener].split(",")[0])


def error_of(settings: dict[str, Any], topic: str) -> int | None:
    """The error that a record meets."""
    errors: list[KafkaError | None] = []
    producer = Producer({**settings, "log_level": 0})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    return None if errors[0] is None else errors[0].code()


# -- several mechanisms


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_logs_in_with_each_mechanism(kafka: EmbeddedKafka, mechanism: str) -> None:
    settings = kafka.client_config("alice", mechanism=mechanism)
    assert settings["sasl.mechanism"] == mechanism
    assert settings["bootstrap.servers"] == kafka.listeners["SASL_PLAINTEXT"]
    assert error_of(settings, "orders") is None
    properties = parse_properties(
        Path(kafka.java_properties("alice", mechanism=mechanism)).read_text()
    )
    assert properties["sasl.mechanism"] == mechanism
    orders = kafka.existing_topic("orders")
    for options in (orders.spark_options, orders.sink_options):
        assert options(user="alice", mechanism=mechanism)["kafka.sasl.mechanism"] == mechanism


def test_the_first_mechanism_is_the_default(kafka: EmbeddedKafka) -> None:
    assert kafka.client_config("alice")["sasl.mechanism"] == "PLAIN"
    assert kafka.client_config()["sasl.mechanism"] == "PLAIN", "the cluster's own clients"
    files = {kafka.java_properties("alice", mechanism=one) for one in [None, *MECHANISMS]}
    assert len(files) == 1 + len(MECHANISMS), "a file does not change under a running tool"


@pytest.mark.parametrize("mechanism", WITH_PASSWORDS)
def test_a_password_counts_whatever_the_mechanism(kafka: EmbeddedKafka, mechanism: str) -> None:
    assert may_log_in(kafka, "alice", "a-secret", mechanism)
    for user, password in (("alice", "wrong"), ("alice", "j-secret"), ("nobody", "a-secret")):
        assert not may_log_in(kafka, user, password, mechanism)


def test_brokers_log_in_with_the_first_mechanism() -> None:
    for mechanism in MECHANISMS:
        others = [one for one in MECHANISMS if one != mechanism]
        ways = {**ALL_WAYS, "mechanism": [mechanism, *others]}
        with EmbeddedKafka(brokers=2, security=Security(**ways), topics={"orders": 1}) as kafka:
            kafka.topic("copied", replication=2).send("x")
            assert kafka.client_config()["sasl.mechanism"] == mechanism


def test_a_user_who_is_revoked_comes_in_by_no_password() -> None:
    """And what a test takes away or adds, its end, a snapshot and a reset put right."""
    security = Security(
        protocol="SASL_PLAINTEXT", mechanism=WITH_PASSWORDS, users=USERS, anonymous=True
    )
    with EmbeddedKafka(brokers=2, security=security, topics={"orders": 1}) as kafka:
        before = kafka.snapshot()

        def take_away() -> None:
            kafka.logins.revoke("alice")
            for mechanism in WITH_PASSWORDS:
                assert not may_log_in(kafka, "alice", "a-secret", mechanism)
                assert may_log_in(kafka, "job", "j-secret", mechanism)
            admin = AdminClient(anonymous(kafka))
            add_user(admin, "intruder")
            admin.create_topics([NewTopic("left", 1, 1)])["left"].result(TIMEOUT_S)

        def is_right() -> None:
            for mechanism in WITH_PASSWORDS:
                assert may_log_in(kafka, "alice", "a-secret", mechanism)
            admin: Any = AdminClient(anonymous(kafka))  # Any: confluent-kafka ships no types
            users = admin.describe_user_scram_credentials().result(TIMEOUT_S)
            assert sorted(users) == sorted([*USERS, BROKERS_USER])
            assert "left" not in admin.list_topics(timeout=TIMEOUT_S).topics

        with kafka.isolated():
            take_away()
        is_right()
        take_away()
        kafka.restore(before)
        is_right()
        take_away()
        kafka.reset()
        is_right()


def add_user(admin: Any, name: str) -> None:  # Any: confluent-kafka ships no types
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    wanted = [UserScramCredentialUpsertion(name, scram, b"a-secret")]
    for future in admin.alter_user_scram_credentials(wanted).values():
        future.result(TIMEOUT_S)


def test_a_password_is_set_for_each_scram_mechanism_that_listeners_have() -> None:
    security = Security(protocol="SASL_PLAINTEXT", mechanism=WITH_PASSWORDS, users=USERS)
    with EmbeddedKafka(security=security) as kafka:
        kafka.logins.set_password("job", "another")
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            assert may_log_in(kafka, "job", "another", mechanism)
            assert not may_log_in(kafka, "job", "j-secret", mechanism)
        assert not may_log_in(kafka, "job", "another", "PLAIN")
        kafka.logins.set_password("job", "a third", "SCRAM-SHA-256")
        assert may_log_in(kafka, "job", "a third", "SCRAM-SHA-256")
        assert may_log_in(kafka, "job", "another", "SCRAM-SHA-512")


@pytest.mark.parametrize(
    ("mechanism", "wanted", "complaint"),
    [
        ("PLAIN", None, "no listener has SCRAM-SHA-256 or .*: SASL_PLAINTEXT has PLAIN$"),
        ("SCRAM-SHA-256", "SCRAM-SHA-512", "no listener has SCRAM-SHA-512, .* has SCRAM-SHA-256$"),
    ],
)
def test_a_password_that_no_listener_asks_for_is_refused(
    mechanism: str, wanted: str | None, complaint: str
) -> None:
    security = Security(protocol="SASL_PLAINTEXT", mechanism=mechanism, users=USERS)
    with EmbeddedKafka(security=security) as kafka:
        with pytest.raises(ConfigError, match=complaint):
            kafka.logins.set_password("job", "another", wanted)
        assert may_log_in(kafka, "job", "j-secret", mechanism)


# -- anyone


def test_an_anonymous_client_may_do_what_acls_say_and_no_more(kafka: EmbeddedKafka) -> None:
    settings = anonymous(kafka)
    with kafka.isolated():
        assert error_of(settings, "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        kafka.acls.add(Acl.allow("ANONYMOUS", "WRITE", topic="orders"))
        assert error_of(settings, "orders") is None
        admin = AdminClient(settings)
        with pytest.raises(KafkaException) as refused:
            add_user(admin, "intruder")
        assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
        assert "User:ANONYMOUS" in kafka.report()
    assert error_of(settings, "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_an_anonymous_client_gets_no_token_and_cannot_become_someone(
    kafka: EmbeddedKafka,
) -> None:
    with kafka.isolated(), stranger(kafka) as client:
        kafka.acls.add(Acl.allow("ANONYMOUS", "ALL", cluster=True))
        assert create(client).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        answer = handshake(client, "PLAIN")
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_an_empty_password_lets_nobody_in(kafka: EmbeddedKafka) -> None:
    """Neither a user of the cluster, nor one who has a credential of SCRAM alone."""
    with kafka.isolated():
        kafka.logins.set_password("newcomer", "n-secret", "SCRAM-SHA-512")
        for user in ("alice", "newcomer", "nobody", BROKERS_USER):
            for password in ("", "n-secret"):
                assert not may_log_in(kafka, user, password, "PLAIN")


def stranger(kafka: EmbeddedKafka) -> RawClient:
    return RawClient(*first_address(kafka, "PLAINTEXT"))


def test_brokers_use_the_secured_listener(kafka: EmbeddedKafka) -> None:
    assert list(kafka.listeners) == ["SASL_PLAINTEXT", "PLAINTEXT"]
    assert kafka.bootstrap_servers == kafka.listeners["SASL_PLAINTEXT"]
    for handle in kafka._require_brokers().all():
        listeners = handle.require_broker().listeners
        assert listeners.inter_broker == "SASL_PLAINTEXT"
        assert listeners.control.protocol == "SASL_PLAINTEXT"


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SSL"])
def test_a_listener_for_anyone_beside_one_with_tls(protocol: str) -> None:
    users: Any = USERS if protocol == "SASL_SSL" else list(USERS)
    security = Security(protocol=protocol, users=users, anonymous=True)
    with EmbeddedKafka(brokers=2, security=security, topics={"orders": 1}) as kafka:
        assert list(kafka.listeners) == [protocol, "PLAINTEXT"]
        assert error_of(kafka.client_config("job"), "orders") is None
        assert error_of(anonymous(kafka), "orders") is None
        kafka.logins.expire_certificates()
        assert error_of(anonymous(kafka), "orders") is None


def test_listeners_of_the_settings_may_be_the_ways_in() -> None:
    config = {
        "listeners": "OPEN://:0,SAFE://:0",
        "listener.security.protocol.map": "OPEN:PLAINTEXT,SAFE:SASL_PLAINTEXT",
    }
    security = Security(**{**ALL_WAYS, "mechanism": ["SCRAM-SHA-512", "PLAIN"]})
    with EmbeddedKafka(brokers=2, security=security, config=config, topics={"orders": 1}) as kafka:
        assert list(kafka.listeners) == ["OPEN", "SAFE"]
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            settings = kafka.client_config("job", mechanism=mechanism)
            assert settings["bootstrap.servers"] == kafka.listeners["SAFE"]
            assert error_of(settings, "orders") is None
        assert error_of({"bootstrap.servers": kafka.listeners["OPEN"]}, "orders") is None
        assert kafka.client_config()["bootstrap.servers"] == kafka.listeners["SAFE"]


def test_users_are_added_to_those_of_the_settings() -> None:
    """To the login modules that the settings name, and only where mechanisms are enabled."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config = {
        "listeners": "ONE://:0,TWO://:0",
        "listener.security.protocol.map": "ONE:SASL_PLAINTEXT,TWO:SASL_PLAINTEXT",
        "listener.name.ONE.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.TWO.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.TWO.plain.sasl.jaas.config": f'{module} required user_carol="c-secret";',
    }
    ways = {**ALL_WAYS, "mechanism": ["PLAIN", "SCRAM-SHA-256"], "anonymous": False}
    with EmbeddedKafka(
        brokers=2, security=Security(**ways), config=config, topics={"orders": 1}
    ) as kafka:
        for mechanism, listener in (("PLAIN", "TWO"), ("SCRAM-SHA-256", "ONE")):
            settings = kafka.client_config("alice", mechanism=mechanism)
            assert settings["bootstrap.servers"] == kafka.listeners[listener]
            assert error_of(settings, "orders") is None
        carol = {"sasl.username": "carol", "sasl.password": "c-secret"}
        assert error_of({**kafka.client_config("alice"), **carol}, "orders") is None


# -- the command

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"

FILES = {
    "with the logins of brokers, as Kafka's documentation has it": f"""
        listeners=OPEN://127.0.0.1:0,SAFE://127.0.0.1:0
        listener.security.protocol.map=OPEN:PLAINTEXT,SAFE:SASL_PLAINTEXT
        inter.broker.listener.name=SAFE
        sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
        sasl.mechanism.inter.broker.protocol=PLAIN
        listener.name.safe.plain.sasl.jaas.config={PLAIN} required username="admin" \\
            password="a" user_admin="a" user_carol="c-secret";
        listener.name.safe.scram-sha-256.sasl.jaas.config={SCRAM} required;
        authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
        super.users=User:admin;User:alice;User:job
        """,
    "with its login modules elsewhere, in a file for Java": """
        listeners=OPEN://127.0.0.1:0,SAFE://127.0.0.1:0
        listener.security.protocol.map=OPEN:PLAINTEXT,SAFE:SASL_PLAINTEXT
        inter.broker.listener.name=OPEN
        sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
        """,
}


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_users_are_added_to_a_server_properties(
    file: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(textwrap.dedent(file))
    printed: list[str] = []
    errors: list[int | None] = []

    def use(signals: int, *, stay: bool) -> None:
        printed.extend(capfd.readouterr().out.splitlines())
        lines = dict(line.split(" ", 1) for line in printed)
        settings = translate_properties(parse_properties(Path(lines["CLIENT.job"]).read_text()))
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            login = {**settings.librdkafka, "sasl.mechanism": mechanism}
            errors.append(
                error_of({**login, "bootstrap.servers": lines["BOOTSTRAP.SAFE"]}, "orders")
            )
        errors.append(error_of({"bootstrap.servers": lines["BOOTSTRAP"]}, "orders"))

    monkeypatch.setattr(endings, "await_end", use)
    users = ["--user", "alice:a-secret", "--user", "job:j-secret", "--topic", "orders"]
    assert cli.main(["serve", "--properties", str(properties), *users]) == 0
    names = [line.split(" ")[0] for line in printed if not line.startswith("ADVERTISED")]
    assert names == ["BOOTSTRAP", "BOOTSTRAP.SAFE", "CLIENT.alice", "CLIENT.job"]
    refused = KafkaError.TOPIC_AUTHORIZATION_FAILED if "authorizer" in file else None
    assert errors == [None, None, refused]


@pytest.mark.parametrize(
    ("listeners", "complaint"),
    [
        ("", "need --security, .* or a listener .* whose clients have passwords"),
        (
            "listeners=PLAINTEXT://:0,SASL_SSL://:0\nsasl.enabled.mechanisms=OAUTHBEARER\n",
            "whose clients have passwords; SASL_SSL has OAUTHBEARER",
        ),
    ],
)
def test_users_for_whom_a_server_properties_has_no_way_in(
    listeners: str, complaint: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(listeners)
    assert cli.main(["serve", "--properties", str(properties), "--user", "alice:x"]) == 2
    assert re.search(complaint, capfd.readouterr().err)


def test_serve_prints_the_address_for_anyone(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[int | None] = []

    def use(signals: int, *, stay: bool) -> None:
        lines = dict(line.split(" ", 1) for line in capfd.readouterr().out.splitlines())
        settings = translate_properties(parse_properties(Path(lines["CLIENT.job"]).read_text()))
        assert settings.librdkafka["sasl.mechanism"] == "PLAIN"
        for login in (
            settings.librdkafka,
            {**settings.librdkafka, "sasl.mechanism": "SCRAM-SHA-256"},
        ):
            errors.append(error_of({**login, "bootstrap.servers": lines["BOOTSTRAP"]}, "orders"))
        errors.append(error_of({"bootstrap.servers": lines["BOOTSTRAP.PLAINTEXT"]}, "orders"))

    monkeypatch.setattr(endings, "await_end", use)
    options = ["--mechanism", "plain", "--mechanism", "scram-sha-256", "--anonymous"]
    options += ["--user", "job:j-secret", "--topic", "orders"]
    assert cli.main(["serve", "--security", "sasl_plaintext", *options]) == 0
    assert errors == [None, None, None]


# -- what cannot be


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"mechanism": ["PLAIN", "MD5"]}, "mechanism must be one of PLAIN, .*, got 'MD5'"),
        ({"mechanism": ["PLAIN", "PLAIN"]}, "mechanism names PLAIN twice"),
        ({"mechanism": []}, r'mechanism must be a name .* or a list such as \["PLAIN"'),
        ({"mechanism": 5}, "mechanism must be a name .* got 5"),
        ({"mechanism": ["PLAIN", 5]}, "mechanism must be one of PLAIN, .*, got 5"),
        ({"mechanism": "GSSAPI"}, "GSSAPI needs the keytab of a KDC.*sasl.enabled.mechanisms"),
        ({"mechanism": ["PLAIN", "GSSAPI"]}, "GSSAPI needs the keytab"),
        (
            {"protocol": "SSL", "mechanism": "PLAIN", "users": ["alice"]},
            "SSL has no mechanism: certificates are the credentials",
        ),
        ({"anonymous": True, "users": {"ANONYMOUS": "x"}}, "user of clients that do not log in"),
        ({"anonymous": "yes"}, "anonymous must be True or False, got 'yes'"),
        ({"mechanism": ["OAUTHBEARER", "PLAIN"], "users": ["alice"]}, "PLAIN needs passwords"),
        ({"mechanism": ["OAUTHBEARER", "PLAIN"], "users": {"alice": ""}}, "password of user alice"),
        ({"mechanism": ["PLAIN", "SCRAM-SHA-256"], "users": {"Jörg": "x"}}, "SCRAM-SHA-256 are AS"),
    ],
)
def test_a_mistake_is_named_at_once(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Security(**{"users": USERS, **given})


@pytest.mark.parametrize(
    ("given", "config", "complaint"),
    [
        (
            {"anonymous": True},
            {"listeners": "SASL_SSL://:0"},
            "anonymous clients need a listener with PLAINTEXT.*: SASL_SSL speaks SASL_SSL",
        ),
        (
            {},
            {"listeners": "PLAINTEXT://:0", "inter.broker.listener.name": "PLAINTEXT"},
            "no listener speaks SASL_SSL, .*: PLAINTEXT speaks PLAINTEXT",
        ),
        (
            {"mechanism": ["PLAIN", "SCRAM-SHA-256"]},
            {"sasl.enabled.mechanisms": "PLAIN"},
            "no listener has SCRAM-SHA-256, .*: SASL_SSL has PLAIN",
        ),
    ],
)
def test_settings_that_contradict_security_are_named_at_once(
    given: dict[str, Any], config: dict[str, object], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        EmbeddedKafka(security=Security(users=USERS, **given), config=config)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_the_user_of_the_brokers_keeps_the_password_of_the_settings(mechanism: str) -> None:
    """Otherwise brokers could not log in to each other, and would wait for that for ever."""
    name = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    module = f"org.apache.kafka.common.security.{name} required"
    key = f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config"
    config = {key: f'{module} username="admin" password="of the file" user_admin="of the file";'}
    security = Security(
        protocol="SASL_PLAINTEXT", mechanism=mechanism, users={**USERS, "admin": "n-secret"}
    )
    with pytest.raises(ConfigError, match="brokers log in as admin") as refused:
        EmbeddedKafka(security=security, config=config).start()
    assert not re.search("of the file|n-secret", str(refused.value))


def test_a_mechanism_that_a_client_cannot_choose(kafka: EmbeddedKafka) -> None:
    unknown: Any = ["PLAIN"]
    for mechanism in ("GSSAPI", "plain", unknown):
        with pytest.raises(InvalidArgument, match=r"mechanism must be one of PLAIN, .*, got"):
            kafka.client_config("alice", mechanism=mechanism)
    for choose in (kafka.client_config, kafka.existing_topic("orders").spark_options):
        with pytest.raises(InvalidArgument, match="is for a user's clients: name the user"):
            choose(mechanism="PLAIN")
    with (
        EmbeddedKafka(security=Security(protocol="SSL", users=["job"])) as other,
        pytest.raises(InvalidArgument, match="clients show certificates"),
    ):
        other.client_config("job", mechanism="PLAIN")
