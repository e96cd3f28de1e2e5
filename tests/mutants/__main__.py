"""Flips decisions one at a time and sees that a unit test of the same package fails.

python -m tests.mutants --seed 7 --count 40 --only log

Mutants live in a temporary copy of the package; the checkout stays as it is. A survivor shows
that a test is missing, unless it behaves like the original: then known_survivors.txt lists it.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.mutants.mutations import Mutant, choose

ROOT: Final = Path(__file__).parents[2]
KNOWN_SURVIVORS: Final = Path(__file__).with_name("known_survivors.txt")
#: The folder of each package whose decisions are flipped. Its tests are in tests/unit.
SOURCES: Final[Mapping[str, str]] = {
    "broker/controller": "embedkafka/broker/controller",
    "broker/coordinator/groups": "embedkafka/broker/coordinator/groups",
    "broker/coordinator/transactions": "embedkafka/broker/coordinator/transactions",
    "broker/replica": "embedkafka/broker/replica/partition",
    "broker/log": "embedkafka/broker/log",
}
SURVIVED: Final = 3
"""The exit code if there are new survivors, which differs from that of a run that fails."""

# The first import decides where the rest of the package comes from. The limit is for mutants that
# loop forever and would fill the memory before their time is over.
_CHILD: Final = """
import resource, sys
import embedkafka
import pytest

assert embedkafka.__file__.startswith(sys.argv[1]), embedkafka.__file__
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
sys.exit(pytest.main(sys.argv[2:]))
"""


class Workbench:
    """A copy of the package in `folder`, in which one file at a time is a mutant."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / "embedkafka", folder / "embedkafka", ignore=ignored)

    def passes(self, package: str, limit_s: float) -> bool:
        """Runs the package's unit tests; tests that do not end in time have failed."""
        arguments = ["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={self._folder}/tmp"]
        command = [sys.executable, "-c", _CHILD, str(self._folder), *arguments]
        # Bytecode of a file that was rewritten within a second would hide the mutant.
        environment = {"PYTHONPATH": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"}
        with (self._folder / "output.txt").open("wb") as output:
            try:
                done = subprocess.run(
                    [*command, str(self._root / "tests/unit" / package)],
                    cwd=self._folder,
                    env=os.environ | environment,
                    stdout=output,
                    stderr=output,
                    timeout=limit_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return False
        return done.returncode == 0

    def time_limit(self, package: str) -> float:
        """Runs the tests on the package as it is, and allows several times as long."""
        began = time.monotonic()
        if not self.passes(package, limit_s=600):
            output = (self._folder / "output.txt").read_text()
            raise SystemExit(f"{output}\ntests/unit/{package} fails without a mutant")
        return 20 + 5 * (time.monotonic() - began)

    def survives(self, mutant: Mutant, package: str, limit_s: float) -> bool:
        path = self._folder / mutant.path
        original = path.read_bytes()
        path.write_bytes(mutant.mutated)
        try:
            return self.passes(package, limit_s)
        finally:
            path.write_bytes(original)


def known_survivors() -> set[str]:
    lines = KNOWN_SURVIVORS.read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def run(packages: list[str], count: int, seed: int) -> int:
    """Prints the survivors as they are found, and returns the number of new ones."""
    package_of = {
        path.relative_to(ROOT): package
        for package in packages
        for path in (ROOT / SOURCES[package]).rglob("*.py")
    }
    mutants = choose(ROOT, [*package_of], count=count, seed=seed)
    known, survived, new = known_survivors(), 0, 0
    with tempfile.TemporaryDirectory(prefix="embedkafka-mutants-") as folder:
        bench = Workbench(ROOT, Path(folder))
        used = sorted({package_of[mutant.path] for mutant in mutants})
        limits_s = {package: bench.time_limit(package) for package in used}
        for mutant in mutants:
            package = package_of[mutant.path]
            if bench.survives(mutant, package, limits_s[package]):
                survived += 1
                new += mutant.key not in known
                print(f"{mutant} (known)" if mutant.key in known else mutant, flush=True)
    killed = len(mutants) - survived
    print(f"{len(mutants)} mutants, {killed} killed, {survived} survived, seed {seed}")
    return new


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="seed (default: random)")
    parser.add_argument("--count", type=int, default=40, help="number of mutants")
    parser.add_argument("--only", choices=[*SOURCES], default=None, help="one package")
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    return SURVIVED if run([asked.only] if asked.only else [*SOURCES], asked.count, seed) else 0


if __name__ == "__main__":
    sys.exit(main())
