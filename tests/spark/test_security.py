"""Spark's connector on secured clusters: it logs in with the options that a topic handle gives."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from embedkafka import Acl, EmbeddedKafka, Security

KINDS: dict[str, dict[str, Any]] = {
    "SCRAM over TLS": {"users": {"job": 'a "quoted\\ secret'}},
    "mutual TLS": {"protocol": "SSL", "users": ["job"]},
}


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
