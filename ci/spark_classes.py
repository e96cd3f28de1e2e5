"""Makes the jars in embedkafka/spark/jvm from their sources: `python ci/spark_classes.py`.

It takes a JDK, and PySpark 4.0 for the class path. Each jar names the checksum of its sources,
which a test compares.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from embedkafka.spark.connector.installed import require_installed_spark
from embedkafka.spark.quick_classes import HOME, LOCAL_FILES, SPARK_4_0

JARS = {
    LOCAL_FILES: (["LocalFiles.java"], "8"),  # Spark 3.5 runs on Java 8 as well
    SPARK_4_0: (["InternalFunctionRegistration.java", "SerializableConfiguration.java"], "17"),
}
CHECKSUM = "Source-SHA256"
LONG_AGO = (1980, 1, 1, 0, 0, 0)


def main() -> None:
    for jar, (names, release) in JARS.items():
        sources = [HOME / name for name in names]
        with tempfile.TemporaryDirectory() as classes:
            compile_java(sources, release, Path(classes))
            write_jar(jar, sources, Path(classes))


def compile_java(sources: Sequence[Path], release: str, classes: Path) -> None:
    libraries = f"{require_installed_spark().jars_dir}/*"
    options = ["--release", release, "-Xlint:none", "-nowarn", "-d", str(classes)]
    done = subprocess.run(
        ["javac", *options, "-cp", libraries, *map(str, sources)], capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(done.stderr)


def write_jar(jar: Path, sources: Sequence[Path], classes: Path) -> None:
    """The same bytes for the same classes, whatever the time."""
    manifest = f"Manifest-Version: 1.0\n{CHECKSUM}: {checksum(sources)}\n\n"
    files = {str(path.relative_to(classes)): path for path in sorted(classes.rglob("*.class"))}
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", LONG_AGO), manifest)
        for name, path in files.items():
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), path.read_bytes())


def checksum(sources: Sequence[Path]) -> str:
    content = b"".join(source.read_bytes() for source in sources)
    return hashlib.sha256(content).hexdigest()[:40]  # a line holds 72 bytes


if __name__ == "__main__":
    main()
