"""Runs the examples in this project's test session. Each also runs alone, from its folder."""

import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent

#: Needs Docker: `tests/tidy/test_examples.py` runs it on a stand-in for the container.
collect_ignore = ["moved_from_testcontainers/before"]

for project in EXAMPLES.glob("*/pyproject.toml"):
    sys.path.insert(0, str(project.parent))  # as if it were installed


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out `cdc` without `--spark-package spark-avro`: the others do without that jar.

    `tests/tidy/test_examples.py` runs it from its folder, where the setting is its own.
    """
    has_avro = "spark-avro" in config.getoption("spark_package")
    return True if collection_path == EXAMPLES / "cdc" and not has_avro else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(EXAMPLES):
            continue
        item.add_marker(pytest.mark.timeout(300))  # the first test waits for a JVM
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            # PySpark leaves sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
