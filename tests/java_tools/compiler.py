"""Compiles the tests' Java programs on first use."""

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.java_tools.cache import CACHE, cache_key, exclusive, progress
from tests.java_tools.jvm import QUICK_START, JavaProcessError, java


def compiled(name: str, sources: Sequence[Path], libraries: str) -> str:
    """The class path of a program with its libraries; compiled again when one of them changes."""
    key = cache_key(libraries, *(source.read_text() for source in sources))
    classes = CACHE / "programs" / f"{name}-{key}"
    with exclusive(classes):
        if not classes.exists():
            progress(f"compiling {name}")
            _compile(sources, libraries, classes)
    return f"{classes}:{libraries}"


def _compile(sources: Sequence[Path], libraries: str, classes: Path) -> None:
    with tempfile.TemporaryDirectory(dir=classes.parent) as scratch:
        target = Path(scratch, "classes")
        command = [java("javac"), *(f"-J{flag}" for flag in QUICK_START)]
        command += ["--release", "11", "-nowarn", "-d", str(target), "-cp", libraries]
        done = subprocess.run(
            [*command, *map(str, sources)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise JavaProcessError(f"javac could not compile {classes.name}:\n{done.stderr}")
        target.rename(classes)
