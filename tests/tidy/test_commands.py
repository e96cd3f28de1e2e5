"""The commands in Makefile and CONTRIBUTING find their tests.

Each runs up to the collection, with one file of each folder: a moved path, a broken conftest or a
removed option fails here, and it takes seconds.
"""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = re.findall(
    r"^([a-z-]+):[^\n]*\n(?:\t[^\n]*\n)*?\t[^\n]*\$\(PYTEST\)", MAKEFILE, re.MULTILINE
)
MODULES = sorted(set(re.findall(r"python -m ((?:tests|benchmarks)[.\w]*) ", MAKEFILE)))


def test_the_makefile_has_targets_that_run_tests() -> None:
    assert {"unit", "wire", "wire-oracle", "spark", "slow"} <= set(TARGETS)
    of_chaos = {"tests.chaos", "tests.chaos.isolation"}
    assert set(MODULES) == {"benchmarks", "tests.fuzz", "tests.mutants", "tests.sim", *of_chaos}


def test_plain_pytest_leaves_no_tests_out() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    paths = [ROOT / path for path in settings["tool"]["pytest"]["ini_options"]["testpaths"]]
    tests = set((ROOT / "tests").rglob("test_*.py"))
    assert tests == {test for path in paths for test in path.rglob("test_*.py")}


@pytest.mark.parametrize("module", MODULES)
def test_a_command_of_ours_starts(module: Any) -> None:
    command = [sys.executable, "-m", module, "--help"]
    assert b"usage" in subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout


@pytest.mark.parametrize("target", TARGETS)
def test_a_command_finds_its_tests(target: str) -> None:
    made = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True, text=True
    )
    lines = made.stdout.replace("\\\n", " ").splitlines()
    (line,) = (line for line in lines if " -m pytest " in line)
    _, _, _, *arguments = shlex.split(line)
    found = [_smallest_test(each) if each.startswith("tests") else each for each in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *found, "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    # The tests of the smallest file may have marks that the command leaves out.
    expected = {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    assert done.returncode in expected, done.stdout[-3000:] + done.stderr[-3000:]


def _smallest_test(named: str) -> str:
    """In a folder; or the file itself."""
    path = ROOT / named
    tests = [path] if path.suffix == ".py" else list(path.rglob("test_*.py"))
    return str(min(tests, key=lambda test: test.stat().st_size))
