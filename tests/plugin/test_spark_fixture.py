"""The `spark` fixture in a user's run."""

import json
import os
import re
from pathlib import Path

import pytest

from embedkafka.spark.connector.installed import release_numbers, require_installed_spark
from embedkafka.spark.connector.jar_cache import cache_home
from embedkafka.spark.connector.jars import require_connector
from embedkafka.spark.connector.packages import require_packages
from embedkafka.spark.connector.table_formats import TABLE_FORMATS

pytestmark = [pytest.mark.gate, pytest.mark.spark, pytest.mark.timeout(300)]


USERS_CACHE = str(cache_home(os.environ))
"""Looked up before pytester moves the home directory."""

MINOR = release_numbers(require_installed_spark().release)[:2]
SPARKS_LEFTOVERS = {"artifacts", "spark-warehouse", "metastore_db", "derby.log"}


@pytest.fixture(scope="session")
def connector_jars() -> str:
    """Looked up before pytester moves the home directory, so no run has to download them."""
    return os.pathsep.join(str(jar) for jar in require_connector().jars)


@pytest.fixture(scope="session")
def spark_avro() -> None:
    """Is in the cache."""
    require_packages(["spark-avro"])


@pytest.fixture(autouse=True)
def in_a_process_of_its_own(
    connector_jars: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDKAFKA_SPARK_JARS", connector_jars)
    monkeypatch.setenv("EMBEDKAFKA_CACHE", USERS_CACHE)  # it has an archive of classes
    pytester.plugins = []
    pytester.makeini("[pytest]\nspark_config =\n  spark.sql.shuffle.partitions = 3\n")


WORDS = """
def test_words(kafka_topic, spark):
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    frame = spark.createDataFrame([("hello",)], "value string")
    kafka_topic.write(frame)
    assert [row.value for row in kafka_topic.to_df(spark).collect()] == ["hello"]

def test_wrong(spark):
    assert spark.range(3).count() == 4

def test_last_leaves_one(kafka_topic, spark):
    kafka_topic.stream(spark).writeStream.format("memory").queryName("left_last").start()
"""

LEFTOVERS = """
import pytest
from embedkafka.spark import drain

def start(topic, spark, name, checkpoint):
    frame = topic.stream(spark)
    writer = frame.writeStream.format("memory").queryName(name)
    return writer.option("checkpointLocation", checkpoint / name).start()

def test_leaves_one(kafka_topic, spark, spark_checkpoint):
    start(kafka_topic, spark, "forgotten", spark_checkpoint)

def test_nothing_is_left(spark):
    assert spark.streams.active == []

@pytest.fixture
def running(kafka, spark, tmp_path):
    topic = kafka.topic()
    query = start(topic, spark, "of_a_fixture", tmp_path)
    yield topic, query
    query.stop()

def test_a_fixture_stops_its_own(running):
    drain(running[1])

def test_fails_with_a_query(kafka, spark, spark_checkpoint):
    topic = kafka.topic("numbers")
    topic.send("x")
    frame = topic.stream(spark).selectExpr("raise_error('no such number')")
    frame.writeStream.format("memory").queryName("failing").start()
    query = start(topic, spark, "reading", spark_checkpoint)
    drain(query)
    assert query is None
"""

TRIGGERS = """
import pytest
from embedkafka.spark import drain

@pytest.mark.usefixtures("spark_immediate_triggers")
def test_waits_for_no_trigger(kafka, spark):
    topic = kafka.topic("minutes")
    writer = topic.stream(spark).writeStream.format("memory").queryName("by_the_minute")
    query = writer.trigger(processingTime="1 minute").start()
    topic.send("x")
    drain(query)
    query.stop()
    assert spark.table("by_the_minute").count() == 2

def test_has_its_own_trigger(spark):
    spark.readStream.format("rate").load().writeStream.trigger(processingTime="1 hour")
    assert spark is None
"""

COPIES = """
def test_copies(kafka, spark, spark_checkpoint):
    source, sink = kafka.topic("source"), kafka.topic("sink")
    for value in ("a", "b"):
        source.send(value)
        query = (
            source.stream(spark)
            .writeStream.format("kafka")
            .options(**{"kafka.bootstrap.servers": kafka.bootstrap_servers})
            .option("topic", "sink")
            .option("checkpointLocation", spark_checkpoint)
            .queryName("copies")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
    assert [record.text for record in sink.read()] == ["a", "b"]
"""


def test_a_run_with_spark_reports_what_went_wrong_and_leaves_nothing(
    pytester: pytest.Pytester,
) -> None:
    """One run for all of it, because a run takes a JVM."""
    pytester.makepyfile(
        test_words=WORDS, test_leftovers=LEFTOVERS, test_copies=COPIES, test_triggers=TRIGGERS
    )
    result = pytester.runpytest_subprocess("--basetemp", "base", "--kafka-report=report.html")
    result.assert_outcomes(passed=6, failed=4, errors=2)
    result.stdout.fnmatch_lines(["*embedkafka: starting Spark*"])
    assert SPARKS_LEFTOVERS.isdisjoint(path.name for path in pytester.path.iterdir())
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_leaves_one*",
            "the test left a query running: forgotten. Stop it with*",
            "*ERROR at teardown of test_last_leaves_one*",
            "the test left a query running: left_last. Stop it with*",
            "*FAILURES*",
            "*Spark query*",
            "failing (*): ended, ProcessingTimeTrigger(0)",
            "  failed: *no such number*",
            "  numbers-0 not read, ends at 1",
            "*Spark query*",
            "reading (*): *, ProcessingTimeTrigger(0)",
            "  numbers-0 read up to 1, ends at 1",
            "  batch  rows in *",
            "  0      1 *",
            "*Spark checkpoint*",
            "kept in *",
        ]
    )
    result.stdout.fnmatch_lines(
        ["*Spark triggers*", "immediate_triggers: processingTime 1 minute ran at once"]
    )
    assert str(result.stdout).count("- Spark triggers -") == 1, "of one test"
    result.stdout.no_fnmatch_line("*py4j*")
    result.stdout.no_fnmatch_line("*at org.apache.spark.*")
    (kept,) = pytester.path.glob("base/checkpoint[0-9]*")
    assert (kept / "reading" / "commits" / "0").exists()
    _check_batches_of_copies(pytester.path / "report.html")


