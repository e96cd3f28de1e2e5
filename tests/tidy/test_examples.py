"""Each example is a project that stands alone: `pip install` and `pytest`, in a copy of its folder.

`make spark` runs their tests on one Spark session, except those of `cdc`, whose session has Avro.
Here the first test of each other is enough, until the night.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

from tests.tidy.gallery import EXAMPLES, PAGE
from tests.tidy.sources import ROOT, settings

PROJECTS = EXAMPLES
AVRO = ROOT / "examples/cdc"
OTHERS = [project for project in PROJECTS if project != AVRO]
CONTAINERS = ROOT / "tests/doubles/containers"
"""Has a package `testcontainers`."""


def test_every_example_is_a_project() -> None:
    folders = {path.parent for path in ROOT.glob("examples/*/README.md")}
    assert folders == set(PROJECTS)
    assert ROOT / "examples/orders" in folders


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_an_example_asks_for_extras_that_exist(project: Path) -> None:
    extras = tomllib.loads((project / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (embedkafka,) = (word for word in extras["test"] if word.startswith("embedkafka"))
    named = set(re.findall(r"\w+", embedkafka)[1:])
    assert "pytest" in named
    assert named <= set(settings()["project"]["optional-dependencies"])


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_the_readme_of_an_example_fits_a_screen(project: Path) -> None:
    lines = (project / "README.md").read_text().splitlines()
    assert len(lines) <= 60
    assert "$ pip install '.[test]'" in lines
    assert any(line.startswith("$ pytest") for line in lines)


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_the_gallery_shows_the_tests_that_an_example_has(project: Path) -> None:
    name = re.escape(project.name)
    (shown,) = re.findall(
        rf"^In `examples/{name}`:\n\n```console\n(.*?)^```",
        PAGE.read_text(),
        re.DOTALL | re.MULTILINE,
    )
    defined = {
        f"{path.relative_to(project).as_posix()}::{test}"
        for path in project.glob("*/test_*.py")
        if path.parent.name != "before"
        for test in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert set(re.findall(r"^(\S+::\w+)\S* PASSED", shown, re.MULTILINE)) == defined


@pytest.mark.gate
@pytest.mark.parametrize("project", OTHERS, ids=lambda project: project.name)
def test_the_tests_of_an_example_import_nothing_from_outside_its_folder(
    project: Path, tmp_path: Path
) -> None:
    """At night they also run there, in the test below."""
    listed = run_pytest(copy_of(project, tmp_path), "--collect-only", "-q")
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert re.search(r"^\S+::\S+$", listed.stdout, re.MULTILINE), listed.stdout


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("project", [AVRO, *OTHERS], ids=lambda project: project.name)
def test_an_example_is_installed_and_tested_alone(project: Path, tmp_path: Path) -> None:
    copy = copy_of(project, tmp_path)
    python = new_environment(tmp_path / "venv")
    install = ["install", "-q", "--no-index", "--no-build-isolation", "--no-warn-script-location"]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, *install, ".[test]"], cwd=copy, check=True
    )

    done = run_pytest(copy, "-q", python=python)

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout, done.stdout


@pytest.mark.parametrize(
    "stand_in",
    ["embedkafka", pytest.param("apache", marks=[pytest.mark.java, pytest.mark.slow])],
)
@pytest.mark.timeout(300)
def test_the_suite_that_moved_still_runs_as_it_was(stand_in: str, tmp_path: Path) -> None:
    copy = copy_of(ROOT / "examples/moved_from_testcontainers", tmp_path)

    done = run_pytest(copy, "-q", "before", STAND_IN=stand_in, PYTHONPATH=f"{CONTAINERS}:{ROOT}")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def copy_of(project: Path, folder: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", ".pytest_cache")
    return Path(shutil.copytree(project, folder / project.name, ignore=ignored))


def new_environment(folder: Path) -> Path:
    """An environment whose packages are those of this one: what pip is asked for is there."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "shared.pth").write_text(f"import site; site.addsitedir({site_packages()!r})\n")
    return folder / "bin" / "python"


def site_packages() -> str:
    return sysconfig.get_paths()["purelib"]


def run_pytest(
    folder: Path, *arguments: str, python: Path = Path(sys.executable), **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Runs pytest in the folder, with the packages of this environment and its own settings."""
    return subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
