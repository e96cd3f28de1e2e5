"""Our classes in Spark's JVM do what Hadoop's and Spark's do."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from embedkafka.spark.connector.installed import release_numbers

pytestmark = pytest.mark.gate


PROFILE = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = all
appender.all.type = File
appender.all.name = all
appender.all.fileName = {file}
appender.all.layout.type = PatternLayout
appender.all.layout.pattern = %p %m%n
"""
SESSION = """
import sys
from embedkafka.spark.session import local_session

profile = {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={sys.argv[1]}"}
with local_session(config=profile, archive="no") as spark:
    assert spark.range(3).count() == 3
    assert spark.conf.get("spark.log.level", None) is None
"""


@pytest.fixture
def jvm(spark: SparkSession) -> Any:
    if not spark.sparkContext.master.startswith("local["):
        pytest.skip("our classes are for sessions whose driver runs everything")
    return spark._jvm


def test_local_files_get_the_permissions_that_hadoop_gives(
    jvm: Any, spark: SparkSession, tmp_path: Path
) -> None:
    files = jvm.org.apache.hadoop.fs
    path, permission = files.Path, files.permission.FsPermission
    conf = jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
    used = path(str(tmp_path)).getFileSystem(conf)
    assert used.getClass().getName() == "embedkafka.LocalFiles"
    conf.set("fs.permissions.umask-mode", "027")
    ours, theirs = jvm.embedkafka.LocalFiles(), files.LocalFileSystem()
    for system in (ours, theirs):
        system.initialize(used.getUri(), conf)

    modes = []
    for name, system in (("ours", ours), ("theirs", theirs)):
        system.create(path(str(tmp_path / name / "file"))).close()
        system.mkdirs(path(str(tmp_path / name / "shared")), permission("1777"))
        system.setPermission(path(str(tmp_path / name / "shared")), permission("1777"))
        found = [tmp_path / name, *(tmp_path / name).iterdir()]
        modes.append({each.name.removeprefix(name): oct(each.stat().st_mode) for each in found})

    assert modes[0] == modes[1]
    assert modes[0] == {
        "": "0o40750",
        ".file.crc": "0o100640",
        "file": "0o100640",
        "shared": "0o41777",
    }


def test_functions_of_mllib_are_registered_when_one_is_used(jvm: Any, spark: SparkSession) -> None:
    if release_numbers(spark.version)[:2] != (4, 0):
        pytest.skip("they are Spark's own in this release")
    pytest.importorskip("pandas", reason="MLlib needs it")
    from pyspark.ml.functions import array_to_vector, vector_to_array
    from pyspark.ml.linalg import Vectors

    module = jvm.org.apache.spark.sql.catalyst.analysis
    registry = getattr(getattr(module, "FunctionRegistry$"), "MODULE$").internal()
    before = names_in(registry)

    frame = spark.createDataFrame([(Vectors.dense(1.0, 2.0),)], ["vector"])
    (row,) = frame.select(vector_to_array(frame.vector).alias("array")).collect()
    assert row.array == [1.0, 2.0]
    again = spark.createDataFrame([([3.0, 4.0],)], ["array"])
    (row,) = again.select(array_to_vector(again.array).alias("vector")).collect()
    assert row.vector == Vectors.dense(3.0, 4.0)

    assert names_in(registry) == before, "Spark has functions that ours does not register"


def test_a_configuration_is_written_as_hadoop_writes_it(jvm: Any, spark: SparkSession) -> None:
    if release_numbers(spark.version)[:2] != (4, 0):
        pytest.skip("Spark's own class writes it in this release")
    hadoop, streams = jvm.org.apache.hadoop, jvm.java.io
    conf = hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
    conf.set("spark.test.text", "größer")
    conf.set("spark.test.origin", "known", "a test")

    written = streams.ByteArrayOutputStream()
    ours = jvm.org.apache.spark.util.SerializableConfiguration(conf)
    assert "embedkafka" in ours.getClass().getProtectionDomain().getCodeSource().toString()
    stream = streams.ObjectOutputStream(written)
    stream.writeObject(ours)
    stream.close()
    read = streams.ObjectInputStream(streams.ByteArrayInputStream(written.toByteArray()))
    copy = read.readObject().value()
    theirs = hadoop.conf.Configuration(False)
    stored = hadoop.io.DataOutputBuffer()
    conf.write(stored)
    theirs.readFields(streams.DataInputStream(streams.ByteArrayInputStream(stored.getData())))

    assert copy.getValByRegex(".*").equals(theirs.getValByRegex(".*"))
    assert copy.size() == conf.size() > 400
    assert copy.get("spark.test.text") == "größer"
    for name in ("spark.test.text", "spark.test.origin", "hadoop.tmp.dir"):
        assert list(copy.getPropertySources(name)) == list(theirs.getPropertySources(name))


def test_lines_that_nobody_would_read_are_not_composed(jvm: Any, spark: SparkSession) -> None:
    """With Spark's own profile for logs; its level is INFO, and a filter drops what it logs."""
    assert jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString() == "WARN"
    assert spark.conf.get("spark.log.level") == "WARN"


@pytest.mark.slow
def test_the_users_profile_for_logs_is_left_alone(tmp_path: Path) -> None:
    """Here it sends lines of level INFO to a file."""
    (tmp_path / "log4j2.properties").write_text(PROFILE.format(file=tmp_path / "all.log"))
    done = subprocess.run(
        [sys.executable, "-c", SESSION, str(tmp_path / "log4j2.properties")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "INFO" in (tmp_path / "all.log").read_text()


def names_in(registry: Any) -> set[str]:
    functions = registry.listFunction()
    return {functions.apply(index).funcName() for index in range(functions.size())}
