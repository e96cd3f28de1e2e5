"""`EmbeddedKafka(security=...)`: everything a user needs, from one argument."""

import socket
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from embedkafka import Acl, EmbeddedKafka, InvalidArgument, Security
from embedkafka.cluster.access.sasl_settings import BROKERS_USER
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.properties import parse_properties
from embedkafka.spark.client_settings import translate_properties
from tests.presence import present

TIMEOUT_S = 30.0
PASSWORDS = {"alice": 'a "quoted\\ secret', "job": "j-secret"}
KINDS: dict[str, dict[str, Any]] = {
    "mutual TLS": {"protocol": "SSL", "users": ["alice", "job"]},
    "SCRAM over TLS": {"users": PASSWORDS},
    "SCRAM-SHA-256": {
        "protocol": "SASL_PLAINTEXT",
        "mechanism": "SCRAM-SHA-256",
        "users": PASSWORDS,
    },
    "PLAIN": {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "users": PASSWORDS},
    "unsecured tokens": {"mechanism": "OAUTHBEARER", "users": ["alice", "job"]},
}


@pytest.fixture(scope="module", params=KINDS)
def kafka(request: pytest.FixtureRequest) -> Iterator[EmbeddedKafka]:
    security = Security(**KINDS[request.param])
    with EmbeddedKafka(brokers=2, security=security, topics={"early": 1}) as cluster:
        yield cluster


def test_a_user_logs_in_with_the_clients_own_settings(kafka: EmbeddedKafka) -> None:
    producer = Producer({**kafka.client_config("alice"), "log_level": 0})
    producer.produce("early", b"from alice")
    assert producer.flush(TIMEOUT_S) == 0
    assert b"from alice" in [message.value for message in kafka.existing_topic("early").read(1)]
    consumer = Consumer({**kafka.client_config("job"), "group.id": "g", "log_level": 0})
    assert "early" in consumer.list_topics(timeout=TIMEOUT_S).topics
    consumer.close()


def test_a_fault_can_be_for_one_user(kafka: EmbeddedKafka) -> None:
    alice, job = (
        Producer({**kafka.client_config(user), "log_level": 0, "retries": 0})
        for user in ("alice", "job")
    )
    with kafka.faults.error("Produce", "INVALID_RECORD", user="alice", times=None) as fault:
        assert "user='alice'" in str(fault)
        assert produced(alice) == KafkaError.INVALID_RECORD
        assert produced(job) is None
        assert kafka.existing_topic("early").send("the cluster's own").offset >= 0
        assert fault.hits == 1
    assert produced(alice) is None


def produced(producer: Producer) -> int | None:
    """The error that a client was answered with, if any."""
    codes: list[int | None] = []

    def on_answer(error: KafkaError | None, _: object) -> None:
        codes.append(None if error is None else error.code())

    producer.produce("early", b"x", on_delivery=on_answer)
    assert producer.flush(TIMEOUT_S) == 0
    return codes[0]


def test_the_librarys_own_helpers_need_no_further_words(kafka: EmbeddedKafka) -> None:
    orders = kafka.topic("orders", partitions=2, replication=2)
    orders.send("first")
    assert [message.text for message in orders.read(1)] == ["first"]
    report = kafka.report()
    assert "orders" in report
    assert "does not answer" not in report
    kafka.broker(2).restart()
    orders.await_isr(0, size=2)
    orders.move_leader(0, to=2)
    assert orders.send("second", partition=0).offset >= 0
    orders.delete()


def test_a_file_for_java_holds_the_same_as_the_settings_for_librdkafka(
    kafka: EmbeddedKafka,
) -> None:
    properties = parse_properties(Path(kafka.java_properties("alice")).read_text())
    settings = translate_properties(properties)
    assert settings.bootstrap_servers == kafka.bootstrap_servers
    assert {**settings.librdkafka, "bootstrap.servers": kafka.bootstrap_servers} == (
        kafka.client_config("alice")
    )
    options = kafka.existing_topic("early").spark_options(user="alice")
    assert settings.spark_options.items() <= options.items()
    assert options["kafka.bootstrap.servers"] == kafka.bootstrap_servers


def test_a_stranger_is_refused(kafka: EmbeddedKafka) -> None:
    config = kafka.client_config("alice")
    stranger = {
        name: value
        for name, value in config.items()
        if not name.startswith(("ssl.certificate", "ssl.key", "enable.sasl"))
    }
    if "sasl.password" in stranger:
        stranger["sasl.password"] = "wrong"
    if "sasl.oauthbearer.config" in stranger:
        pytest.skip("every unsecured token is accepted")
    admin = AdminClient({**stranger, "log_level": 0, "socket.timeout.ms": 2000})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)


def test_unknown_users_are_named_with_those_that_there_are(kafka: EmbeddedKafka) -> None:
    with pytest.raises(InvalidArgument, match=r"'bob' are not known here, only .*: alice, job"):
        kafka.client_config("bob")


