"""Clusters whose listeners speak TLS, with stock clients."""

import logging
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
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

from embedkafka import ConfigWarning, EmbeddedKafka, Security
from embedkafka.runtime.addresses import parse_address
from embedkafka.runtime.failures import ConfigError
from embedkafka.security.certificates import CertificateAuthority
from tests.presence import present
from tests.wire.clients import eventually

AUTHORITY = CertificateAuthority(datetime.now(UTC))
HOSTS = ["127.0.0.1", "localhost"]
TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    (directory / "ca.pem").write_text(AUTHORITY.trusted)
    (directory / "broker.pem").write_text(AUTHORITY.issue("broker", HOSTS))
    (directory / "alice.pem").write_text(AUTHORITY.issue("alice"))
    return directory


def settings(files: Path, **more: Any) -> dict[str, Any]:
    return {
        "listeners": "SSL://:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files / "broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files / "ca.pem",
        **more,
    }


@pytest.fixture(scope="module")
def kafka(files: Path) -> Iterator[EmbeddedKafka]:
    """Two brokers with a plain listener and one that asks for certificates."""
    both = {"listeners": "PLAINTEXT://:0,SSL://:0", "security.inter.broker.protocol": "SSL"}
    with EmbeddedKafka(
        brokers=2, config=settings(files, **both, **{"ssl.client.auth": "required"})
    ) as cluster:
        cluster.topic("orders", partitions=2, replication=2)
        yield cluster


def client(kafka: EmbeddedKafka, files: Path, user: str | None = "alice") -> dict[str, Any]:
    config = {
        "bootstrap.servers": kafka.listeners["SSL"],
        "security.protocol": "SSL",
        "ssl.ca.location": str(files / "ca.pem"),
        "log_level": 0,
    }
    if user is not None:
        pem = str(files / f"{user}.pem")
        config |= {"ssl.certificate.location": pem, "ssl.key.location": pem}
    return config


def test_clients_write_and_read_large_records_over_tls(kafka: EmbeddedKafka, files: Path) -> None:
    producer = Producer({**client(kafka, files), "acks": "all"})
    values = [bytes([number]) * 300_000 for number in range(20)]
    for value in values:
        producer.produce("orders", value, partition=value[0] % 2)
    assert producer.flush(TIMEOUT_S) == 0
    config = {"group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({**client(kafka, files), **config})
    consumer.subscribe(["orders"])
    received: list[bytes] = []

    def has_all() -> bool:
        received.extend(present(message.value()) for message in consumer.consume(20, 0.1))
        return len(received) >= len(values)

    eventually(has_all, "all records were read")
    consumer.close()
    assert sorted(received) == sorted(values)


@pytest.mark.parametrize(
    ("listener", "protocol", "reason"),
    [
        ("SSL", "PLAINTEXT", "it speaks plain text, and this listener speaks TLS"),
        ("PLAINTEXT", "SSL", "it speaks TLS, and this listener does not"),
        ("SSL", "SSL", "its TLS handshake failed: peer did not return a certificate"),
    ],
)
def test_a_client_with_the_wrong_settings_is_refused_with_one_clear_line(
    kafka: EmbeddedKafka,
    files: Path,
    caplog: pytest.LogCaptureFixture,
    listener: str,
    protocol: str,
    reason: str,
) -> None:
    config = {
        **client(kafka, files, user=None),
        "bootstrap.servers": kafka.listeners[listener].split(",")[0],
        "security.protocol": protocol,
    }
    producer = Producer(config)

    def is_logged() -> bool:
        producer.poll(0.01)
        return reason in caplog.text

    with caplog.at_level(logging.WARNING, "embedkafka"):
        eventually(is_logged, "the broker logs it")
        assert caplog.text.count(reason) == 1


def test_certificates_are_replaced_while_brokers_run(files: Path, tmp_path: Path) -> None:
    with EmbeddedKafka(config=settings(files, **{"ssl.client.auth": "none"})) as kafka:
        before = served_certificate(kafka)
        new = tmp_path / "new.pem"
        new.write_text(AUTHORITY.issue("broker", HOSTS))
        admin = AdminClient(client(kafka, files, user=None))
        alter(admin, "listener.name.ssl.ssl.keystore.location", str(new))
        eventually(lambda: served_certificate(kafka) != before, "the new certificate is served")
        for name, value, complaint in (
            ("listener.name.ssl.ssl.keystore.location", "nowhere", "nowhere cannot be read"),
            ("ssl.keystore.location", str(new), "only per-listener using the listener prefix"),
            ("listener.name.ssl.num.network.threads", "4", "all listeners share"),
        ):
            with pytest.raises(KafkaException, match=complaint):
                alter(admin, name, value)


def alter(admin: AdminClient, name: str, value: str) -> None:
    change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[change])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)


