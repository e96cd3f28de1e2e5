"""The fixture `spark_script` in a user's run, and what the report says of a script."""

import os

import pytest

from embedkafka.spark.connector.jar_cache import cache_home
from embedkafka.spark.connector.jars import require_connector

pytestmark = [pytest.mark.gate, pytest.mark.spark, pytest.mark.timeout(300)]

USERS_CACHE = str(cache_home(os.environ))
"""Looked up before pytester moves the home directory."""

JOB = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("yarn").getOrCreate()
spark.range(1).write.mode("append").saveAsTable("kept")
servers = {"kafka.bootstrap.servers": "kafka-1.example:9092"}
words = spark.readStream.format("kafka").options(subscribe=sys.argv[1], **servers).load()
copies = words.writeStream.format("kafka").options(topic="copies", **servers)
query = copies.option("checkpointLocation", "hdfs://lake/copies").queryName("copies").start()
query.awaitTermination()
raise KeyError("after the end")
"""

TESTS = """
import pytest
from embedkafka.spark import drain

def test_fails_with_a_script(kafka, spark_script):
    words, copies = kafka.topic("words"), kafka.topic("copies")
    script = spark_script("job.py", args=["words"])
    drain(script.query)
    assert script.path("hdfs://lake/copies").exists()
    assert script.spark.table("kept").count() == 1
    assert script is None

def test_passes_and_the_script_fails(kafka, spark_script, tmp_path):
    kafka.topic("words")
    assert not list(tmp_path.iterdir())
    spark_script("job.py", args=["words"])

def test_of_a_wrong_script(kafka, spark_script):
    spark_script("wrong.py")

def test_without_a_script(spark):
    assert not spark.catalog.tableExists("kept")
    assert spark.range(1).count() == 2
"""


def test_a_script_ends_with_its_test_and_the_report_says_what_was_redirected(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = os.pathsep.join(str(jar) for jar in require_connector().jars)
    monkeypatch.setenv("EMBEDKAFKA_SPARK_JARS", jars)
    monkeypatch.setenv("EMBEDKAFKA_CACHE", USERS_CACHE)
    pytester.plugins = []
    pytester.makepyfile(job=JOB, wrong="def parse(text):\n    return int(text)\n\nparse('x')\n")
    pytester.makepyfile(test_job=TESTS)
    result = pytester.runpytest_subprocess("--basetemp", "base")
    result.assert_outcomes(passed=1, failed=3, errors=2)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_fails_with_a_script*",
            "job.py:11: KeyError*",
            "*ERROR at teardown of test_passes_and_the_script_fails*",
            "*test_fails_with_a_script*",
            "*- Spark script -*",
            "job.py: it is at job.py:10: `query.awaitTermination()`",
            "  query copies, into copies",
            "  spark.master yarn -> ignored: Spark runs already",
            "  kafka.bootstrap.servers kafka-1.example:9092 -> 127.0.0.1:*",
            "  checkpointLocation hdfs://lake/copies -> */test_fails_with_a_script0/lake/copies",
            "*test_of_a_wrong_script*",
            "test_job.py:*:*",
            "wrong.py:4:*",
            "wrong.py:2: ValueError",
            "*- Spark script -*",
            "wrong.py: it has failed: ValueError: invalid literal for int*",
            "*test_without_a_script*",
            "*short test summary*",
        ]
    )
    output = result.stdout.str()
    for ours in ("embedkafka/spark/scripts", "pytest_embedkafka", "contextlib"):
        assert ours not in output
    assert output.count("- Spark script -") == 2
