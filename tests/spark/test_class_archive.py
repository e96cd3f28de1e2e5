"""Sessions that make a class archive, start from it, and do without a broken one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from embedkafka.spark.connector.jars import require_connector
from embedkafka.spark.connector.java import find_java, read_release

SESSION = """
import sys
from embedkafka.spark.session import local_session

logged = {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={sys.argv[1]}"}
with local_session(config=logged) as spark:
    assert spark.range(3).count() == 3
"""
FROM_ARCHIVE = "org.apache.spark.SparkContext source: shared objects file (top)"
FROM_JAR = "org.apache.spark.SparkContext source: file:"


@pytest.mark.slow
@pytest.mark.timeout(800)  # three JVMs, one of which writes an archive
def test_the_second_session_starts_from_the_first_ones_classes(tmp_path: Path) -> None:
    java = find_java(os.environ)
    release = read_release(java) if java else None
    if release is None or not release.has_class_archive:
        pytest.skip("this Java has no archive of its own classes")

    output, loaded = run_session(tmp_path)
    assert "archiving Spark's classes" in output
    assert FROM_ARCHIVE not in loaded

    output, loaded = run_session(tmp_path)
    assert "archiv" not in output
    assert FROM_ARCHIVE in loaded

    (archive,) = (tmp_path / "cache" / "spark-archives").glob("*.jsa")
    archive.chmod(0o644)
    os.truncate(archive, archive.stat().st_size // 2)  # a JVM that maps it would crash
    output, loaded = run_session(tmp_path, CI="true")
    assert f"removing the class archive {archive}, which is damaged" in output
    assert FROM_JAR in loaded


def run_session(tmp_path: Path, **environ: str) -> tuple[str, str]:
    """What a session prints, and which classes its JVM loads from where."""
    classes = tmp_path / "classes.log"
    jars = os.pathsep.join(str(jar) for jar in require_connector().jars)
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        [sys.executable, "-c", SESSION, classes],
        env={
            **kept,
            "EMBEDKAFKA_CACHE": str(tmp_path / "cache"),
            "EMBEDKAFKA_SPARK_JARS": jars,
            "EMBEDKAFKA_SPARK_ARCHIVE": "auto",
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr, classes.read_text()
