"""Makes the jars in embedkafka/spark/jvm from their sources: `python ci/spark_classes.py`.

It takes a JDK, and PySpark 4.0 for the class path. Each jar names the checksum of its source, which
a test compares.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from embedkafka.spark.connector.installed import require_installed_spark
from embedkafka.spark.quick_classes import HOME, LAZY_MLLIB, LOCAL_FILES

JARS = {
    LOCAL_FILES: ("LocalFiles.java", "8"),  # Spark 3.5 runs on Java 8 as well
    LAZY_MLLIB: ("InternalFunctionRegistration.java", "17"),
}
CHECKSUM = "Source-SHA256"
LONG_AGO = (1980, 1, 1, 0, 0, 0)


def main() -> None:
    for jar, (name, release) in JARS.items():
        source = HOME / name
        with tempfile.TemporaryDirectory() as classes:
            compile_java(source, release, Path(classes))
            write_jar(jar, source, Path(classes))


def compile_java(source: Path, release: str, classes: Path) -> None:
    libraries = f"{require_installed_spark().jars_dir}/*"
    options = ["--release", release, "-Xlint:none", "-nowarn", "-d", str(classes)]
    done = subprocess.run(
        ["javac", *options, "-cp", libraries, str(source)], capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(done.stderr)


def write_jar(jar: Path, source: Path, classes: Path) -> None:
    """The same bytes for the same classes, whatever the time."""
    manifest = f"Manifest-Version: 1.0\n{CHECKSUM}: {checksum(source)}\n\n"
    files = {str(path.relative_to(classes)): path for path in sorted(classes.rglob("*.class"))}
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", LONG_AGO), manifest)
        for name, path in files.items():
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), path.read_bytes())


def checksum(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()[:40]  # a line holds 72 bytes


if __name__ == "__main__":
    main()