def served_certificate(kafka: EmbeddedKafka) -> str:
    return ssl.get_server_certificate(parse_address(kafka.bootstrap_servers))


def test_a_listener_without_a_key_is_refused() -> None:
    config = {"listeners": "SSL://:0", "security.inter.broker.protocol": "SSL"}
    with pytest.raises(ConfigError, match=r"SSL speaks TLS and needs a key: set ssl\.keystore"):
        EmbeddedKafka(config=config).start()


def test_clients_cannot_connect_while_the_certificate_has_expired() -> None:
    errors: list[KafkaError] = []

    def ssl_errors() -> list[KafkaError]:
        admin.poll(0.1)
        return [error for error in errors if error.code() == KafkaError._SSL]

    security = Security(protocol="SSL", users=["job"], acls=[])
    with EmbeddedKafka(brokers=2, security=security, topics={"orders": 2}) as kafka:
        settings: Any = {
            "log_level": 0,
            "error_cb": errors.append,
        }  # Any: the types know no callback
        admin: Any = AdminClient({**kafka.client_config("job"), **settings})
        assert admin.list_topics(timeout=TIMEOUT_S).brokers
        kafka.logins.expire_certificates()
        refused = eventually(ssl_errors, "the client has noticed")
        assert "certificate" in refused[0].str()
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1)
        kafka.broker(2).restart()
        kafka.brokers.await_all()  # brokers and their controller go on
        kafka.logins.renew_certificates()
        assert admin.list_topics(timeout=TIMEOUT_S).brokers
        kafka.logins.expire_certificates()
        kafka.reset()
        assert admin.list_topics(timeout=TIMEOUT_S).brokers


OLD_AND_NEW = ["TLSv1.2", "TLSv1.1", "TLSv1"]


def test_versions_that_are_too_old_are_left_out_with_a_warning(files: Path) -> None:
    config = settings(files, **{"ssl.enabled.protocols": OLD_AND_NEW})
    with pytest.warns(
        ConfigWarning, match=r"protocols: TLSv1\.1, TLSv1 are left out, only TLSv1\.2"
    ):
        kafka = EmbeddedKafka(config=config)
    trusting = ssl.create_default_context(cafile=str(files / "ca.pem"))
    with kafka:
        host, port = parse_address(kafka.bootstrap_servers)
        with (
            socket.create_connection((host, port), TIMEOUT_S) as plain,
            trusting.wrap_socket(plain, server_hostname=host) as connected,
        ):
            assert connected.version() == "TLSv1.2"


@pytest.mark.filterwarnings("ignore::embedkafka.ConfigWarning")
@pytest.mark.parametrize("versions", ["TLSv1.1,TLSv1", "TLSv1.2,TLSv9", "TLSv1.2,tlsv1.3"])
def test_versions_that_leave_none_or_that_nobody_knows_are_refused(
    files: Path, versions: str
) -> None:
    config = settings(files, **{"ssl.enabled.protocols": versions})
    with pytest.raises(ConfigError, match=r"ssl\.enabled\.protocols: .* is not supported, only"):
        EmbeddedKafka(config=config).start()


def test_problems_with_certificates_and_logins_are_in_one_error() -> None:
    config = {"listeners": "SASL_SSL://:0", "security.inter.broker.protocol": "SASL_SSL"}
    with pytest.raises(ConfigError) as refused:
        EmbeddedKafka(config=config).start()
    login, certificate = refused.value.problems
    assert "sasl" in login
    assert "set ssl.keystore.location" in certificate
