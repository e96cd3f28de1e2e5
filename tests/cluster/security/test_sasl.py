"""Clusters whose brokers and clients log in with SASL."""

import logging
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from embedkafka import ConfigError, EmbeddedKafka, InvalidArgument
from embedkafka.wire.protocol.errors import ErrorCode
from tests.wire.clients import eventually
from tests.wire.sasl_cluster import SaslCluster, unsecured_token
from tests.wire.tokens import create, describe, log_in

SECURITY = "org.apache.kafka.common.security"
SECRET = "s3cret"
WAIT_S = 30

JAAS = {
    "PLAIN": f'{SECURITY}.plain.PlainLoginModule required username="admin" password="{SECRET}"'
    f' user_admin="{SECRET}";',
    "SCRAM-SHA-512": f'{SECURITY}.scram.ScramLoginModule required username="admin"'
    f' password="{SECRET}";',
    "OAUTHBEARER": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required"
    ' unsecuredLoginStringClaim_sub="admin";',
}


def settings(mechanism: str) -> dict[str, Any]:
    """Everything over one listener, where brokers log in as well."""
    return {
        "listeners": "SASL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL",
        "sasl.enabled.mechanisms": f"{mechanism},PLAIN" if mechanism != "PLAIN" else "PLAIN",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "listener.name.sasl.plain.sasl.jaas.config": JAAS["PLAIN"],
        f"listener.name.sasl.{mechanism.lower()}.sasl.jaas.config": JAAS[mechanism],
    }


def client(kafka: EmbeddedKafka, mechanism: str = "PLAIN") -> dict[str, Any]:
    return {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "admin",
        "sasl.password": SECRET,
    }


