"""The Java client's properties as librdkafka and Spark take them."""

import pytest
from confluent_kafka import Producer

from embedkafka import ConfigError
from embedkafka.cluster.client_reach import ClientReach
from embedkafka.cluster.handles.topic import Topic
from embedkafka.spark.client_settings import translate_properties

PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "
CLOUD = {
    "bootstrap.servers": "broker.example.org:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": PLAIN_LOGIN + "username='alice' password='it\\'s \"secret\"';",
    "client.dns.lookup": "use_all_dns_ips",
    "session.timeout.ms": "45000",
    "acks": "all",
}


def test_the_file_of_a_hosted_cluster_serves_both_clients() -> None:
    settings = translate_properties(CLOUD)
    assert settings.bootstrap_servers == "broker.example.org:9092"
    assert settings.librdkafka == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": 'it\'s "secret"',
        "client.dns.lookup": "use_all_dns_ips",
    }
    assert settings.spark_options == {
        f"kafka.{name}": value for name, value in CLOUD.items() if name != "bootstrap.servers"
    }
    assert "secret" not in repr(settings)
    Producer({**settings.librdkafka, "bootstrap.servers": "127.0.0.1:1", "log_level": 0})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"},
            {"ssl.ca.location": "ca.pem"},
        ),
        ({"ssl.truststore.certificates": "-----BEGIN"}, {"ssl.ca.pem": "-----BEGIN"}),
        (
            {"ssl.keystore.type": "pem", "ssl.keystore.location": "a.pem", "ssl.key.password": "x"},
            {
                "ssl.certificate.location": "a.pem",
                "ssl.key.location": "a.pem",
                "ssl.key.password": "x",
            },
        ),
        (
            {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": "a.p12",
                "ssl.keystore.password": "x",
            },
            {"ssl.keystore.location": "a.p12", "ssl.keystore.password": "x"},
        ),
        (
            {"ssl.keystore.certificate.chain": "chain", "ssl.keystore.key": "key"},
            {"ssl.certificate.pem": "chain", "ssl.key.pem": "key"},
        ),
        (
            {"ssl.endpoint.identification.algorithm": ""},
            {"ssl.endpoint.identification.algorithm": "none"},
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": 'ScramLoginModule required username="a" password=b;',
            },
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "a",
                "sasl.password": "b",
            },
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://example.org/token",
                "sasl.jaas.config": 'M required clientId="me" clientSecret="x" scope="kafka";',
            },
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": "https://example.org/token",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": "x",
                "sasl.oauthbearer.scope": "kafka",
            },
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": 'M required useKeyTab=true keyTab="/k" principal="p@X";',
            },
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.kerberos.service.name": "kafka",
                "sasl.kerberos.keytab": "/k",
                "sasl.kerberos.principal": "p@X",
            },
        ),
    ],
)
def test_what_java_says_differently_is_translated(
    given: dict[str, str], expected: dict[str, str]
) -> None:
    settings = translate_properties(given)
    assert settings.librdkafka == expected
    assert settings.spark_options == {f"kafka.{name}": value for name, value in given.items()}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security.protocl": "SSL"}, r"security\.protocl is not .* did you mean security\.prot"),
        ({"colour": "red"}, r"colour is not a client property that is known here$"),
        ({"group.id": "g"}, "group.id cannot be set for all clients"),
        (
            {"ssl.truststore.location": "/t.jks"},
            r"/t\.jks is a Java .*\n  keytool -list -rfc.*\n.*",
        ),
        ({"ssl.keystore.location": "/k.jks"}, r"/k\.jks is a JKS .*\n.*-deststoretype PKCS12\n.*"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config must hold the username",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"},
            "no mechanism AWS_MSK_IAM; it has GSSAPI, OAUTHBEARER, PLAIN",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url",
        ),
    ],
)
def test_what_cannot_be_translated_is_refused_with_the_way_out(
    given: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        translate_properties(given)


def test_a_topic_hands_the_credentials_to_spark() -> None:
    reach = ClientReach("127.0.0.1:1", translate_properties(CLOUD))
    options = Topic("orders", reach).spark_options()
    assert options["kafka.bootstrap.servers"] == "127.0.0.1:1"
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert "alice" in options["kafka.sasl.jaas.config"]


def test_spark_waits_shortly_for_more_records_unless_a_setting_says_otherwise() -> None:
    wait = "kafka.fetch.max.wait.ms"
    plain = Topic("orders", ClientReach("127.0.0.1:1"))
    patient = translate_properties({"fetch.max.wait.ms": "300"})
    topic = Topic("orders", ClientReach("127.0.0.1:1", patient))

    assert plain.spark_options()[wait] == "10"
    assert wait not in plain.sink_options()
    assert topic.spark_options()[wait] == "300"
    assert topic.spark_options(**{wait: "500"})[wait] == "500"
