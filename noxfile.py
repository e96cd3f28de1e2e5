r"""The test matrix: suites by Python, and PySpark releases by Python.

`make matrix` runs all of it; ARGS reaches nox:

    make matrix ARGS="-s tests-3.13 -- unit plugin"
    make matrix ARGS="-s \"spark(python='3.11', pyspark='3.5.9')\" -- tests/spark/test_batch.py"

A Python that is not installed is skipped with a line; MATRIX_STRICT=1 turns that into a failure.
"""

import os
from collections.abc import Mapping
from typing import Final

import nox

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
FREE_THREADED: Final = "3.14t"

#: PySpark release -> those of our Pythons it supports. "newest" is the latest on the index.
PYSPARKS: Final = {
    "3.5.9": ("3.11",),
    "4.0.0": ("3.11", "3.12", "3.13"),
    "4.1.4": ("3.12",),
    "4.3.0": ("3.11",),
    "newest": ("3.13",),
}

#: A Spark Connect server for the releases of PySpark that bring none; any 3.5 serves all of them.
CONNECT_SERVERS: Final = {"3.5.9": "org.apache.spark:spark-connect_2.12:3.5.4"}

SUITES: Final = {
    "unit": ("-n", "2", "tests/unit"),
    "wire": ("tests/wire",),
    "plugin": ("tests/plugin",),
}

EXTRAS: Final = nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]

#: The oldest pytest that the plugin supports, and the last plugins for it.
OLDEST_PYTEST: Final = (
    *(needed.replace(">=", "==") for needed in EXTRAS["pytest"]),
    *("pytest-asyncio==0.23.8", "pytest-html==4.1.1"),
)

#: Runs on a classic session, and on a Spark Connect server too.
EVERY_HELPER: Final = "tests/spark/test_every_helper.py"

#: Every kind of read and write, and our file system in Spark's JVM. The other tests kill brokers
#: and wait for clients to notice.
QUICK_SPARK_TESTS: Final = (
    "tests/spark/test_batch.py",
    "tests/spark/test_streaming.py",
    EVERY_HELPER,
    "tests/spark/test_local_files.py",
    "tests/spark/test_real_time.py",
    "tests/spark/test_transform_with_state.py",
    "examples/pipeline",
)

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = os.environ.get("MATRIX_STRICT") == "1"


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Runs unit, wire and plugin tests on embedkafka; `-- unit` runs only that suite."""
    _install(session, "test")
    for suite in session.posargs or SUITES:
        _pytest(session, *SUITES[suite])


@nox.session(python=FREE_THREADED)
def free_threaded(session: nox.Session) -> None:
    """Runs unit and wire tests without the GIL, which some extensions would turn on again."""
    _install(session, "test-any-spark")  # gRPC, in the other group, has no such wheels
    for suite in session.posargs or ("unit", "wire"):
        _pytest(session, *SUITES[suite], env={"PYTHON_GIL": "0"})


@nox.session(python="3.11")
def oldest_pytest(session: nox.Session) -> None:
    """Runs the plugin's tests on the oldest pytest that it supports."""
    _install(session, "test")
    session.install(*OLDEST_PYTEST)
    _pytest(session, *SUITES["plugin"])


@nox.session
@nox.parametrize(
    ("python", "pyspark"),
    [(python, pyspark) for pyspark, pythons in PYSPARKS.items() for python in pythons],
)
def spark(session: nox.Session, pyspark: str) -> None:
    """Runs the quick part of the Spark suite, and every helper on Spark Connect too.

    Paths after `--` are run instead, on a classic session.
    """
    package = "pyspark" if pyspark == "newest" else f"pyspark=={pyspark}"
    _install(session, "test-any-spark", "--group", "connect", package)
    session.run("python", "-c", "import pyspark; print('PySpark', pyspark.__version__)")
    _pytest(session, *(session.posargs or ("-m", "not slow", *QUICK_SPARK_TESTS)))
    if not session.posargs:
        server = CONNECT_SERVERS.get(pyspark)
        further = () if server is None else ("--spark-config", f"spark.jars.packages={server}")
        _pytest(session, "-m", "gate", "-n", "1", "--spark-xdist=shared", *further, EVERY_HELPER)


def _install(session: nox.Session, group: str, *packages: str) -> None:
    session.install("--editable", ".[spark,zookeeper,pytest]", "--group", group, *packages)


def _pytest(
    session: nox.Session, *arguments: str, env: Mapping[str, str | None] | None = None
) -> None:
    command = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)
    session.run(*command, env=env)
