"""The examples' own tests on every combination of clusters that are not in the test's process."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.java_tools.oracle import ApacheKafka
from tests.java_tools.spark_connect import spark_connect
from tests.java_tools.spark_standalone import SparkStandalone

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
#: The others crash queries and compact topics, which takes a cluster and a driver of this process.
ORDERS = "examples/orders"
NOT_HERE = "not demo"
"""The demo starts clusters by itself."""
QUICK_EXECUTORS = [
    "--spark-config",
    "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "--spark-config",
    "spark.executor.memory=512m",
]


@pytest.fixture(scope="module")
def apache() -> Iterator[list[str]]:
    with ApacheKafka() as kafka:
        yield ["--kafka-bootstrap", kafka.bootstrap_servers]


@pytest.fixture(scope="module")
def embedded() -> list[str]:
    """Not on the usual address: executors go where `--kafka-host` sends them."""
    return ["--kafka-brokers", "2", "--kafka-host", "127.0.0.2"]


@pytest.fixture(scope="module")
def standalone() -> Iterator[list[str]]:
    with SparkStandalone(workers=2) as cluster:
        yield ["--spark-master", cluster.url, *QUICK_EXECUTORS]


@pytest.fixture(scope="module")
def connect() -> Iterator[list[str]]:
    pytest.importorskip("grpc", reason="pip install 'pyspark[connect]'")
    with spark_connect() as address:
        yield ["--spark-remote", address]


@pytest.fixture
def run_examples(tmp_path: Path) -> Callable[..., int]:
    """Runs the examples' tests in a process of their own; returns how many passed."""

    def run(*options: str, only: str = NOT_HERE) -> int:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", only]
        done = subprocess.run(
            [*command, *options, f"--basetemp={tmp_path / 'run'}", ORDERS],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=550,
            check=False,
        )
        shown = f"{done.stdout[-8000:]}\n{done.stderr[-4000:]}"
        assert done.returncode == 0, shown
        assert "skipped" not in done.stdout, shown
        summary = done.stdout.strip().splitlines()[-1]
        return int(summary.split(" passed")[0].split()[-1])

    return run


def test_a_streaming_job_runs_on_executors_of_a_standalone_cluster(
    run_examples: Callable[..., int], embedded: list[str], standalone: list[str]
) -> None:
    """The part of the below that every push runs."""
    only = "orders_are_enriched_and_counted"
    assert run_examples(*embedded, *standalone, only=only) == 1


@pytest.mark.slow
def test_spark_may_start_the_cluster_itself(
    run_examples: Callable[..., int], embedded: list[str]
) -> None:
    master = ["--spark-master", "local-cluster[2,1,512]", *QUICK_EXECUTORS]
    assert run_examples(*embedded, *master, only="orders_are_enriched_and_counted") == 1


@pytest.mark.slow
@pytest.mark.parametrize("spark", ["standalone", "connect"])
@pytest.mark.parametrize("kafka", ["embedded", "apache"])
def test_the_examples_pass_on_any_two_clusters(
    request: pytest.FixtureRequest, run_examples: Callable[..., int], kafka: str, spark: str
) -> None:
    options = [*request.getfixturevalue(kafka), *request.getfixturevalue(spark)]
    assert run_examples(*options) >= 4
