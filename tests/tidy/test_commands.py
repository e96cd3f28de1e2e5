"""The commands in Makefile and CONTRIBUTING find their tests.

Each runs up to the collection, so a broken conftest, a moved path or a removed option fails here.
pytest exits with 5 when it finds no test.
"""

import os
import re
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
# The packages for Kerberos need a library in C to build; its tests are found without them.
MAKE = ["make", "--assume-old=.venv/.ready-kerberos"]
COMMANDS = [[sys.executable, "-m", "pytest"], *([*MAKE, target] for target in TARGETS)]


def test_the_makefile_has_targets_that_run_tests() -> None:
    assert {"unit", "wire", "wire-oracle", "spark", "slow"} <= set(TARGETS)
    of_chaos = {"tests.chaos", "tests.chaos.isolation"}
    assert set(MODULES) == {"benchmarks", "tests.fuzz", "tests.sim", *of_chaos}


def test_plain_pytest_leaves_no_tests_out() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    paths = [ROOT / path for path in settings["tool"]["pytest"]["ini_options"]["testpaths"]]
    tests = set((ROOT / "tests").rglob("test_*.py"))
    assert tests == {test for path in paths for test in path.rglob("test_*.py")}


@pytest.mark.parametrize("module", MODULES)
def test_a_command_of_ours_starts(module: Any) -> None:
    command = [sys.executable, "-m", module, "--help"]
    assert b"usage" in subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout


@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[-1])
def test_a_command_finds_its_tests(command: Any) -> None:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTEST_ADDOPTS": "--collect-only -q -p no:cacheprovider"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
