"""Which class archive a session uses or makes, and that it never trusts a broken one. No JVM."""

import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from embedkafka.runtime.failures import ConfigError
from embedkafka.spark.class_archive import (
    AUTO,
    NEW,
    NO,
    USE,
    Launch,
    SessionArchive,
    find_launch,
    require_wish,
    session_archive,
)
from embedkafka.spark.connector.installed import require_installed_spark
from tests.unit.spark.conftest import Machine

CONTENT = b"classes" * 1000


@pytest.fixture(autouse=True)
def another_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Otherwise all that a test makes would be temporary."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


@pytest.fixture
def install_java(machine: Machine) -> Any:
    """Installs a Java of this version, as distributions do: with a link on the PATH."""

    def install(version: str, *, release_file: bool = True, archive: bool = True) -> None:
        home = machine.root / f"jdk-{version}"
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").write_text("#!/bin/sh\n")
        (home / "bin" / "java").chmod(0o755)
        if release_file:
            (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
        if archive:
            (home / "lib" / "server").mkdir(parents=True)
            (home / "lib" / "server" / "classes.jsa").touch()
        (machine.bin / "java").unlink(missing_ok=True)
        (machine.bin / "java").symlink_to(home / "bin" / "java")

    return install


@pytest.fixture
def jar(machine: Machine) -> Path:
    return machine.fill_flat(machine.root / "given", "4.0.0")[0]


@pytest.fixture
def launch_with(machine: Machine, jar: Path) -> Any:
    """The launch with these Java options."""

    def launch_with(*java_options: str, class_path: Path = jar) -> Launch | None:
        spark = require_installed_spark(machine.environ)
        return find_launch(spark, [str(class_path)], java_options, machine.environ)

    return launch_with


@pytest.fixture
def launch(install_java: Any, launch_with: Any) -> Launch:
    install_java("17.0.15")
    found: Launch = launch_with()
    return found


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def archives(machine: Machine) -> Path:
    return machine.cache / "spark-archives"


@pytest.fixture
def opened(machine: Machine, said: list[str]) -> Any:
    """What a session with this launch and wish does."""

    @contextmanager
    def opened(launch: Launch, wish: str = AUTO, **environ: str) -> Iterator[SessionArchive]:
        known = {**machine.environ, **environ}
        with session_archive(launch, wish, progress=said.append, environ=known) as archive:
            yield archive

    return opened


@pytest.fixture
def make(opened: Any, tmp_path: Path) -> Any:
    """Runs a session to its end, whose JVM writes this archive."""

    def make(launch: Launch, wish: str = AUTO, content: bytes = CONTENT) -> Path:
        with opened(launch, wish) as archive:
            draft = path_in(archive, "ArchiveClassesAtExit")
            draft.write_bytes(content)
            archive.on_ended(0, tmp_path / "absent.log")
        with opened(launch) as archive:
            return path_in(archive, "SharedArchiveFile")

    return make


def path_in(archive: SessionArchive, option: str) -> Path:
    values = dict(word.split("=", 1) for word in shlex.split(archive.java_options) if "=" in word)
    return Path(values[f"-XX:{option}"])


def test_the_second_session_uses_what_the_first_one_made(
    launch: Launch, make: Any, said: list[str]
) -> None:
    assert make(launch).read_bytes() == CONTENT
    assert said == []


def test_a_session_that_makes_an_archive_says_so_before_it_takes_its_time(
    launch: Launch, opened: Any, said: list[str]
) -> None:
    with opened(launch) as archive:
        assert archive.on_ending(failed=False, patience_seconds=20) > 20
    assert "archiving Spark's classes" in said[0]
    assert "EMBEDKAFKA_SPARK_ARCHIVE=no" in said[0]


def test_a_session_that_failed_is_not_archived(
    launch: Launch, opened: Any, said: list[str], archives: Path, tmp_path: Path
) -> None:
    with opened(launch) as archive:
        path_in(archive, "ArchiveClassesAtExit").write_bytes(CONTENT)
        assert archive.on_ending(failed=True, patience_seconds=20) == 0
        archive.on_ended(0, tmp_path / "absent.log")
    assert said == []
    assert not list(archives.glob("*.jsa"))


def test_one_of_several_sessions_makes_the_archive(launch: Launch, opened: Any) -> None:
    with opened(launch) as first, opened(launch) as second:
        assert "ArchiveClassesAtExit" in first.java_options
        assert second.java_options == ""
        assert second.on_ending(failed=False, patience_seconds=20) == 20
    with opened(launch) as third:
        assert "ArchiveClassesAtExit" in third.java_options


def test_a_jvm_that_was_killed_leaves_nothing(
    launch: Launch, opened: Any, archives: Path, tmp_path: Path
) -> None:
    with opened(launch) as archive:
        path_in(archive, "ArchiveClassesAtExit").write_bytes(CONTENT[:10])
        archive.on_ended(-9, tmp_path / "absent.log")
    assert [path.suffix for path in archives.iterdir()] == [".lock"]
    with opened(launch) as archive:
        assert "ArchiveClassesAtExit" in archive.java_options


@pytest.mark.parametrize("damage", [b"", CONTENT[:-1], b"C" + CONTENT[1:], CONTENT + b"!"])
def test_a_damaged_archive_is_removed_and_made_again(
    launch: Launch, make: Any, opened: Any, said: list[str], damage: bytes
) -> None:
    made = make(launch)
    made.write_bytes(damage)
    with opened(launch) as archive:
        assert "ArchiveClassesAtExit" in archive.java_options
    assert not made.exists()
    assert said == [f"removing the class archive {made}, which is damaged"]


def test_what_a_jvm_cannot_archive_is_not_tried_again(
    launch: Launch, opened: Any, said: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "spark.log"
    log.write_text(
        "[9.0s][warning][cds] Skipping a/B: Old class has been linked\n"
        "[9.1s][warning][cds,dynamic] There is a non-empty directory on the class path\n"
    )
    with opened(launch) as archive:
        archive.on_ended(0, log)
    assert said == [
        "there will be no class archive: There is a non-empty directory on the class path"
    ]
    with opened(launch) as archive:
        assert archive.java_options == ""
    with opened(launch, NEW) as archive:
        assert "ArchiveClassesAtExit" in archive.java_options


def test_a_new_archive_replaces_the_old_one(launch: Launch, make: Any, archives: Path) -> None:
    make(launch)
    newer = make(launch, NEW, b"more classes")
    assert newer.read_bytes() == b"more classes"
    assert list(archives.glob("*.jsa")) == [newer]


@pytest.mark.parametrize(("wish", "environ"), [(AUTO, {"CI": "true"}), (USE, {})])
def test_ci_and_who_says_so_use_an_archive_but_make_none(
    launch: Launch, make: Any, opened: Any, wish: str, environ: dict[str, str]
) -> None:
    with opened(launch, wish, **environ) as archive:
        assert archive.java_options == ""
    make(launch)
    with opened(launch, wish, **environ) as archive:
        assert "SharedArchiveFile" in archive.java_options


def test_java_maps_an_archive_at_its_address(launch: Launch, make: Any, opened: Any) -> None:
    """Elsewhere it would correct all the addresses in it."""
    make(launch)
    with opened(launch) as archive:
        assert "-XX:ArchiveRelocationMode=0" in archive.java_options


def test_no_means_no(launch: Launch, make: Any, opened: Any) -> None:
    make(launch)
    with opened(launch, NO) as archive:
        assert archive.java_options == ""


def test_a_class_path_that_will_not_come_back_gets_no_archive(
    launch: Launch, opened: Any, another_temporary_folder: Path, said: list[str]
) -> None:
    passing = replace(launch, class_path=(another_temporary_folder / "pytest-1" / "job.jar",))
    with opened(passing) as archive:
        assert archive.java_options == ""
    (line,) = said
    assert str(another_temporary_folder) in line
    assert "EMBEDKAFKA_SPARK_ARCHIVE=new writes one all the same" in line


def test_ci_hears_once_how_to_have_an_archive(
    launch: Launch, make: Any, opened: Any, said: list[str]
) -> None:
    with opened(launch, CI="true"):
        (line,) = said
    assert "`embedkafka spark-jars --archive`" in line
    make(launch)
    said.clear()
    with opened(launch, CI="true"):
        assert said == []


def test_only_the_archives_used_last_are_kept(launch: Launch, make: Any, archives: Path) -> None:
    made = [make(replace(launch, java_options=(f"-Xmx{n}g",))) for n in range(5)]
    assert len(set(made)) == 5
    assert len(list(archives.glob("*.jsa"))) == 3
    assert made[-1].exists()


def test_a_cache_that_cannot_be_written_costs_only_the_archive(
    launch: Launch, opened: Any, archives: Path, said: list[str]
) -> None:
    archives.parent.mkdir()
    archives.write_text("a file")
    with opened(launch) as archive:
        assert archive.java_options == ""
    assert "EMBEDKAFKA_CACHE may name another directory" in said[0]


def test_the_reason_of_a_java_that_ignores_its_archive_is_shown(
    launch: Launch, make: Any, opened: Any, said: list[str], tmp_path: Path
) -> None:
    made = make(launch)
    log = tmp_path / "spark.log"
    log.write_text("[0.1s][warning][cds] shared class paths mismatch\nstarted\n")
    with opened(launch) as archive:
        archive.on_started(log)
    assert said == [f"Java does not use the class archive {made}: shared class paths mismatch"]


def test_a_java_that_does_not_start_gets_a_second_chance_without(
    launch: Launch, make: Any, opened: Any, said: list[str]
) -> None:
    made = make(launch)
    with opened(launch) as archive:
        archive.on_failed_start()
        assert archive.java_options == ""
    assert said == [f"starting Spark again, without the class archive {made}"]


def test_another_java_jar_or_option_needs_another_archive(
    launch: Launch, launch_with: Any, install_java: Any, machine: Machine, jar: Path
) -> None:
    keys = [launch.key, launch_with("-Xmx4g").key]
    (machine.spark_jars / "added.jar").touch()
    keys.append(launch.key)
    jar.write_bytes(b"another release")
    keys.append(launch.key)
    install_java("21.0.2")
    keys.append(launch_with().key)
    machine.extra["SPARK_DIST_CLASSPATH"] = "/opt/hadoop/lib/a.jar"
    keys.append(launch_with().key)
    assert len(set(keys)) == len(keys)


def test_properties_and_logging_do_not_matter(launch: Launch, launch_with: Any) -> None:
    assert launch_with("-Djava.io.tmpdir=/x", "-Xlog:gc:file=/y").key == launch.key


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "12"])
def test_an_old_java_goes_without(launch_with: Any, install_java: Any, version: str) -> None:
    install_java(version)
    assert launch_with() is None


