"""Delta Lake and Iceberg by one word: the build for each Spark, and what a session needs."""

from pathlib import Path
from typing import Any

import pytest

from embedkafka.spark.connector.artifacts import Artifact
from embedkafka.spark.connector.installed import require_installed_spark
from embedkafka.spark.connector.jars import ConnectorNotFound
from embedkafka.spark.connector.packages import require_packages
from embedkafka.spark.connector.table_formats import (
    EXTENSIONS,
    TABLE_FORMATS,
    TableFormat,
    format_settings,
)
from tests.doubles.class_files import JavaClass
from tests.unit.spark.conftest import Machine

CATALOG = "spark.sql.catalog.spark_catalog"


@pytest.fixture
def find(machine: Machine) -> Any:
    def find(*names: str) -> list[str]:
        jars = require_packages(names, progress=lambda line: None, environ=machine.environ)
        return [jar.name for jar in jars]

    return find


def in_maven_store(machine: Machine, format_name: str, minor: tuple[int, int]) -> list[Path]:
    """The jars of the build for this minor release of Spark."""
    build = TABLE_FORMATS[format_name][minor]
    jars = []
    for artifact in build.artifacts(machine.scala):
        group = machine.home.joinpath(".m2", "repository", *artifact.group.split("."))
        folder = group / artifact.name / build.release
        jars.append(machine.make_jar(folder / artifact.jar_name(build.release), artifact))
    return jars


@pytest.mark.parametrize("format_name", list(TABLE_FORMATS))
@pytest.mark.parametrize("patch", ["4.0.0", "4.0.4"])
def test_every_patch_of_spark_has_the_build_of_its_minor(
    machine: Machine, find: Any, format_name: str, patch: str, caplog: pytest.LogCaptureFixture
) -> None:
    machine.install_spark(patch)
    jars = in_maven_store(machine, format_name, (4, 0))
    in_maven_store(machine, format_name, (4, 1))
    assert find(format_name) == [jar.name for jar in jars]
    assert not caplog.text


def test_all_jars_of_a_build_belong_together(machine: Machine, find: Any) -> None:
    storage = in_maven_store(machine, "delta", (4, 0))[1]
    storage.unlink()
    with pytest.raises(ConnectorNotFound, match=r"no complete set for 4\.0\.0"):
        find("delta")


def test_a_build_is_downloaded_once(machine: Machine, find: Any) -> None:
    machine.install_maven()
    build = TABLE_FORMATS["iceberg"][4, 0]
    (artifact,) = build.artifacts("2.13")
    machine.make_jar(machine.bin / "repository" / artifact.jar_name(build.release), artifact)
    (machine.bin / "repository" / "spark-any.jar").touch()  # so that it answers
    for _ in range(2):
        assert find("iceberg") == [artifact.jar_name(build.release)]
    assert machine.maven_calls == 1


def test_a_spark_without_a_build_gets_the_newest_that_links(
    machine: Machine, find: Any, caplog: pytest.LogCaptureFixture
) -> None:
    machine.install_spark("4.2.1", "2.13", JavaClass(name="org/apache/spark/Kept"))
    machine.needs("iceberg-spark-runtime-4.0_2.13-1.11.0.jar", "org/apache/spark/Kept")
    machine.needs("iceberg-spark-runtime-4.1_2.13-1.12.0.jar", "org/apache/spark/Gone")
    in_maven_store(machine, "iceberg", (4, 1))
    lower = in_maven_store(machine, "iceberg", (4, 0))
    assert find("iceberg") == [lower[0].name]
    assert "iceberg for Spark 4.2.1 (Scala 2.13) was not found; using" in caplog.text
    caplog.clear()
    machine_again = [jar.name for jar in require_packages(["iceberg"], environ=machine.environ)]
    assert machine_again == [lower[0].name], "kept in the cache"


def test_a_spark_that_no_build_links_with_is_a_clear_no(machine: Machine, find: Any) -> None:
    machine.install_spark("4.2.1")
    for minor in ((4, 0), (4, 1)):
        (jar,) = in_maven_store(machine, "iceberg", minor)
        machine.needs(jar.name, "org/apache/spark/Gone")
        in_maven_store(machine, "iceberg", minor)
    with pytest.raises(ConnectorNotFound) as no:
        find("iceberg")
    assert "no iceberg for Spark 4.2.1" in str(no.value)
    assert "needs the class org.apache.spark.Gone, which Spark 4.2.1 (Scala 2.13) lacks" in str(
        no.value
    )


def test_a_build_for_a_newer_spark_is_not_taken(machine: Machine, find: Any) -> None:
    machine.install_spark("4.0.0")
    in_maven_store(machine, "iceberg", (4, 1))
    with pytest.raises(ConnectorNotFound):
        find("iceberg")


def test_the_main_artifact_says_the_spark_it_is_for(machine: Machine) -> None:
    machine.install_spark("4.2.0")
    spark = require_installed_spark(machine.environ)
    assert TableFormat(spark=spark, title="delta").artifact == Artifact(
        group="io.delta",
        name="delta-spark_4.2_2.13",
        marker="io/delta/sql/DeltaSparkSessionExtension.class",
    )


def test_a_session_without_formats_has_no_settings_of_theirs() -> None:
    assert format_settings(["spark-avro"], {EXTENSIONS: "mine"}) == {}


def test_both_formats_fit_into_one_session() -> None:
    settings = format_settings(["delta", "iceberg"], {"spark.sql.warehouse.dir": "/tmp/w"})
    assert settings[EXTENSIONS].split(",") == [
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "io.delta.sql.DeltaSparkSessionExtension",
    ]
    assert settings[CATALOG] == "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    assert settings["spark.sql.catalog.iceberg.warehouse"] == "/tmp/w/iceberg"


def test_what_the_caller_sets_stays() -> None:
    given = {CATALOG: "mine", EXTENSIONS: "my.Extension"}
    settings = format_settings(["delta"], given)
    assert CATALOG not in settings
    assert settings[EXTENSIONS] == "io.delta.sql.DeltaSparkSessionExtension,my.Extension"
