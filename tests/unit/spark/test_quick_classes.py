"""Where the classes for a local session are used. What they do is in `tests/spark`."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from embedkafka.spark.connector.installed import InstalledSpark
from embedkafka.spark.quick_classes import HOME, LOCAL_FILES, SPARK_4_0, SWITCH, quick_classes
from embedkafka.spark.unsigned_jars import unsigned_jars

SIGNED = {"META-INF/MANIFEST.MF": "", "META-INF/DUMMY.SF": "", "META-INF/DUMMY.DSA": ""}


def spark(release: str) -> InstalledSpark:
    return InstalledSpark(release=release, scala="2.13", jars_dir=Path("jars"))


def write_jar(path: Path, entries: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as jar:
        for name, text in entries.items():
            jar.writestr(name, text)


@pytest.mark.parametrize(
    ("jar", "sources"),
    [
        (LOCAL_FILES, ["LocalFiles.java"]),
        (SPARK_4_0, ["InternalFunctionRegistration.java", "SerializableConfiguration.java"]),
    ],
)
def test_the_jars_are_made_from_the_sources_beside_them(jar: Path, sources: list[str]) -> None:
    """If not: `python ci/spark_classes.py`."""
    content = b"".join((HOME / source).read_bytes() for source in sources)
    checksum = hashlib.sha256(content).hexdigest()[:40]
    with zipfile.ZipFile(jar) as archive:
        assert f"Source-SHA256: {checksum}" in archive.read("META-INF/MANIFEST.MF").decode()


@pytest.mark.parametrize(
    ("release", "jars"),
    [("3.5.9", [LOCAL_FILES]), ("4.0.3", [LOCAL_FILES, SPARK_4_0]), ("4.1.0", [LOCAL_FILES])],
)
def test_classes_of_spark_are_replaced_in_the_release_that_has_them(
    tmp_path: Path, release: str, jars: list[Path]
) -> None:
    assert quick_classes(spark(release), "local[2]", {}, cache=tmp_path)[0] == jars


@pytest.mark.parametrize("master", ["local-cluster[2,1,512]", "spark://host:7077", "yarn"])
def test_executors_of_their_own_do_without(tmp_path: Path, master: str) -> None:
    assert quick_classes(spark("4.0.0"), master, {}, cache=tmp_path) == ([], {})


def test_a_setting_leaves_them_out(tmp_path: Path) -> None:
    assert quick_classes(spark("4.0.0"), "local[2]", {SWITCH: "false"}, cache=tmp_path) == ([], {})


def test_a_signed_jar_is_copied_once_without_its_signature(tmp_path: Path) -> None:
    write_jar(tmp_path / "janino-3.1.9.jar", {**SIGNED, "Janino.class": "code"})
    write_jar(tmp_path / "commons-compiler-3.1.9.jar", {"Compiler.class": "code"})
    write_jar(tmp_path / "bcprov-1.80.jar", SIGNED)  # Java wants its signature

    (copy,) = unsigned_jars(tmp_path, tmp_path / "cache")

    with zipfile.ZipFile(copy) as jar:
        assert jar.namelist() == ["META-INF/MANIFEST.MF", "Janino.class"]
        assert jar.read("Janino.class") == b"code"
    written = copy.stat()
    assert written.st_mtime_ns == (tmp_path / "janino-3.1.9.jar").stat().st_mtime_ns
    assert unsigned_jars(tmp_path, tmp_path / "cache") == [copy]
    assert copy.stat().st_ino == written.st_ino
    assert list((tmp_path / "cache").iterdir()) == [copy]


def test_a_jar_that_cannot_be_copied_stays_signed(tmp_path: Path) -> None:
    write_jar(tmp_path / "janino-3.1.9.jar", SIGNED)
    (tmp_path / "cache").touch()
    assert unsigned_jars(tmp_path, tmp_path / "cache") == []
    (tmp_path / "janino-3.1.9.jar").write_text("no jar")
    assert unsigned_jars(tmp_path, tmp_path / "other") == []