def test_a_java_without_its_own_archive_goes_without(launch_with: Any, install_java: Any) -> None:
    install_java("17", archive=False)
    assert launch_with() is None


def test_a_java_that_does_not_say_its_version_goes_without(
    launch_with: Any, install_java: Any
) -> None:
    install_java("17", release_file=False)
    assert launch_with() is None


def test_the_callers_own_archive_stays(launch_with: Any, install_java: Any) -> None:
    install_java("17")
    assert launch_with("-XX:SharedArchiveFile=/mine.jsa") is None


def test_a_new_archive_that_cannot_be_is_an_error(opened: Any) -> None:
    with opened(None) as archive:
        assert archive.java_options == ""
    with pytest.raises(ConfigError, match="Java 13 or newer"), opened(None, NEW):
        pass


def test_the_caller_decides_then_the_environment() -> None:
    said = {"EMBEDKAFKA_SPARK_ARCHIVE": "no"}
    assert require_wish(None, {}) == AUTO
    assert require_wish(None, said) == NO
    assert require_wish("new", said) == NEW
    with pytest.raises(ConfigError, match="archive must be one of auto, use, new, no, not 'maybe'"):
        require_wish("maybe", {})
    with pytest.raises(ConfigError, match="EMBEDKAFKA_SPARK_ARCHIVE must be"):
        require_wish(None, {"EMBEDKAFKA_SPARK_ARCHIVE": "maybe"})
