"""Temporary directories disappear with their process, or at the next process's start."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedkafka.runtime.temporary import TemporaryDirectory, sweep
from tests.presence import present

OWNER = """
from embedkafka.runtime.temporary import TemporaryDirectory
directory = TemporaryDirectory()
(directory.path / "deep").mkdir()
(directory.path / "deep" / "file").touch()
print(directory.path, flush=True)
input()
"""


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@dataclass(frozen=True)
class Owner:
    """Another process, with the directory it has created."""

    process: subprocess.Popen[str]
    directory: str


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield Owner(process, present(process.stdout).readline().strip())
    process.kill()
    process.communicate()


def test_a_directory_is_removed_with_all_that_is_in_it(tmp_path: Path) -> None:
    directory = TemporaryDirectory("spark-")
    assert directory.path.name.startswith("embedkafka-spark-")
    (directory.path / "file").touch()
    directory.remove()
    directory.remove()
    assert list(tmp_path.iterdir()) == []


def test_the_directory_of_a_dead_process_is_swept_and_that_of_a_living_one_is_not(
    owner: Owner, tmp_path: Path
) -> None:
    sweep(tmp_path)
    assert os.path.exists(owner.directory)
    owner.process.kill()
    owner.process.wait(30)
    assert os.path.exists(owner.directory)
    mine = TemporaryDirectory()
    assert list(tmp_path.iterdir()) == [mine.path]
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [mine.path], "a process must not sweep its own directories"
    mine.remove()


def test_what_is_not_ours_is_left(tmp_path: Path) -> None:
    foreign = tmp_path / "embedkafka-of-another-kind"
    foreign.mkdir()
    (foreign / "file").touch()
    (tmp_path / "embedkafka-file").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "embedkafka-empty").mkdir()
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {foreign.name, "embedkafka-file", "other"}


def test_a_directory_that_is_swept_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def mkdtemp(prefix: str, dir: str) -> str:
        path = make(prefix=prefix, dir=dir)
        made.append(path)
        if len(made) == 1:
            sweep(tmp_path)
        return path

    make = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    directory = TemporaryDirectory()
    assert str(directory.path) == made[1]
    assert list(tmp_path.iterdir()) == [directory.path]
    directory.remove()


# Python warns of a fork in a process with threads; those of pytest-xdist or earlier tests may run.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_removes_nothing(tmp_path: Path) -> None:
    directory = TemporaryDirectory()
    child = os.fork()
    if child == 0:
        try:
            directory.remove()
            sweep(tmp_path)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert directory.path.exists()
    directory.remove()
