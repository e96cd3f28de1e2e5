"""Further modules of Spark by one word: where they are found, and what is said if they are not."""

from pathlib import Path
from typing import Any

import pytest

from embedkafka.runtime.failures import ConfigError
from embedkafka.spark.connector.artifacts import Artifact
from embedkafka.spark.connector.installed import require_installed_spark
from embedkafka.spark.connector.jars import ConnectorNotFound
from embedkafka.spark.connector.modules import Package
from embedkafka.spark.connector.packages import require_packages
from tests.doubles.class_files import JavaClass
from tests.unit.spark.conftest import Machine

AVRO = "spark-avro"


@pytest.fixture
def avro(machine: Machine) -> Artifact:
    return Package(spark=require_installed_spark(machine.environ), title=AVRO).artifact


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def find(machine: Machine, said: list[str]) -> Any:
    def find(*names: str, given: tuple[Path, ...] = ()) -> tuple[Path, ...]:
        return require_packages(names, given=given, progress=said.append, environ=machine.environ)

    return find


def in_maven_store(machine: Machine, artifact: Artifact, release: str) -> Path:
    folder = machine.home / ".m2" / "repository" / "org" / "apache" / "spark" / artifact.name
    return machine.make_jar(folder / release / artifact.jar_name(release), artifact)


def offered_by_maven(machine: Machine, artifact: Artifact, release: str) -> None:
    machine.install_maven()
    machine.make_jar(machine.bin / "repository" / artifact.jar_name(release), artifact)


def test_a_package_is_found_in_mavens_store(machine: Machine, avro: Artifact, find: Any) -> None:
    jar = in_maven_store(machine, avro, "4.0.0")
    assert find(AVRO, AVRO) == (jar,)


def test_a_package_is_downloaded_once(
    machine: Machine, avro: Artifact, find: Any, said: list[str]
) -> None:
    offered_by_maven(machine, avro, "4.0.0")
    (jar,) = find(AVRO)
    assert jar.is_relative_to(machine.cache)
    assert jar.name == "spark-avro_2.13-4.0.0.jar"
    assert said == ["downloading spark-avro 4.0.0 with Maven, this once"]
    assert find(AVRO) == (jar,)
    assert machine.maven_calls == 1


def test_a_package_does_not_disturb_the_cached_connector(
    machine: Machine, avro: Artifact, find: Any
) -> None:
    connector = machine.fill_flat(machine.cache / "spark-jars" / "spark-4.0.0_2.13", "4.0.0")
    offered_by_maven(machine, avro, "4.0.0")
    find(AVRO)
    assert all(jar.exists() for jar in connector)


def test_a_package_among_the_given_jars_is_not_looked_for(find: Any, tmp_path: Path) -> None:
    assert find(AVRO, given=(tmp_path / "spark-avro_2.13-4.0.0.jar",)) == ()


def test_the_nearest_lower_release_that_links_stands_in(
    machine: Machine, avro: Artifact, find: Any, caplog: pytest.LogCaptureFixture
) -> None:
    machine.install_spark("4.2.0")
    machine.needs("spark-avro_2.13-4.1.0.jar", "org/apache/spark/Gone")
    in_maven_store(machine, avro, "4.1.0")
    lower = in_maven_store(machine, avro, "4.0.0")
    assert find(AVRO) == (lower,)
    assert "using spark-avro_2.13-4.0.0.jar" in caplog.text


def test_a_package_that_needs_what_spark_has_links(
    machine: Machine, avro: Artifact, find: Any
) -> None:
    machine.install_spark("4.2.0", "2.13", JavaClass(name="org/apache/spark/Kept"))
    machine.needs("spark-avro_2.13-4.1.0.jar", "org/apache/spark/Kept")
    jar = in_maven_store(machine, avro, "4.1.0")
    assert find(AVRO) == (jar,)


def test_another_jar_of_that_name_is_refused(machine: Machine, avro: Artifact, find: Any) -> None:
    jar = in_maven_store(machine, avro, "4.0.0")
    jar.write_bytes(b"an error page")
    with pytest.raises(ConnectorNotFound, match="not a readable jar"):
        find(AVRO)


def test_a_package_that_is_nowhere_is_told_with_the_way_out(find: Any) -> None:
    with pytest.raises(ConnectorNotFound, match="spark-jars --package spark-avro"):
        find(AVRO)


def test_an_unknown_package_is_misuse(find: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"only spark-avro, spark-protobuf, delta, iceberg.*spark\.jars\.packages"
    ):
        find("hudi")
