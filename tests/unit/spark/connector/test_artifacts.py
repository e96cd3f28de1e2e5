"""Releases and jar names, as values."""

from typing import Any

import pytest

from embedkafka.spark.connector.artifacts import (
    companion_releases,
    connector_artifact,
    lower_releases,
    nearest_releases,
)
from embedkafka.spark.connector.installed import release_numbers


@pytest.mark.parametrize(
    ("release", "numbers"),
    [("4.0.0", (4, 0, 0)), ("3.5.10", (3, 5, 10)), ("3.5.1-amzn-0", (3, 5, 1))],
)
def test_releases_compare_as_numbers(release: str, numbers: tuple[int, int, int]) -> None:
    assert release_numbers(release) == numbers


@pytest.mark.parametrize(
    ("file_name", "release"),
    [
        ("spark-sql-kafka-0-10_2.13-4.0.0.jar", "4.0.0"),
        ("org.apache.spark_spark-sql-kafka-0-10_2.13-4.0.0.jar", "4.0.0"),
        ("spark-sql-kafka-0-10_2.12-4.0.0.jar", None),
        ("spark-sql-kafka-0-10_2.13-4.0.0.pom", None),
        ("my-spark-sql-kafka-0-10_2.13-4.0.0.jar", None),
    ],
)
def test_a_jar_is_known_by_its_name(file_name: str, release: str | None) -> None:
    assert connector_artifact("2.13").find_release(file_name) == release


@pytest.mark.parametrize(
    ("available", "wanted", "ordered"),
    [
        (["3.8.0", "3.9.0", "4.0.0"], "3.9.0", ["3.9.0", "3.8.0"]),
        (["3.4.1", "3.10.0", "3.8.0", "4.0.0"], "3.9.0", ["3.8.0", "3.4.1", "3.10.0"]),
        (["3.10.0", "3.9.2"], "3.9.0", ["3.9.2", "3.10.0"]),
        (
            ["3.9.0-vendor", "3.9.0", "3.9.0-other"],
            "3.9.0",
            ["3.9.0", "3.9.0-other", "3.9.0-vendor"],
        ),
        (["4.0.0"], "3.9.0", []),
        ([], "3.9.0", []),
    ],
)
def test_the_nearest_releases_stay_in_the_major_line(
    available: list[str], wanted: str, ordered: list[str]
) -> None:
    assert nearest_releases(available, wanted) == ordered


@pytest.mark.parametrize(
    ("release", "lower"),
    [
        ("4.0.0", []),
        ("4.0.2", ["4.0.1", "4.0.0"]),
        ("4.2.1", ["4.2.0", "4.1.0", "4.0.0"]),
        ("3.5.1", ["3.5.0"]),
    ],
)
def test_lower_releases_end_with_the_first_that_is_supported(release: str, lower: Any) -> None:
    assert lower_releases(release) == lower


def test_companions_are_known_without_a_pom() -> None:
    assert companion_releases("3.5.4", "2.12", None) == {
        "spark-token-provider-kafka-0-10_2.12": "3.5.4",
        "kafka-clients": "3.4.1",
        "commons-pool2": "2.12.0",
    }