def test_the_clients_of_a_plain_cluster_are_nobody() -> None:
    with EmbeddedKafka() as kafka:
        assert kafka.client_config() == {"bootstrap.servers": kafka.bootstrap_servers}
        with pytest.raises(InvalidArgument, match="this cluster has no users"):
            kafka.client_config("alice")


def test_a_reset_leaves_the_users_of_the_start_and_no_others() -> None:
    security = Security(protocol="SASL_PLAINTEXT", users=PASSWORDS)
    with EmbeddedKafka(brokers=2, security=security) as kafka:
        kafka.logins.revoke("alice")
        kafka.logins.set_password("job", "another")
        kafka.logins.set_password("stranger", "s-secret")
        kafka.reset()
        for user in PASSWORDS:
            admin: Any = AdminClient({**kafka.client_config(user), "log_level": 0})
            described = admin.describe_user_scram_credentials().result(TIMEOUT_S)
        assert sorted(set(described) - {BROKERS_USER}) == sorted(PASSWORDS)
        kafka.broker(2).restart()  # brokers still log in to each other
        kafka.topic("orders", replication=2).send("after the reset")


def test_users_are_found_again_in_a_directory_that_was_kept(tmp_path: Path) -> None:
    security = Security(protocol="SASL_PLAINTEXT", users=PASSWORDS)
    for _ in range(2):
        with EmbeddedKafka(security=security, data_dir=tmp_path) as kafka:
            admin = AdminClient({**kafka.client_config("alice"), "log_level": 0})
            assert admin.list_topics(timeout=TIMEOUT_S).brokers


