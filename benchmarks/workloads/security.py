"""What encryption and permissions cost: produce and consume over TLS, and as a user with ACLs.

Clients of the first listener are anonymous super users: the rows to compare with.
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from benchmarks.clients import (
    DEADLINE_SECONDS,
    admin,
    consume_many,
    create_topic,
    new_consumer,
    produce_many,
)
from benchmarks.rivals.rival import Meter, Rival
from benchmarks.rows import Row, Scale

#: Listeners beside the first, and what they speak.
LISTENERS: Final = {"TLS": "SSL", "LOGIN": "SASL_PLAINTEXT"}
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


def config() -> Mapping[str, object]:
    """Settings of a broker with these listeners, a certificate and an authorizer."""
    files = _certificates()
    protocols = {"PLAINTEXT": "PLAINTEXT", **LISTENERS, "CONTROLLER": "PLAINTEXT"}
    return {
        "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files / "broker.pem",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f'{_PLAIN} required user_job="secret";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


@cache
def _certificates() -> Path:
    from embedkafka.security.certificates import CertificateAuthority

    directory = Path(tempfile.mkdtemp(prefix="ek-benchmark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    authority = CertificateAuthority(datetime.now(UTC))
    (directory / "ca.pem").write_text(authority.trusted)
    (directory / "broker.pem").write_text(authority.issue("broker", ["127.0.0.1"]))
    return directory


def _over_tls(rival: Rival) -> dict[str, object]:
    return {
        "bootstrap.servers": rival.listeners["TLS"],
        "security.protocol": "SSL",
        "ssl.ca.location": str(_certificates() / "ca.pem"),
    }


def _as_user(rival: Rival) -> dict[str, object]:
    return {
        "bootstrap.servers": rival.listeners["LOGIN"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "job",
        "sasl.password": "secret",
    }


def produce_over_tls(rival: Rival, scale: Scale) -> Iterator[Row]:
    topic = create_topic(rival)
    yield from _produced("produce over TLS", rival, scale, topic, _over_tls(rival))


def consume_over_tls(rival: Rival, scale: Scale) -> Iterator[Row]:
    topic = create_topic(rival)
    produce_many(rival, topic, scale.records)
    with Meter(rival) as spent:
        consumer = new_consumer(rival, settings=_over_tls(rival))
        consumer.assign([TopicPartition(topic, 0, 0)])
        consume_many(consumer, scale.records)
    consumer.close()
    yield from _rows("consume over TLS", spent, scale)


def produce_with_permission(rival: Rival, scale: Scale) -> Iterator[Row]:
    """As a user whose every request is checked against a hundred ACLs."""
    topic = create_topic(rival)
    _grant(rival, [topic, *(f"{topic}-{number}" for number in range(99))])
    yield from _produced("produce with ACLs", rival, scale, topic, _as_user(rival))


def _produced(
    name: str, rival: Rival, scale: Scale, topic: str, settings: Mapping[str, object]
) -> Iterator[Row]:
    with Meter(rival) as spent:
        produce_many(rival, topic, scale.records, settings=settings)
    yield from _rows(name, spent, scale)


def _rows(name: str, spent: Meter, scale: Scale) -> Iterator[Row]:
    yield Row(name=f"{name} records/s", value=scale.records / spent.seconds, more_is_better=True)
    yield Row(name=f"{name} broker CPU s/M", value=spent.cpu_seconds / scale.records * 1e6)


def _grant(rival: Rival, topics: list[str]) -> None:
    acls = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:job",
            "*",
            AclOperation.WRITE,
            AclPermissionType.ALLOW,
        )
        for topic in topics
    ]
    client = admin(rival)
    for created in client.create_acls(acls).values():
        created.result(DEADLINE_SECONDS)
