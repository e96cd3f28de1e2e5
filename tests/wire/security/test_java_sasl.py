"""The stock Java clients, 3.9 (Spark's) and 4.x, where they must log in."""

import base64
from collections.abc import Callable

import pytest

from tests.java_tools.java_client import JavaClient, JavaError
from tests.wire.clients import eventually
from tests.wire.sasl_cluster import PASSWORD, USER, SaslCluster
from tests.wire.tokens import await_known, create, expire

Unique = Callable[[str], str]

pytestmark = pytest.mark.java

KAFKA = "org.apache.kafka.common.security"


def login(mechanism: str, user: str, password: str, **options: str) -> dict[str, object]:
    """The settings of a Java client that logs in."""
    kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    more = "".join(f' {name}="{value}"' for name, value in options.items())
    module = f'{KAFKA}.{kind}LoginModule required username="{user}" password="{password}"{more};'
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": module,
    }


@pytest.mark.parametrize(
    ("mechanism", "listener"), [("PLAIN", "SASL"), ("SCRAM-SHA-512", "REAUTH")]
)
def test_a_java_client_logs_in_and_moves_records(
    java: JavaClient, sasl_cluster: SaslCluster, unique: Unique, mechanism: str, listener: str
) -> None:
    user, password = (USER, PASSWORD) if mechanism == "PLAIN" else (unique("user"), "p,=ü")
    if mechanism != "PLAIN":
        sasl_cluster.add_user(user, password, mechanism)
    client, address = login(mechanism, user, password), sasl_cluster.listeners[listener]
    topic = unique("topic")
    with java.producer(address, **client) as producer:
        producer.send_one(topic, b"over SASL")
    settings = {**client, "group.id": unique("group"), "auto.offset.reset": "earliest"}
    with java.consumer(address, **settings) as consumer:
        consumer.subscribe(topic)
        assert [record.value for record in consumer.poll()] == [b"over SASL"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_java_client_fails_with_the_brokers_words(
    java: JavaClient, sasl_cluster: SaslCluster, mechanism: str
) -> None:
    client = login(mechanism, "nobody", "wrong")
    with java.admin(sasl_cluster.bootstrap_servers, **client) as admin:
        with pytest.raises(JavaError, match="Authentication failed") as refused:
            admin.call("describeCluster")
        assert refused.value.kind == "SaslAuthenticationException"


def test_a_java_client_logs_in_with_a_delegation_token(
    java: JavaClient, sasl_cluster: SaslCluster
) -> None:
    """As Spark's executors do it."""
    with sasl_cluster.log_in() as alice:
        token = create(alice)
        await_known(alice, token)
        password = base64.b64encode(token.hmac).decode()
        client = login("SCRAM-SHA-512", token.token_id, password, tokenauth="true")
        with java.admin(sasl_cluster.bootstrap_servers, **client) as admin:
            assert admin.call("describeCluster")["nodes"]
        expire(alice, token.hmac)

        def refused() -> str | None:
            with java.admin(sasl_cluster.bootstrap_servers, **client) as admin:
                try:
                    admin.call("describeCluster")
                except JavaError as error:
                    return error.kind
            return None

        assert eventually(refused, "the token has ended") == "SaslAuthenticationException"
