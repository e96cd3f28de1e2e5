"""Our file system in Spark's JVM does what Hadoop's does, and no lines are logged for nobody."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

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