def test_a_server_properties_file_that_secures_kafka_secures_a_cluster(tmp_path: Path) -> None:
    """With the users and the login of brokers in JAAS, as Kafka's documentation has it."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config = {
        "listeners": "SAFE://:0,INTERNAL://:0",
        "listener.security.protocol.map": "SAFE:SASL_PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.safe.plain.sasl.jaas.config": (
            f'{module} required username="admin" password="x" user_admin="x" user_alice="a-secret";'
        ),
    }
    with EmbeddedKafka(config=config) as kafka:
        kafka.topic("orders").send("over the plain listener")
        alice = kafka.client_config("alice")
        assert alice["bootstrap.servers"] == kafka.listeners["SAFE"]
        assert AdminClient({**alice, "log_level": 0}).list_topics(timeout=TIMEOUT_S).brokers
        assert kafka.client_config()["bootstrap.servers"] == kafka.listeners["INTERNAL"]


def test_the_settings_may_add_listeners_to_those_of_security() -> None:
    config = {
        "listeners": "SASL_PLAINTEXT://:0,INSIDE://:0",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,INSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    security = Security(protocol="SASL_PLAINTEXT", users=PASSWORDS)
    with EmbeddedKafka(security=security, config=config) as kafka:
        assert list(kafka.listeners) == ["SASL_PLAINTEXT", "INSIDE"]
        kafka.topic("orders").send("over the inner listener")
        assert written(kafka, "alice", "orders") is None


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"protocol": "TLS"}, "protocol must be one of SSL, SASL_PLAINTEXT, SASL_SSL, got 'TLS'"),
        ({"protocol": "PLAINTEXT"}, "leave out `security` for plain text"),
        ({"mechanism": "MD5"}, "mechanism must be one of PLAIN, SCRAM"),
        ({"users": "alice"}, "users must be a mapping"),
        ({"users": ["alice"]}, "SCRAM-SHA-512 needs passwords"),
        ({"users": {"alice": ""}}, "the password of user alice must be a text"),
        ({"users": {"": "x"}}, "the name of a user"),
        ({"users": {"embedkafka": "x"}}, "is the user that brokers log in as"),
        ({"super_users": "alice"}, "super_users must be a list"),
        ({"super_users": ["a;User:b"]}, "has one"),
        ({"users": {"a\nb": "x"}}, "has a character that cannot be shown"),
        (
            {"users": {"Jörg": "x"}},
            "user Jörg could never log in: names in SCRAM-SHA-512 are ASCII",
        ),
    ],
)
def test_a_mistake_is_named_at_once(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Security(**given)


def test_security_must_be_a_security() -> None:
    with pytest.raises(ConfigError, match="security must be Security"):
        EmbeddedKafka(security="SASL_SSL")  # type: ignore[arg-type]


def test_no_repr_holds_a_password() -> None:
    security = Security(users=PASSWORDS)
    kafka = EmbeddedKafka(security=security)
    assert "secret" not in f"{security!r} {kafka.config!r} {kafka!r}"


def test_acls_hold_for_users_and_not_for_the_librarys_own_helpers() -> None:
    security = Security(
        protocol="SASL_PLAINTEXT",
        users=PASSWORDS,
        acls=[Acl.allow("alice", "WRITE", topic="orders")],
        super_users=["job"],
    )
    with EmbeddedKafka(brokers=2, security=security, topics={"orders": 1}) as kafka:
        assert written(kafka, "alice", "orders") is None
        kafka.topic("secrets").send("the library may")
        refused = written(kafka, "alice", "secrets")
        assert refused is not None
        assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert written(kafka, "job", "secrets") is None
        report = kafka.report()
        assert "User:alice" in report
        assert "secrets" in report
        assert "does not answer" not in report


def test_the_name_in_a_certificate_is_that_of_the_acls() -> None:
    acls = [Acl.allow("alice", "ALL", topic="orders")]
    security = Security(protocol="SSL", users=["alice", "job"], acls=acls)
    with EmbeddedKafka(security=security, topics={"orders": 1}) as kafka:
        assert written(kafka, "alice", "orders") is None
        refused = written(kafka, "job", "orders")
        assert refused is not None
        assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def written(kafka: EmbeddedKafka, user: str, topic: str) -> KafkaError | None:
    """Writes a record as `user`; returns the error that it met."""
    producer = Producer({**kafka.client_config(user), "log_level": 0})
    return error_of(producer, topic)


def error_of(producer: Producer, topic: str) -> KafkaError | None:
    """Writes a record; returns the error that it met."""
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"x", on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    return errors[0]


NAMES = [
    "brokers",
    "trusted",
    "ca",
    "cluster",
    "../../x",
    "a/b",
    "a,b",
    "a,c",
    "Jörg",
    "Job",
    "job",
]
NAMES += ["n" * 300, "ö" * 40, 'q"uote\\', "$1", " x ", "CN=embedkafka"]


def test_every_name_of_a_certificate_has_its_own_key_and_acls() -> None:
    acls = [Acl.allow(name, "WRITE", topic=f"of-{number}") for number, name in enumerate(NAMES)]
    security = Security(protocol="SSL", users=NAMES, acls=acls)
    topics = {f"of-{number}": 1 for number in range(len(NAMES))}
    with EmbeddedKafka(security=security, topics=topics) as kafka:
        for number, name in enumerate(NAMES):
            assert written(kafka, name, f"of-{number}") is None
            other = written(kafka, name, f"of-{number - 1}" if number else "of-1")
            assert other is not None
            assert other.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        keys = {kafka.client_config(name)["ssl.key.location"] for name in NAMES}
        properties = {kafka.java_properties(name) for name in [*NAMES, None]}
        assert len({one.lower() for one in keys}) == len(NAMES)
        assert len({one.lower() for one in properties}) == len(NAMES) + 1
        made = Path(str(kafka.certificates_dir))
        assert {Path(key).parent for key in keys} == {made / "users"}
        for file in [*map(Path, properties), *made.rglob("*.pem")]:
            assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_brokers_share_what_they_make_of_unknown_users_and_clients_cannot_reckon_it() -> None:
    security = Security(protocol="SASL_PLAINTEXT", users={"job": "x"})
    secrets, passwords = set(), set()
    for _ in range(2):
        with EmbeddedKafka(brokers=2, security=security, seed=1) as kafka:
            brokers = [one.require_broker() for one in kafka._require_brokers().all()]
            (secret,) = {present(one.authentication)._credentials.decoy_secret for one in brokers}
            secrets.add(secret)
            passwords.add(present(kafka._reach.prepared).password)
    assert len(secrets) == len(passwords) == 2


def test_every_name_of_plain_logs_in() -> None:
    users = {
        name: f"secret of {name}" for name in NAMES if name == name.strip()
    }  # librdkafka trims
    security = Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", users=users)
    with EmbeddedKafka(security=security, topics={"orders": 1}) as kafka:
        for name in users:
            assert written(kafka, name, "orders") is None


def test_acls_without_users_are_for_anonymous_clients() -> None:
    acls = [Acl.allow("ANONYMOUS", "WRITE", topic="orders")]
    with EmbeddedKafka(brokers=2, security=Security(protocol="SSL", acls=acls)) as kafka:
        kafka.topic("orders", replication=2)
        kafka.topic("secrets").send("the library may")
        settings = {"security.protocol": "SSL", "log_level": 0}
        settings |= {"ssl.ca.location": f"{kafka.certificates_dir}/ca.pem"}
        stranger = Producer({"bootstrap.servers": kafka.bootstrap_servers, **settings})
        assert error_of(stranger, "orders") is None
        refused = error_of(stranger, "secrets")
        assert refused is not None
        assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_first_request_over_tls_is_no_longer_than_any_other() -> None:
    security = Security(protocol="SSL", users=["job"])
    with EmbeddedKafka(security=security, config={"socket.request.max.bytes": 1000}) as kafka:
        settings = kafka.client_config("job")
        context = ssl.create_default_context(cafile=settings["ssl.ca.location"])
        context.load_cert_chain(settings["ssl.key.location"])
        host, port = kafka.bootstrap_servers.split(":")
        with (
            socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as stream,
        ):
            stream.sendall((1001).to_bytes(4))
            assert stream.recv(1) == b""
