"""The commands that the Makefile and CONTRIBUTING offer find their tests.

Each runs for real up to the collection, so a conftest that breaks one of them, a path that moved or
an option that went away fails here. pytest exits with 5 when it finds no test.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = re.findall(
    r"^([a-z-]+):[^\n]*\n(?:\t[^\n]*\n)*?\t[^\n]*\$\(PYTEST\)",
    (ROOT / "Makefile").read_text(),
    re.MULTILINE,
)
COMMANDS = [[sys.executable, "-m", "pytest"], *(["make", target] for target in TARGETS)]


def test_the_makefile_has_targets_that_run_tests():
    assert {"unit", "wire", "wire-oracle", "spark", "slow", "chaos"} <= set(TARGETS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[-2:]))
def test_a_command_finds_its_tests(command):
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTEST_ADDOPTS": "--collect-only -q -p no:cacheprovider"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
