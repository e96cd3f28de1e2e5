"""The examples' own tests on every combination of clusters that are not in the test's process."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from embedkafka.runtime.values import dataclass
from tests.java_tools.oracle import ApacheKafka
from tests.real_clusters.conftest import QUICK_EXECUTORS

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.java, pytest.mark.timeout(1800)]

ROOT: Final = Path(__file__).parents[2]
#: In seconds. One test starts the clusters' JVMs, or finds a server that has run nothing yet.
PATIENCE: Final = 600
NEEDS_DRIVER: Final = "needs a Spark driver of this process"
#: The tests that a cluster cannot serve, with the reason that pytest gives.
SKIPPED: Final = {
    "apache": {
        "test_compaction_keeps_the_last_change_of_a_row": (
            "`topic.compact` needs an embedded cluster"
        ),
    },
    "connect": {
        "test_a_change_that_is_written_twice_changes_nothing": (
            f"`crash_between_write_and_commit` {NEEDS_DRIVER}"
        ),
        "test_a_crash_between_write_and_commit_adds_no_row": (
            f"`crash_between_write_and_commit` {NEEDS_DRIVER}"
        ),
        "test_the_rows_do_not_depend_on_the_schedule": f"`explore` {NEEDS_DRIVER}",
        "test_sessions_do_not_depend_on_the_schedule": f"`explore` {NEEDS_DRIVER}",
        "test_a_watermark_without_delay_depends_on_the_schedule": f"`explore` {NEEDS_DRIVER}",
        "test_revenue_is_right_even_if_the_driver_dies": f"`run_script` {NEEDS_DRIVER}",
        "test_the_archive_gets_each_order_once": f"`run_script` {NEEDS_DRIVER}",
        "test_revenue_does_not_depend_on_the_schedule": f"`explore` {NEEDS_DRIVER}",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The names of the tests that passed, and the reasons of those that were skipped."""

    passed: frozenset[str]
    skipped: dict[str, str]


@pytest.fixture(scope="module")
def apache() -> Iterator[list[str]]:
    with ApacheKafka() as kafka:
        yield ["--kafka-bootstrap", kafka.bootstrap_servers]


@pytest.fixture(scope="module")
def embedded() -> list[str]:
    """Not on the usual address: executors go where `--kafka-host` sends them."""
    return ["--kafka-brokers", "2", "--kafka-host", "127.0.0.2"]


@pytest.fixture
def run_examples(tmp_path: Path) -> Callable[..., Outcome]:
    """Runs tests of the examples in a process of their own, where none may fail."""

    def run(*arguments: str) -> Outcome:
        report = tmp_path / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [f"--timeout={PATIENCE}"]
        done = subprocess.run(
            [*command, *arguments, f"--junitxml={report}", f"--basetemp={tmp_path / 'run'}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=1700,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-4000:]}"
        return read_outcome(report)

    return run


def read_outcome(report: Path) -> Outcome:
    cases = {case.get("name", ""): case for case in ElementTree.parse(report).iter("testcase")}
    skipped = {
        name: found.get("message", "")
        for name, case in cases.items()
        if (found := case.find("skipped")) is not None
    }
    return Outcome(passed=frozenset(cases.keys() - skipped.keys()), skipped=skipped)


def test_spark_may_start_the_cluster_itself(
    run_examples: Callable[..., Outcome], embedded: list[str]
) -> None:
    master = ["--spark-master", "local-cluster[2,1,512]", *QUICK_EXECUTORS]
    only = "test_orders_are_enriched_and_counted"
    outcome = run_examples(*embedded, *master, "examples/orders", "-k", only)
    assert outcome == Outcome(passed=frozenset({only}), skipped={})


@pytest.mark.parametrize("spark", ["standalone", "connect"])
@pytest.mark.parametrize("kafka", ["embedded", "apache"])
def test_the_examples_pass_on_any_two_clusters(
    request: pytest.FixtureRequest, run_examples: Callable[..., Outcome], kafka: str, spark: str
) -> None:
    """All but the demo, which starts clusters by itself."""
    clusters = [*request.getfixturevalue(kafka), *request.getfixturevalue(spark)]
    expected = {**SKIPPED.get(kafka, {}), **SKIPPED.get(spark, {})}

    outcome = run_examples(*clusters, "--spark-package", "spark-avro", "examples", "-k", "not demo")

    assert outcome.skipped.keys() == expected.keys()
    for name, reason in expected.items():
        assert reason in outcome.skipped[name]
    assert outcome.passed == names_in_examples() - expected.keys()


def names_in_examples() -> set[str]:
    """The names in all example suites; the one on Testcontainers is no more."""
    files = [*ROOT.glob("examples/*/tests/test_*.py"), *ROOT.glob("examples/*/after/test_*.py")]
    assert len(files) == len([*ROOT.glob("examples/*/pyproject.toml")])
    names = {
        name
        for file in files
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    return {name for name in names if "demo" not in name}
