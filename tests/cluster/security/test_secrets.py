"""Passwords and keys stay out of everything that a secured cluster writes or shows."""

import json
import logging
import traceback
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from embedkafka import Acl, EmbeddedKafka, Security
from embedkafka.runtime.failures import EmbedKafkaError

TIMEOUT_S = 30.0
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
ALICE, WRONG, STORE, NEW = "s3cret-of-alice", "s3cret-wrong", "s3cret-of-store", "s3cret-new"


def test_a_failing_run_writes_no_secret(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shown: list[str] = []
    security = Security(users={"alice": ALICE}, acls=[Acl.allow("alice", "READ", topic="orders")])
    with caplog.at_level(logging.DEBUG), EmbeddedKafka(security=security) as kafka:
        kafka.topic("orders").send("first")
        own = kafka.client_config()["sasl.password"]
        admin = AdminClient({**kafka.client_config(), "log_level": 0})
        shown += [fail_to_log_in(kafka), fail_to_write(kafka), *change_secrets(admin)]
        with pytest.raises(EmbedKafkaError) as unread:
            kafka.existing_topic("orders").read(2, timeout_s=0.5)
        shown += [
            str(unread.value),
            repr([kafka.config, kafka, security, kafka._reach.prepared, kafka.topic()]),
            kafka.report(),
            kafka.describe(),
            repr(kafka.requests()),
            "\n".join(map(str, kafka.requests())),
            described(admin),
            page_of(kafka),
        ]
        key = Path(str(kafka.certificates_dir), "embedkafka.pem").read_text().splitlines()[1]
    captured = capfd.readouterr()
    everything = "\n".join([*shown, caplog.text, captured.out, captured.err])
    assert "orders" in everything
    for secret in (ALICE, WRONG, STORE, NEW, own, key, "s3cret"):
        assert secret not in everything


def fail_to_log_in(kafka: EmbeddedKafka) -> str:
    config: dict[str, Any] = {**kafka.client_config("alice"), "sasl.password": WRONG}
    with pytest.raises(KafkaException) as refused:
        AdminClient({**config, "log_level": 0}).list_topics(timeout=2)
    return str(refused.value)


def fail_to_write(kafka: EmbeddedKafka) -> str:
    errors: list[object] = []
    producer = Producer({**kafka.client_config("alice"), "log_level": 0})
    producer.produce("orders", b"x", on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert errors[0] is not None
    return str(errors[0])


def change_secrets(admin: AdminClient) -> list[str]:
    """Sets a password of a store, which is refused, logins of listeners, and a user's password."""
    prefix = "listener.name.sasl_ssl."
    module = f'org.apache.kafka.common.security.scram.ScramLoginModule required x="{STORE}";'
    with pytest.raises(KafkaException, match="holds PEM, which has none") as refused:
        alter(admin, f"{prefix}ssl.keystore.password", STORE)
    alter(admin, "sasl.jaas.config", module)
    alter(admin, f"{prefix}scram-sha-512.sasl.jaas.config", module)
    alter(admin, f"{prefix}unknown", STORE)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    user = UserScramCredentialUpsertion("bob", info, NEW.encode())
    for future in admin.alter_user_scram_credentials([user]).values():
        future.result(TIMEOUT_S)
    return [str(refused.value)]


def alter(admin: AdminClient, name: str, value: str) -> None:
    change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[change])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)


def described(admin: AdminClient) -> str:
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    entries = [
        entry
        for one in future.result(TIMEOUT_S).values()
        for entry in (one, *one.synonyms.values())
    ]
    return repr([(entry.name, entry.value) for entry in entries])


def page_of(kafka: EmbeddedKafka) -> str:
    """What the live page is made of."""
    with kafka.open_ui(browser=False) as page:
        return json.dumps(page._source.document(), default=str)


@pytest.mark.parametrize(
    "setting",
    [
        {"listener.name.sasl.plain.sasl.jaas.config": f'no.Such required password="{STORE}";'},
        {"listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN} required user_a="{STORE}'},
        {"listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN} {STORE} user_a="{STORE}";'},
        {"listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN} required password="{STORE}";'},
        {"sasl.jaas.config": STORE},
        {"ssl.keystore.type": "PEM", "ssl.keystore.key": STORE, "ssl.key.password": STORE},
        {
            "ssl.keystore.key": STORE,
            "ssl.keystore.certificate.chain": STORE,
            "ssl.key.password": STORE,
        },
        {"ssl.truststore.certificates": STORE},
    ],
)
def test_no_error_about_a_setting_holds_its_value(setting: dict[str, str]) -> None:
    config = {
        "listeners": "SASL://:0",
        "listener.security.protocol.map": "SASL:SASL_SSL",
        "inter.broker.listener.name": "SASL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        **setting,
    }
    with pytest.raises(EmbedKafkaError) as refused:
        EmbeddedKafka(config=config).start()
    assert "s3cret" not in "".join(traceback.format_exception(refused.value))