@pytest.mark.parametrize("mechanism", JAAS)
def test_brokers_log_in_to_each_other(mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    """The controller elects leaders, and transactions need markers on other brokers."""
    caplog.set_level(logging.DEBUG)
    with EmbeddedKafka(brokers=3, config=settings(mechanism)) as kafka:
        admin = AdminClient(client(kafka))
        admin.create_topics([NewTopic("orders", 6, 2)])["orders"].result(WAIT_S)
        producer = Producer({**client(kafka), "transactional.id": "t"})
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        for partition in range(6):
            producer.produce("orders", b"x", partition=partition)
        producer.commit_transaction(WAIT_S)
        consumer = Consumer({**client(kafka), "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        assert len(consumer.consume(6, WAIT_S)) == 6
        consumer.close()
    assert SECRET not in caplog.text


def test_a_restarted_broker_knows_the_users() -> None:
    with EmbeddedKafka(brokers=2, config=settings("SCRAM-SHA-512")) as kafka:
        kafka.broker(1).restart()
        kafka.broker(2).kill()
        kafka.broker(2).start()
        admin = AdminClient(client(kafka, "SCRAM-SHA-512"))
        assert len(admin.list_topics(timeout=WAIT_S).brokers) == 2


def test_a_broker_without_zookeeper_still_knows_the_users() -> None:
    with EmbeddedKafka(brokers=2, config=settings("SCRAM-SHA-512")) as kafka:
        kafka.brokers.partition({1, 2}, zookeeper={2})
        address = kafka.bootstrap_servers.split(",")[0]
        admin = AdminClient({**client(kafka, "SCRAM-SHA-512"), "bootstrap.servers": address})
        assert admin.list_topics(timeout=WAIT_S).brokers


def test_bad_settings_are_reported_at_the_start_and_leave_nothing_behind() -> None:
    bad = {**settings("PLAIN"), "listener.name.sasl.plain.sasl.jaas.config": f"X required {SECRET}"}
    with pytest.raises(ConfigError, match=r"sasl\.plain\.sasl\.jaas\.config: ") as refused:
        EmbeddedKafka(config=bad).start()
    assert SECRET not in str(refused.value)


def test_a_changed_login_holds_from_the_next_start_of_the_broker() -> None:
    """As in Kafka, whose running listeners keep theirs (`test_listener_settings.py`)."""
    key = "listener.name.sasl.plain.sasl.jaas.config"
    with EmbeddedKafka(config=settings("PLAIN")) as kafka:
        admin = AdminClient(client(kafka))
        job = {**client(kafka), "sasl.username": "job", "sasl.password": "j", "log_level": 0}
        alter(admin, key, JAAS["PLAIN"].replace(";", ' user_job="j";'))
        with pytest.raises(KafkaException):
            AdminClient(job).list_topics(timeout=1)
        kafka.broker(1).restart()
        assert AdminClient(job).list_topics(timeout=WAIT_S).brokers
        alter(admin, key, "nonsense")
        kafka.broker(1).restart()  # goes by its own settings
        assert admin.list_topics(timeout=WAIT_S).brokers


def alter(admin: AdminClient, name: str, value: str) -> None:
    change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[change])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(WAIT_S)


# What a test can take away.


def produced(kafka: EmbeddedKafka, settings: dict[str, Any]) -> tuple[Producer, list[KafkaError]]:
    """A producer that has delivered a record, and the errors it gets from now on."""
    errors: list[KafkaError] = []
    quick: dict[str, Any] = {"error_cb": errors.append, "log_level": 0, "reconnect.backoff.ms": 10}
    producer = Producer({**settings, **quick})
    producer.poll(0)
    producer.produce("orders", b"before")
    assert producer.flush(WAIT_S) == 0
    return producer, errors


def await_refusal(producer: Producer, errors: list[KafkaError]) -> str:
    def refused() -> str | None:
        producer.produce("orders", b"after")
        producer.poll(0.1)
        found = (one for one in errors if one.code() == KafkaError._AUTHENTICATION)
        return next((one.str() for one in found), None)

    message: str = eventually(refused, "librdkafka hears that it may not log in")
    producer.purge()
    producer.flush(WAIT_S)
    return message


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_revoked_credential_reaches_a_running_client(mechanism: str) -> None:
    plain = JAAS["PLAIN"].replace(";", ' user_job="j";')
    config = {
        **settings(mechanism),
        "listener.name.sasl.plain.sasl.jaas.config": plain,
        "auto.create.topics.enable": True,
    }
    with EmbeddedKafka(config=config) as kafka:
        if mechanism != "PLAIN":
            kafka.logins.set_password("job", "j", mechanism)
        job = {**client(kafka, mechanism), "sasl.username": "job", "sasl.password": "j"}
        producer, errors = produced(kafka, job)
        kafka.logins.revoke("job")
        assert "Authentication failed" in await_refusal(producer, errors)
        admin = AdminClient(client(kafka))
        assert admin.list_topics(timeout=WAIT_S).brokers, "other users go on"
        with pytest.raises(InvalidArgument, match="'job' has no credentials"):
            kafka.logins.revoke("job")


def test_a_bearer_token_that_expires_reaches_a_running_client() -> None:
    """On the cluster's clock: the client still thinks that its token is good."""
    config = {**settings("OAUTHBEARER"), "auto.create.topics.enable": True}
    with EmbeddedKafka(config=config) as kafka:
        job: dict[str, Any] = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (unsecured_token(), time.time() + 3600),
        }
        producer, errors = produced(kafka, job)
        kafka.clock.advance(hours=2)
        assert "invalid_token" in await_refusal(producer, errors)


def test_expired_delegation_tokens_end_the_connections_that_used_them() -> None:
    config = {**settings("SCRAM-SHA-512"), "delegation.token.secret.key": SECRET}
    with EmbeddedKafka(config=config) as kafka:
        sasl = SaslCluster(kind="embedded", listeners=kafka.listeners)
        with sasl.log_in(user="admin", password=SECRET) as admin:
            token = create(admin)
            job, answer = log_in(sasl, token.token_id, token.hmac, "SCRAM-SHA-512")
            with job:
                assert answer.error_code == 0
                kafka.logins.expire_tokens("admin")
                with pytest.raises(ConnectionError):
                    job.receive_frame()
            again, answer = log_in(sasl, token.token_id, token.hmac, "SCRAM-SHA-512")
            again.close()
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert describe(admin) == {}, "the owner's own connection stays"
        with pytest.raises(InvalidArgument, match="'admin' has no delegation tokens"):
            kafka.logins.expire_tokens("admin")


def test_tokens_are_removed_when_they_expire_on_the_clusters_clock() -> None:
    config = {**settings("SCRAM-SHA-512"), "delegation.token.secret.key": SECRET}
    with EmbeddedKafka(config=config) as kafka:
        sasl = SaslCluster(kind="embedded", listeners=kafka.listeners)
        with sasl.log_in(user="admin", password=SECRET) as admin:
            create(admin)
        kafka.clock.advance(days=1, hours=2)  # closes idle connections as well
        with sasl.log_in(user="admin", password=SECRET) as admin:
            eventually(lambda: describe(admin) == {}, "the controller removes the token")


def test_a_cluster_without_sasl_has_no_logins() -> None:
    with EmbeddedKafka() as kafka, pytest.raises(ConfigError, match="asks for SASL"):
        kafka.logins.revoke("alice")
