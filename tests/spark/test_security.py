"""Spark's connector on secured clusters: it logs in with the options that a topic handle gives."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from embedkafka import Acl, EmbeddedKafka, Security
from tests.wire.clients import eventually

KINDS: dict[str, dict[str, Any]] = {
    "SCRAM over TLS": {"users": {"job": 'a "quoted\\ secret'}},
    "mutual TLS": {"protocol": "SSL", "users": ["job"]},
}


pytestmark = pytest.mark.gate


@pytest.fixture(scope="module", params=KINDS)
def secured(request: pytest.FixtureRequest) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=2, security=Security(**KINDS[request.param])) as kafka:
        yield kafka


def test_a_batch_is_written_and_read(secured: EmbeddedKafka, spark: SparkSession) -> None:
    orders = secured.topic("orders", partitions=2, replication=2)
    frame = spark.createDataFrame([(f"{number}",) for number in range(50)], ["value"])
    frame.write.format("kafka").options(**orders.sink_options(user="job")).save()
    read = spark.read.format("kafka").options(**orders.spark_options(user="job")).load()
    assert sorted(int(row.value) for row in read.collect()) == list(range(50))
    assert orders.to_df(spark).count() == 50  # the handle logs in by itself


def test_a_streaming_query_copies_a_topic(
    secured: EmbeddedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    source, sink = secured.topic("source", partitions=2), secured.topic("sink", partitions=2)
    source.send_many([f"{number}" for number in range(20)])
    options = sink.sink_options(user="job", checkpointLocation=str(tmp_path / "checkpoint"))
    query = (
        spark.readStream.format("kafka")
        .options(**source.spark_options(user="job"))
        .load()
        .writeStream.format("kafka")
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert sorted(int(message.text) for message in sink.read(20)) == list(range(20))


def test_a_job_without_rights_fails_and_the_report_says_what_it_lacks(spark: SparkSession) -> None:
    acls = [Acl.allow("job", "DESCRIBE", topic="orders")]
    security = Security(users={"job": "j-secret"}, acls=acls)
    with EmbeddedKafka(security=security) as kafka:
        orders = kafka.topic("orders")
        orders.send("not for the job")
        options = orders.spark_options(user="job")
        with pytest.raises(Exception, match=r"TopicAuthorizationException|Not authorized"):
            spark.read.format("kafka").options(**options).load().collect()
        report = kafka.report()
        refusals = [line for line in report.splitlines() if "User:job" in line]
        assert any("READ" in line and "orders" in line for line in refusals), report
        assert "j-secret" not in report


# What a running query sees when its login or its rights end.


def secured_with(**security: Any) -> EmbeddedKafka:
    config = {"delegation.token.secret.key": "of the brokers"}
    return EmbeddedKafka(security=Security(**security), config=config, topics={"orders": 1})


def start_copying(
    kafka: EmbeddedKafka, start_query: Callable[..., Any], options: dict[str, str]
) -> Any:
    """A query that reads `orders` and has seen its first record. Any: has `rows` too."""
    orders = kafka.existing_topic("orders")
    orders.send("before")
    spark = SparkSession.active()
    query = start_query(spark.readStream.format("kafka").options(**options).load())
    eventually(lambda: query.exception() or query.rows(), "the query reads", timeout_s=120)
    assert query.exception() is None
    return query


def end_of(query: Any) -> str:
    """Why the query failed."""
    with pytest.raises(StreamingQueryException) as failed:
        query.awaitTermination(120)
    return str(failed.value)


def options_of(kafka: EmbeddedKafka, user: str | None = "job") -> dict[str, str]:
    return dict(kafka.existing_topic("orders").spark_options(user=user))


@pytest.mark.slow
def test_a_query_whose_credential_is_revoked_fails(
    spark: SparkSession, start_query: Callable[..., Any]
) -> None:
    with secured_with(users={"job": "j-secret"}) as kafka:
        query = start_copying(kafka, start_query, options_of(kafka))
        kafka.logins.revoke("job")
        assert "SaslAuthenticationException: Authentication failed" in end_of(query)


def test_a_query_that_may_no_longer_read_fails(
    spark: SparkSession, start_query: Callable[..., Any]
) -> None:
    allowed = Acl.allow("job", "READ", topic="orders")
    acls = [allowed, Acl.allow("job", "DESCRIBE", topic="orders")]
    with secured_with(protocol="SSL", users=["job"], acls=acls) as kafka:
        query = start_copying(kafka, start_query, options_of(kafka))
        kafka.acls.remove(allowed)
        kafka.existing_topic("orders").send("after")
        assert "TopicAuthorizationException: Not authorized to access topics: [orders]" in (
            end_of(query)
        )
        assert "User:job from 127.0.0.1 may not READ TOPIC orders" in kafka.report()


@pytest.mark.slow
def test_a_query_does_not_trust_a_certificate_that_has_expired(
    spark: SparkSession, start_query: Callable[..., Any]
) -> None:
    with secured_with(users={"job": "j-secret"}) as kafka:
        query = start_copying(kafka, start_query, options_of(kafka))
        kafka.logins.expire_certificates()
        assert "SslAuthenticationException: SSL handshake failed" in end_of(query)


def test_a_query_logs_in_with_a_delegation_token_until_that_expires(
    spark: SparkSession, start_query: Callable[..., Any]
) -> None:
    """Spark finds the token among the credentials of its user, as on a cluster."""
    acls = [Acl.allow("job", "READ", topic="orders")]
    users = {"job": "j-secret"}
    with secured_with(protocol="SASL_PLAINTEXT", users=users, acls=acls) as kafka:
        options = {
            name: value
            for name, value in options_of(kafka).items()
            if not name.startswith(("kafka.sasl.", "kafka.security."))
        }
        with given_token(spark, kafka, "job"):
            query = start_copying(kafka, start_query, options)
            kafka.logins.expire_tokens("job")
            assert "SaslAuthenticationException: Authentication failed" in end_of(query)


@contextmanager
def given_token(spark: SparkSession, kafka: EmbeddedKafka, user: str) -> Iterator[None]:
    """Asks for a token as `user`, and leaves it where Spark's token provider does."""
    jvm: Any = spark._jvm
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(java_properties(jvm, kafka, user))
    try:
        token = admin.createDelegationToken().delegationToken().get()
    finally:
        admin.close()
    text, identifier = jvm.org.apache.hadoop.io.Text, "embedded"
    service = text(f"kafka.server.delegation.token.{identifier}")
    credential = jvm.org.apache.hadoop.security.token.Token(
        token.tokenInfo().tokenId().encode(),
        token.hmacAsBase64String().encode(),
        text("KAFKA_DELEGATION_TOKEN"),
        service,
    )
    me = jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
    me.addToken(service, credential)
    settings = spark.sparkContext._jsc.sc().conf()
    prefix = f"spark.kafka.clusters.{identifier}"
    names = {
        f"{prefix}.auth.bootstrap.servers": kafka.bootstrap_servers,
        f"{prefix}.target.bootstrap.servers.regex": kafka.bootstrap_servers,
        f"{prefix}.security.protocol": "SASL_PLAINTEXT",
    }
    for name, value in names.items():
        settings.set(name, value)
    try:
        yield
    finally:
        for name in names:
            settings.remove(name)
        # Otherwise every later query looks for the settings of the token's cluster.
        jvm.org.apache.hadoop.security.UserGroupInformation.reset()


def java_properties(jvm: Any, kafka: EmbeddedKafka, user: str) -> Any:
    properties = jvm.java.util.Properties()
    properties.load(jvm.java.io.StringReader(Path(kafka.java_properties(user)).read_text()))
    return properties
