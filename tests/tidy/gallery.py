"""Runs every example and writes docs/gallery.md with what it printed: `make gallery`. Needs Spark.

The tests of an example run in a copy of its folder, as a reader would run them.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.tidy.sources import ROOT

PAGE: Final = ROOT / "docs" / "gallery.md"
EXAMPLES: Final = [path.parent for path in sorted(ROOT.glob("examples/*/pyproject.toml"))]
HEAD: Final = """# The examples, and what they print

Each example is a small project with a README of one screen. It runs from a copy of its folder, with
`pip install '.[test]'` and `pytest`. `make gallery` has run them all and written this page.
"""
_COMMANDS: Final = {"orders": (("python demo.py", "demo.py"),)}
"""What else an example offers to run: as a reader types it, and the arguments of Python."""
_PROGRESS: Final = re.compile(r" +\[ *\d+%\]$")
_UNFINISHED: Final = re.compile(r"\S+::\S+ *")
"""The name of a test that had something to say before it passed; its own line follows."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(HEAD + "".join(_section(each, Path(folder)) for each in EXAMPLES))


def _section(example: Path, folder: Path) -> str:
    title, about = _introduction((example / "README.md").read_text())
    copy = shutil.copytree(
        example, folder / example.name, ignore=shutil.ignore_patterns("__pycache__")
    )
    runs = [(command, _run(copy, arguments)) for command, arguments in _commands(example)]
    shown = "\n".join(f"$ {command}\n{printed}" for command, printed in runs)
    return f"\n## {title}\n\n{about}\n\nIn `examples/{example.name}`:\n\n```console\n{shown}```\n"


def _introduction(readme: str) -> tuple[str, str]:
    """The heading of a README and its first paragraph."""
    heading, about, *_ = readme.split("\n\n")
    return heading.removeprefix("# "), about


def _commands(example: Path) -> Iterator[tuple[str, list[str]]]:
    for command, script in _COMMANDS.get(example.name, ()):
        yield command, [script]
    yield "pytest -v", ["-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:asyncio"]


def _run(copy: Path, arguments: list[str]) -> str:
    print(f"{copy.name}: {' '.join(arguments)}", file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return "".join(f"{line}\n" for line in _worth_showing(done.stdout))


def _worth_showing(printed: str) -> Iterator[str]:
    """Without pytest's header, which names this machine, and without how far it was."""
    lines = printed.strip().splitlines()
    begins = next((at + 1 for at, line in enumerate(lines) if line.startswith("collect")), 0)
    for line in lines[begins:]:
        if line.strip() and not _UNFINISHED.fullmatch(line):
            yield _PROGRESS.sub("", line)


if __name__ == "__main__":
    main()
