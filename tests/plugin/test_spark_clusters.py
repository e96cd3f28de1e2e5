"""`spark` on clusters that do not answer, that others cannot reach, and that workers share."""

import importlib.util
import os
import socket
import sys
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from embedkafka import ConfigError, ConfigWarning
from embedkafka.spark import remote
from embedkafka.spark.connector.jars import ConnectorNotFound, require_connector
from embedkafka.spark.remote import (
    SparkUnreachable,
    cluster_session,
    connect_session,
    runs_here,
)
from pytest_embedkafka.live import Live
from pytest_embedkafka.reach import warn_of_loopback

needs_connect = pytest.mark.skipif(
    importlib.util.find_spec("grpc") is None,
    reason="pip install 'pyspark[connect]'",
)


@pytest.fixture(scope="session")
def connector_jars() -> str:
    """Found before pytester moves the home directory, so that no run has to fetch them."""
    return os.pathsep.join(str(jar) for jar in require_connector().jars)


@pytest.fixture
def nobody_listens() -> Iterator[int]:
    """A port that is held, so that no other program can listen there."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


@pytest.fixture
def silent_listener() -> Iterator[int]:
    """A port where something listens and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


@pytest.mark.parametrize(
    "master", ["spark://127.0.0.1:{},127.0.0.1:{}", "k8s://https://127.0.0.1:{}"]
)
def test_a_master_that_does_not_answer_is_an_error_at_once(
    nobody_listens: int, master: str
) -> None:
    url = master.replace("{}", str(nobody_listens))
    with (
        pytest.raises(SparkUnreachable, match=rf"127\.0\.0\.1:{nobody_listens}: .*refused"),
        cluster_session(url),
    ):
        pass


@pytest.mark.parametrize("master", ["mesos://x", "yarn-cluster", "sc://x"])
def test_a_master_of_no_known_kind_is_refused(master: str) -> None:
    with pytest.raises(ConfigError, match="a Spark master is local"), cluster_session(master):
        pass


@needs_connect
def test_a_connect_server_that_does_not_answer_is_an_error_at_once(nobody_listens: int) -> None:
    with (
        pytest.raises(SparkUnreachable, match=r"the Spark Connect server sc://.* refused"),
        connect_session(f"sc://127.0.0.1:{nobody_listens}"),
    ):
        pass


@needs_connect
def test_what_listens_and_is_no_connect_server_is_an_error_soon(
    silent_listener: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_ANSWER_TIMEOUT_S", 0.5)
    with (
        pytest.raises(SparkUnreachable, match="it is no Spark Connect server"),
        connect_session(f"sc://127.0.0.1:{silent_listener}"),
    ):
        pass


def test_missing_packages_of_connect_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with (
        pytest.raises(ConfigError, match=r"(?s)pip install 'pyspark\[connect\]'.*"),
        connect_session("sc://127.0.0.1:1"),
    ):
        pass


def test_a_server_that_cannot_plan_a_read_has_no_connector() -> None:
    class Source:
        def format(self, name: str) -> "Source":
            return self

        def options(self, **given: str) -> "Source":
            return self

        def load(self) -> "Source":
            return self

        @property
        def schema(self) -> object:
            raise RuntimeError("Failed to find data source: kafka.\nat a.b.C")

    session: Any = SimpleNamespace(read=Source(), version="4.0.0")
    with pytest.raises(ConnectorNotFound, match=r"find data source: kafka\.\n.*\n.*_2\.13:4\.0\.0"):
        remote._require_kafka_source(session, "sc://there")


@pytest.mark.parametrize(
    ("master", "here"),
    [
        ("local[2]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://127.0.0.1:7077,spark.example.org:7077", False),
        ("yarn", False),
        ("k8s://https://127.0.0.1:6443", False),  # pods have a loopback address of their own
    ],
)
def test_which_executors_reach_the_loopback_address(master: str, here: bool) -> None:
    assert runs_here(master) == here


def test_brokers_out_of_the_executors_reach_are_a_warning() -> None:
    on_loopback: Any = SimpleNamespace(bootstrap_servers="127.0.0.1:9092,127.0.0.1:9093")
    on_network: Any = SimpleNamespace(bootstrap_servers="192.0.2.1:9092")
    with pytest.warns(ConfigWarning, match="executors of yarn cannot reach .* --kafka-host"):
        warn_of_loopback(Live(spark_master="yarn"), on_loopback)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_loopback(Live(spark_master="yarn"), on_network)
        warn_of_loopback(Live(spark_master="local[2]"), on_loopback)
        warn_of_loopback(Live(), on_loopback)


@pytest.mark.spark
@pytest.mark.timeout(300)
@needs_connect
@pytest.mark.slow
def test_workers_may_share_one_spark_connect_server_and_one_kafka_cluster(
    connector_jars: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDKAFKA_SPARK_JARS", connector_jars)
    pytester.plugins = []
    pytester.makeini(
        "[pytest]\nspark_config =\n"
        "  spark.sql.shuffle.partitions = 3\n  spark.driver.memory = 768m\n"
    )
    pytester.makepyfile(
        """
        def test_words(kafka, kafka_topic, spark, tmp_path_factory, worker_id):
            kafka_topic.write(spark.createDataFrame([("hello",)], "value string"))
            assert [row.value for row in kafka_topic.to_df(spark).collect()] == ["hello"]
            for api in ("Produce", "Fetch"):
                seen = kafka.requests(api, topic=kafka_topic.name)
                assert seen and not any(request.is_own for request in seen)
            named = {name for request in kafka.requests("Produce") for name in request.topics}
            assert named == {kafka_topic.name}, "what Spark did for other workers is not here"
            assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
            assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
            application = spark.conf.get("spark.app.id")
            shared = tmp_path_factory.getbasetemp().parent
            (shared / f"{worker_id}.application").write_text(application)
            (shared / f"{worker_id}.session").write_text(spark.session_id)

        def test_leaves_a_query(spark):
            rows = spark.readStream.format("rate").load()
            rows.writeStream.format("noop").queryName("left").start()

        def test_wrong(spark):
            assert spark.range(3).count() == 4
        """
    )
    shared = ["--spark-xdist=shared", "--kafka-xdist=shared"]
    result = pytester.runpytest_subprocess(*shared, "-n2", "--dist=each", "--basetemp=base")
    result.assert_outcomes(passed=4, failed=2, errors=2)
    result.stdout.fnmatch_lines(["*embedkafka: starting Spark*", "*left a query running: left*"])
    for kind, count in {"application": 1, "session": 2}.items():
        seen = {file.read_text() for file in pytester.path.glob(f"base/*.{kind}")}
        assert len(seen) == count, kind


def test_a_server_that_does_not_start_fails_each_test_that_asks_for_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(pytester.path))  # no Spark in there
    pytester.plugins = []
    pytester.makepyfile(
        "def test_one(spark): pass\ndef test_two(spark): pass\ndef test_three(): pass"
    )
    result = pytester.runpytest_subprocess("--spark-xdist=shared", "-n", "2")
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(["*the Spark Connect server of all workers did not start: *"])
