"""The settings of a session, and the errors when there can be none. No JVM starts here."""

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from embedkafka.spark import session
from embedkafka.spark.connector.installed import InstalledSpark, require_installed_spark
from embedkafka.spark.local_files import HOME, LOCAL_FILES
from tests.unit.spark.conftest import Machine

START = """
import sys
import zipfile
from embedkafka.spark.session import SparkStartFailed, local_session
try:
    with local_session(jars=sys.argv[1:]):
        sys.exit("started")
except SparkStartFailed as failed:
    print(failed)
"""


@pytest.fixture
def settings(machine: Machine, tmp_path: Path) -> Any:
    """The settings for a connector whose last jar is among Spark's own."""
    machine.fill_flat(tmp_path / "given", "4.0.0")
    own = machine.spark_jars / "commons-pool2-2.12.0.jar"
    jars = (tmp_path / "given" / "kafka-clients-3.9.0.jar", own)
    spark = require_installed_spark(machine.environ)

    def settings(**config: Any) -> Any:
        spelled = {key.replace("_", "."): value for key, value in config.items()}
        return session._settings("app", jars, spark, tmp_path, (), spelled)

    return settings


def test_a_session_stays_on_the_loopback_and_in_its_folder(settings: Any, tmp_path: Path) -> None:
    made = settings()
    assert made["spark.driver.host"] == made["spark.driver.bindAddress"] == "127.0.0.1"
    assert made["spark.app.name"] == "app"
    for key in ("spark.local.dir", "spark.sql.warehouse.dir", session.LOG_FILE_KEY):
        assert made[key].startswith(str(tmp_path))
    assert f"-Djava.io.tmpdir={tmp_path}" in session._temporary_options(tmp_path)


def test_jars_that_most_classes_come_from_follow_the_connectors_and_the_callers(
    settings: Any, machine: Machine, tmp_path: Path
) -> None:
    (machine.spark_jars / "scala-library-2.13.16.jar").touch()
    made = settings(spark_driver_extraClassPath="/x.jar")
    assert made["spark.driver.extraClassPath"].split(os.pathsep) == [
        str(LOCAL_FILES),
        str(tmp_path / "given" / "kafka-clients-3.9.0.jar"),
        "/x.jar",
        str(machine.spark_jars / "scala-library-2.13.16.jar"),
        str(machine.spark_jars / "spark-core_2.13-4.0.0.jar"),
    ]


def test_the_jar_of_the_file_system_is_made_from_the_source_beside_it() -> None:
    """If not: `python ci/spark_classes.py`."""
    checksum = hashlib.sha256((HOME / "LocalFiles.java").read_bytes()).hexdigest()[:40]
    with zipfile.ZipFile(LOCAL_FILES) as jar:
        assert f"Source-SHA256: {checksum}" in jar.read("META-INF/MANIFEST.MF").decode()


@pytest.mark.parametrize("master", ["local-cluster[2,1,512]", "spark://host:7077", "yarn"])
def test_executors_of_their_own_have_hadoops_file_system(settings: Any, master: str) -> None:
    made = settings(spark_master=master)
    assert "spark.hadoop.fs.file.impl" not in made
    assert str(LOCAL_FILES) not in made["spark.driver.extraClassPath"]


def test_another_file_system_replaces_ours(settings: Any) -> None:
    made = settings(spark_hadoop_fs_file_impl="org.apache.hadoop.fs.LocalFileSystem")
    assert made["spark.hadoop.fs.file.impl"] == "org.apache.hadoop.fs.LocalFileSystem"
    assert str(LOCAL_FILES) not in made["spark.driver.extraClassPath"]


def test_the_callers_settings_have_the_last_word(settings: Any) -> None:
    made = settings(spark_master="local[1]", spark_sql_shuffle_partitions=7)
    assert made["spark.master"] == "local[1]"
    assert made["spark.sql.shuffle.partitions"] == "7"


