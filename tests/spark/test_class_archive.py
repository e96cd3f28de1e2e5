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
STREAM = """
import sys
from embedkafka import EmbeddedKafka
from embedkafka.spark.session import local_session

logged = {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={sys.argv[1]}"}
with local_session(config=logged) as spark, EmbeddedKafka(brokers=1) as kafka:
    source = kafka.topic("orders").stream(spark)
    query = source.writeStream.format("memory").queryName("orders").start()
    query.processAllAvailable()
    query.stop()
"""
FROM_ARCHIVE = "org.apache.spark.SparkContext source: shared objects file (top)"
FROM_JAR = "org.apache.spark.SparkContext source: file:"


FROM_CONNECTOR = "org.apache.spark.sql.kafka010.KafkaMicroBatchStream source: shared objects"
COMMAND = "import sys; from embedkafka.cli import main; sys.exit(main(sys.argv[1:]))"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(800)]  # each writes an archive


@pytest.fixture(autouse=True)
def java_with_classes() -> None:
    java = find_java(os.environ)
    release = read_release(java) if java else None
    if release is None or not release.has_class_archive:
        pytest.skip("this Java has no archive of its own classes")


def test_the_command_archives_what_a_session_then_starts_from(tmp_path: Path) -> None:
    done = run(tmp_path, COMMAND, "spark-jars", "--archive", CI="true")
    assert "archiving Spark's classes" in done.stderr
    assert len(done.stdout.split()) == len(require_connector().jars)
    (archive,) = (tmp_path / "cache" / "spark-archives").glob("*.jsa")
    written = archive.stat().st_size

    output, loaded = run_session(tmp_path, STREAM, CI="true")

    assert "archiv" not in output
    assert FROM_ARCHIVE in loaded
    assert FROM_CONNECTOR in loaded
    assert archive.stat().st_size == written


def test_the_second_session_starts_from_the_first_ones_classes(tmp_path: Path) -> None:
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


def run_session(tmp_path: Path, script: str = SESSION, **environ: str) -> tuple[str, str]:
    """What a session prints, and which classes its JVM loads from where."""
    classes = tmp_path / "classes.log"
    return run(tmp_path, script, str(classes), **environ).stderr, classes.read_text()


def run(
    tmp_path: Path, script: str, *arguments: str, **environ: str
) -> "subprocess.CompletedProcess[str]":
    """Runs a script with the connector of this machine and a cache of its own, that lasts."""
    temporary = tmp_path / "temporary"
    temporary.mkdir(exist_ok=True)
    jars = os.pathsep.join(str(jar) for jar in require_connector().jars)
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={
            **kept,
            "TMPDIR": str(temporary),
            "EMBEDKAFKA_CACHE": str(tmp_path / "cache"),
            "EMBEDKAFKA_SPARK_JARS": jars,
            "EMBEDKAFKA_SPARK_ARCHIVE": "auto",
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=350,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