def _check_batches_of_copies(page: Path) -> None:
    found = re.search(r'id="data">(.*?)</script>', page.read_text())
    assert found is not None
    (cluster,) = json.loads(found[1])["clusters"]
    spans = cluster["timeline"]["spans"]
    (test,) = [span for span in spans if span["lane"] == "test" and "test_copies" in span["text"]]
    batches = [span for span in spans if span["text"].startswith("copies batch")]
    assert [span["text"] for span in batches] == [
        "copies batch 0, 1 row",
        "copies batch 1, 1 row",
    ]
    assert all(test["from"] <= span["from"] <= span["to"] for span in batches)


def test_avro_makes_a_round_trip_through_a_topic(
    spark_avro: None, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(
        """
        import json
        from pyspark.sql.avro.functions import to_avro
        from pyspark.sql.functions import struct

        FIELDS = [{"name": "sku", "type": "string"}, {"name": "quantity", "type": "int"}]
        SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": FIELDS})

        def test_orders(kafka_topic, spark):
            orders = spark.createDataFrame([("a", 2)], "sku string, quantity int")
            value = to_avro(struct("sku", "quantity"), SCHEMA).alias("value")
            kafka_topic.write(orders.select(value))
            assert kafka_topic.read()[0].value == bytes([2, ord("a"), 4])

            parsed = kafka_topic.stream(spark, format="avro", schema=json.loads(SCHEMA))
            writer = parsed.writeStream.format("memory").queryName("orders")
            writer.trigger(availableNow=True).start().awaitTermination()
            assert [tuple(row) for row in spark.table("orders").collect()] == [("a", 2)]
        """
    )
    pytester.runpytest_subprocess("--spark-package", "spark-avro").assert_outcomes(passed=1)


@pytest.mark.gate
@pytest.mark.skipif(
    any(MINOR not in builds for builds in TABLE_FORMATS.values()),
    reason="a format has no build for this Spark",
)
def test_table_formats_share_a_session(pytester: pytest.Pytester) -> None:
    require_packages(["delta", "iceberg"])  # in the cache
    pytester.makepyfile(
        """
        def test_orders(kafka_topic, spark, tmp_path):
            kafka_topic.send("a")
            kafka_topic.send("b")
            lake = str(tmp_path / "lake")
            spark.sql("CREATE TABLE iceberg.db.orders (value STRING) USING iceberg")

            def save(batch, number):
                batch.write.format("delta").mode("append").save(lake)
                batch.writeTo("iceberg.db.orders").append()

            orders = kafka_topic.stream(spark).selectExpr("CAST(value AS STRING) AS value")
            writer = orders.writeStream.foreachBatch(save).trigger(availableNow=True)
            writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
            writer.start().awaitTermination()
            spark.sql(f"DELETE FROM delta.`{lake}` WHERE value = 'a'")
            spark.sql("DELETE FROM iceberg.db.orders WHERE value = 'b'")
            assert [row.value for row in spark.read.format("delta").load(lake).collect()] == ["b"]
            assert [row.value for row in spark.table("iceberg.db.orders").collect()] == ["a"]
        """
    )
    arguments = ("--spark-package", "delta", "--spark-package", "iceberg")
    pytester.runpytest_subprocess(*arguments).assert_outcomes(passed=1)


@pytest.mark.slow
def test_each_worker_has_a_session_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(2))
        def test_words(kafka_topic, spark, number, tmp_path_factory):
            kafka_topic.write(spark.createDataFrame([("hello",)], "value string"))
            assert kafka_topic.to_df(spark).count() == 1
            shared = tmp_path_factory.getbasetemp().parent
            (shared / f"{spark.sparkContext.applicationId}.{kafka_topic.name}").touch()
        """
    )
    arguments = ["-n", "2", "--dist", "each", "--basetemp", "base"]
    pytester.runpytest_subprocess(*arguments).assert_outcomes(passed=4)
    assert len(list(pytester.path.glob("base/local-*"))) == 4
