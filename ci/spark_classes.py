"""Makes the jar in embedkafka/spark/jvm from its source: `python ci/spark_classes.py`.

It takes a JDK, and PySpark for the class path. The jar names the checksum of its source, which a
test compares.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from embedkafka.spark.connector.installed import require_installed_spark
from embedkafka.spark.local_files import HOME, LOCAL_FILES

SOURCE = HOME / "LocalFiles.java"
RELEASE = "8"  # Spark 3.5 runs on Java 8 as well
CHECKSUM = "Source-SHA256"
LONG_AGO = (1980, 1, 1, 0, 0, 0)


def main() -> None:
    with tempfile.TemporaryDirectory() as classes:
        compile_java(Path(classes))
        write_jar(Path(classes))


def compile_java(classes: Path) -> None:
    libraries = f"{require_installed_spark().jars_dir}/*"
    options = ["--release", RELEASE, "-Xlint:none", "-nowarn", "-d", str(classes)]
    done = subprocess.run(
        ["javac", *options, "-cp", libraries, str(SOURCE)], capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(done.stderr)


def write_jar(classes: Path) -> None:
    """The same bytes for the same classes, whatever the time."""
    checksum = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:40]  # a line holds 72 bytes
    manifest = f"Manifest-Version: 1.0\n{CHECKSUM}: {checksum}\n\n"
    files = {str(path.relative_to(classes)): path for path in sorted(classes.rglob("*.class"))}
    with zipfile.ZipFile(LOCAL_FILES, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", LONG_AGO), manifest)
        for name, path in files.items():
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), path.read_bytes())


if __name__ == "__main__":
    main()
