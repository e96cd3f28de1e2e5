"""The `spark` fixture in a user's run."""

import os

import pytest

from embedkafka.spark.connector.jars import require_connector

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


SPARKS_LEFTOVERS = {"artifacts", "spark-warehouse", "metastore_db", "derby.log"}


@pytest.fixture(scope="session")
def connector_jars() -> str:
    """Looked up before pytester moves the home directory, so no run has to download them."""
    return os.pathsep.join(str(jar) for jar in require_connector().jars)


@pytest.fixture(autouse=True)
def in_a_process_of_its_own(
    connector_jars: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDKAFKA_SPARK_JARS", connector_jars)
    monkeypatch.setenv("EMBEDKAFKA_SPARK_ARCHIVE", "no")  # each run has a cache of its own
    pytester.plugins = []
    pytester.makeini(
        "[pytest]\naddopts = -p no:cacheprovider -p no:timeout\n"
        "spark_config =\n  spark.sql.shuffle.partitions = 3\n"
    )


def test_spark_and_kafka_work_together_and_leave_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_words(kafka_topic, spark):
            assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
            frame = spark.createDataFrame([("hello",)], "value string")
            kafka_topic.write(frame)
            assert [row.value for row in kafka_topic.to_df(spark).collect()] == ["hello"]

        def test_wrong(spark):
            assert spark.range(3).count() == 4
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*embedkafka: starting Spark*"])
    assert SPARKS_LEFTOVERS.isdisjoint(path.name for path in pytester.path.iterdir())


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
