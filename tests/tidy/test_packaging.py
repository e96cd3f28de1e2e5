"""embedkafka can be installed in every way that README names, with old and new installers."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tidy.sources import ROOT

pytestmark = [pytest.mark.gate, pytest.mark.timeout(600)]

PACKAGES = {"embedkafka": ROOT / "embedkafka", "pytest_embedkafka": ROOT / "pytest_plugin"}
CONFTEST = "import embedkafka.cluster.embedded"
FIRST_TEST = """
from importlib.machinery import SourceFileLoader
import embedkafka.cluster.embedded

def test_a_record_arrives(kafka_topic):
    kafka_topic.send("hello")
    assert [message.text for message in kafka_topic.read()] == ["hello"]

def test_pytest_rewrites_no_module_of_the_library():
    assert type(embedkafka.cluster.embedded.__loader__) is SourceFileLoader
"""


TEST_WITHOUT_KAFKA = "def test_plain(): pass"

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

#: What a project has beside embedkafka, and whether the plugin works there.
PYTESTS = {
    "newest": (EXTRAS["pytest"], True),
    "oldest": ([needed.replace(">=", "==") for needed in EXTRAS["pytest"]], True),
    "too old": (["pytest==7.0.1", "pluggy==1.0.0"], False),
}


class Sources(NamedTuple):
    """Where a stranger installs from."""

    checkout: Path
    sdist: Path
    wheel: Path


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """A repository with the files as they are here, and what is built from them."""
    home = tmp_path_factory.mktemp("sources")
    checkout = home / "checkout"
    _copy_files(checkout)
    _git(checkout, "init", "--quiet")
    _git(checkout, "add", "--all")
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    _git(checkout, *author, "commit", "--quiet", "--message", "All of it")
    for kind in ("sdist", "wheel"):  # in another copy: setuptools leaves its work behind
        building = home / f"for-{kind}"
        shutil.copytree(checkout, building)
        build = f"from setuptools import build_meta; build_meta.build_{kind}({str(home)!r})"
        _run(sys.executable, "-c", build, cwd=building)
    (sdist,), (wheel,) = home.glob("*.tar.gz"), home.glob("*.whl")
    return Sources(checkout, sdist, wheel)


WAYS: dict[str, Callable[[Sources], str]] = {
    "checkout": lambda sources: f"{sources.checkout}[pytest]",
    "git": lambda sources: f"embedkafka[pytest] @ git+file://localhost{sources.checkout}",
    "sdist": lambda sources: f"{sources.sdist}[pytest]",
    "wheel": lambda sources: f"{sources.wheel}[pytest]",
}


@pytest.fixture(scope="session", params=["the pip of Python", "the newest pip"])
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment. Its tests share what embedkafka depends on."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=True, symlinks=True)
    python = home / "bin" / "python"
    if request.param == "the newest pip":
        _pip(python, "install", "--upgrade", "pip")
    return python


@pytest.mark.parametrize("way", WAYS)
def test_pip_installs_it(python: Path, sources: Sources, way: str, tmp_path: Path) -> None:
    _pip(python, "uninstall", "--yes", "embedkafka")
    _pip(python, "install", "--no-compile", WAYS[way](sources))
    _pip(python, "check")
    _use(python, tmp_path)


@pytest.mark.parametrize("way", ["checkout", "git"])
def test_uv_adds_it(sources: Sources, way: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    _uv("init", "--quiet", "--bare", "--python", sys.executable, project)
    _uv("add", "--quiet", WAYS[way](sources), cwd=project)
    _use(project / ".venv" / "bin" / "python", tmp_path)


@pytest.mark.parametrize(("packages", "works"), PYTESTS.values(), ids=PYTESTS)
def test_the_plugin_lets_tests_without_kafka_run_on_any_pytest(
    sources: Sources, packages: list[str], works: bool, tmp_path: Path
) -> None:
    home = tmp_path / "environment"
    python = home / "bin" / "python"
    _uv("venv", "--quiet", "--python", sys.executable, home)
    _uv("pip", "install", "--quiet", "--python", python, sources.wheel, *packages)
    (tmp_path / "test_plain.py").write_text(TEST_WITHOUT_KAFKA)
    said = _run(python, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", cwd=tmp_path)
    assert "1 passed" in said
    assert ("embedkafka: its fixtures, marks and options need pytest" in said) is not works
    if works:
        _use(python, tmp_path)


def test_the_distributions_hold_both_packages_and_nothing_else(sources: Sources) -> None:
    expected = {
        path.relative_to(package.parent if package.name == name else package).as_posix()
        for name, package in PACKAGES.items()
        for pattern in ("*.py", "py.typed", "assets/*", "jvm/*")
        for path in package.rglob(pattern)
    }
    with zipfile.ZipFile(sources.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == expected
    with tarfile.open(sources.sdist) as archive:
        inside = {
            name.partition("/")[2].removeprefix("pytest_plugin/") for name in archive.getnames()
        }
    assert expected | {"pyproject.toml", "README.md", "LICENSE", "CHANGES.md"} <= inside


def _copy_files(to: Path) -> None:
    listed = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = _git(ROOT, *listed).split("\0")
    for name in names:
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)


def _use(python: Path, home: Path) -> None:
    """Runs a user's first test, and the command."""
    (home / "conftest.py").write_text(CONFTEST)
    (home / "test_first.py").write_text(FIRST_TEST)
    _run(python, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", cwd=home)
    _run(python.with_name("embedkafka"), "up", "--", "true", cwd=home)


def _uv(*arguments: str | Path, cwd: Path | None = None) -> None:
    _run(Path(sys.executable).with_name("uv"), *arguments, cwd=cwd)


def _pip(python: Path, *arguments: str) -> None:
    _run(python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def _git(repository: Path, *arguments: str) -> str:
    return _run("git", "-C", repository, *arguments)


def _run(*command: str | Path, cwd: Path | None = None) -> str:
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=outside, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