@pytest.mark.parametrize(
    ("release", "package"),
    [("3.5.9", "streaming"), ("4.0.0", "streaming"), ("4.1.0", "streaming.checkpointing")],
)
def test_local_checkpoints_start_no_processes(tmp_path: Path, release: str, package: str) -> None:
    """A class of Spark does it, whose package depends on the release."""
    spark = InstalledSpark(release=release, scala="2.13", jars_dir=tmp_path)
    made = session._quick_checkpoints(spark, "local[2]")
    assert made["spark.sql.streaming.checkpointFileManagerClass"] == (
        f"org.apache.spark.sql.execution.{package}.FileSystemBasedCheckpointFileManager"
    )


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://host:443"])
def test_checkpoints_of_a_cluster_are_left_to_spark(settings: Any, master: str) -> None:
    made = settings(spark_master=master)
    assert "spark.sql.streaming.checkpointFileManagerClass" not in made


@pytest.mark.parametrize(("folder", "is_named"), [("spark", True), ("my spark", False)])
def test_the_launcher_need_not_look_into_all_jars(
    tmp_path: Path, folder: str, is_named: bool
) -> None:
    """Spark's script splits the options at spaces."""
    launcher = tmp_path / folder / "spark-launcher_2.13-4.0.0.jar"
    launcher.parent.mkdir()
    launcher.touch()
    spark = InstalledSpark(release="4.0.0", scala="2.13", jars_dir=launcher.parent)
    options = session._launcher_options(spark)
    assert (f"-Xbootclasspath/a:{launcher}" in options) == is_named


def test_java_options_are_added_to_ours(settings: Any) -> None:
    made = settings(spark_driver_extraJavaOptions="-Xmx1g")
    assert made["spark.driver.extraJavaOptions"].endswith(" -Xmx1g")
    assert "-XX:+UseSerialGC" in made["spark.driver.extraJavaOptions"]


def test_the_heap_starts_small_and_the_caller_may_start_it_larger(settings: Any) -> None:
    made = settings(spark_driver_extraJavaOptions="-Xms1g")["spark.driver.extraJavaOptions"]
    assert "-Xms160m" in made
    assert made.index("-Xms160m") < made.index("-Xms1g"), "Java takes the last one"


def start(given: Any, **environ: Any) -> Any:
    """Starts a session in a separate process and returns its output."""
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", START, *map(str, given)],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def real_spark_jars(machine: Machine, tmp_path: Path) -> Any:
    """Jars that pass the checks beside the installed PySpark."""
    installed = require_installed_spark({})
    if installed.scala != machine.scala:
        pytest.skip(f"the installed Spark has Scala {installed.scala}")
    return machine.fill_flat(tmp_path / "given", installed.release)


def test_a_missing_java_is_told_before_spark_starts(real_spark_jars: Any, tmp_path: Path) -> None:
    said = start(real_spark_jars, PATH="/nowhere")
    assert "needs Java" in said
    assert "no java on the PATH" in said
    assert "JAVA_HOME=/there has no bin/java" in start(real_spark_jars, JAVA_HOME="/there")


def test_a_jvm_that_dies_is_told_with_its_last_words(real_spark_jars: Any, tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.4\", too old for you' >&2\nexit 1\n")
    java.chmod(0o755)
    said = start(real_spark_jars, JAVA_HOME=str(tmp_path / "jdk"))
    assert "ended before it was ready" in said
    assert "too old for you" in said
    assert str(java) in said


def test_the_tail_of_a_log_starts_where_it_is_told_to(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\ntwo\nthree\nfour\n")
    assert session.log_tail(log, lines=2) == "three\nfour"
    assert session.log_tail(log, start=14) == "four"
    assert session.log_tail(tmp_path / "absent") == ""


@pytest.mark.skipif(sys.platform != "linux", reason="the option is Linux's")
@pytest.mark.parametrize(
    ("version", "option"),
    [("1.8.0_402", ""), ("17.0.15", "-Djdk.lang.Process.launchMechanism=VFORK"), ("22", "")],
)
def test_a_java_with_a_helper_for_processes_does_without(
    tmp_path: Path, version: str, option: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(mode=0o755)
    (tmp_path / "release").write_text(f'JAVA_VERSION="{version}"\n')

    assert session.quick_processes({"JAVA_HOME": str(tmp_path)}) == option
