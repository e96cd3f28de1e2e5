"""Two tables of docs/reference/pytest.md: the arguments of the mark, and environment variables."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pytest_embedkafka.marks import MARK_LINE
from tests.tidy.pages.docstrings import arguments, define
from tests.tidy.pages.tables import table

MARK_HEAD = """
## The mark

`@pytest.mark.kafka(...)` on a test, a class or a module chooses the cluster of `kafka`. Tests that
ask for the same one share it. Of several marks, the closest decides, argument by argument. See
[a cluster of another shape](../how-to/isolation.md#a-cluster-of-another-shape).

"""

VARIABLES_HEAD = """
## Environment variables

An option wins over its variable.

"""

OF_A_TEST: Final = {
    "brokers": "how many brokers the cluster has; a list runs the test on each number",
    "keep": "`True` leaves the cluster as the test left it",
    "snapshot": "the name of the `kafka.snapshot(name)` that the test starts from",
}
"""Arguments that mean something else than in `EmbeddedKafka(...)`, or do not exist there."""

OURS: Final[Mapping[str, tuple[str, str]]] = {
    "EMBEDKAFKA_BOOTSTRAP": (
        "the cluster that tests and commands use. `embedkafka up` sets it for its command, and "
        "`EMBEDKAFKA_BOOTSTRAP_<NAME>` for each further listener",
        "--kafka-bootstrap",
    ),
    "EMBEDKAFKA_METRICS": ("the address of metrics; set by `embedkafka up --metrics-port`", ""),
    "EMBEDKAFKA_CACHE": ("the directory for connectors and archives of classes", ""),
    "EMBEDKAFKA_PATIENCE": ("multiplies the timeouts of all waits", "--kafka-patience"),
    "EMBEDKAFKA_SPARK_JARS": ("the jars of the Kafka connector, or folders with them", ""),
    "EMBEDKAFKA_SPARK_ARCHIVE": (
        "`auto`, `use`, `new` or `no`: whether Spark starts from an archive of its classes",
        "--spark-archive",
    ),
    "EMBEDKAFKA_SPARK_WARM": ("`1` or `0`: whether Spark's JVM outlives the run", "--spark-warm"),
    "EMBEDKAFKA_EXPLORE_SEED": ("the seed of `explore`", "--explore-seed"),
    "EMBEDKAFKA_EXPLORE_DEFAULT_SEED": ("set by the plugin in CI: the seed of this test", ""),
    "EMBEDKAFKA_EXPLORE_REPEAT": ("set by the plugin: the seed that refuted the job before", ""),
}
"""The meaning of each variable, and the option that wins over it."""

THEIRS: Final[Mapping[str, str]] = {
    "KAFKA_BOOTSTRAP_SERVERS": "the cluster of commands, after `EMBEDKAFKA_BOOTSTRAP`",
    "CI": "if set, seeds derive from the tests' ids, no archive is written, and the ini file's "
    "`spark_warm` does not count",
    "GITHUB_STEP_SUMMARY": "where `--kafka-report` puts its summary on GitHub",
    "JAVA_HOME": "the Java that Spark runs on, before the one in `PATH`",
    "SPARK_HOME": "the installation of Spark, before the one of PySpark",
    "XDG_CACHE_HOME": "the parent of the cache, if `EMBEDKAFKA_CACHE` is not set",
}


def marks() -> str:
    return MARK_HEAD + table(["argument", "meaning"], _marks())


def variables() -> str:
    return VARIABLES_HEAD + table(["variable", "meaning", "option"], _variables())


def _marks() -> Iterator[tuple[str, ...]]:
    known = {**arguments(define("embedkafka.EmbeddedKafka").text), **OF_A_TEST}
    for name in re.findall(r"\w+", MARK_LINE.partition("(")[2].partition(")")[0]):
        yield f"`{name}`", known[name]


def _variables() -> Iterator[tuple[str, ...]]:
    for name, (meaning, option) in OURS.items():
        yield f"`{name}`", meaning, f"`{option}`" if option else ""
    for name, meaning in THEIRS.items():
        yield f"`{name}`", meaning, ""
