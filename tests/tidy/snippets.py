"""The code blocks of README and docs/, as a reader would paste them.

A Python block that defines a test becomes a test file; any other is a script. A block with a
`title` becomes that file, beside the other titled files of its page. A block that cannot run says
why in its info string: ```python {not-run="the reason"}.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.tidy.sources import DOCUMENTS, ROOT

PASTED: Final = "test_{page}.py"

_FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.DOTALL | re.MULTILINE)
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block: its language, the attributes of its info string, and its text."""

    document: Path
    line: int
    language: str
    attributes: dict[str, str]
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"

    @property
    def title(self) -> str | None:
        return self.attributes.get("title")

    @property
    def reason_not_to_run(self) -> str | None:
        return self.attributes.get("not-run")

    @property
    def is_test(self) -> bool:
        return any(name.startswith("test_") for name in self._functions())

    @property
    def needs_spark(self) -> bool:
        return re.search(r"\b(py)?spark\b", self.text) is not None

    def _functions(self) -> list[str]:
        tree = ast.parse(self.text)
        return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


@dataclass(kw_only=True)
class Page:
    """The files and scripts that a reader of one document would have."""

    name: str
    files: dict[str, str] = field(default_factory=dict)
    scripts: list[Block] = field(default_factory=list)
    needs_spark: bool = False


def blocks(*languages: str) -> list[Block]:
    """Every fenced block in one of these languages, in all documents."""
    return [
        block
        for document in DOCUMENTS
        for block in blocks_of(document)
        if block.language in languages
    ]


def pages() -> list[Page]:
    """Every document with Python to run; its tests that need Spark form a separate page."""
    found: dict[str, Page] = {}
    for block in blocks("python"):
        if block.reason_not_to_run is not None:
            continue
        name = _page_name(block.document, spark=block.needs_spark)
        page = found.setdefault(name, Page(name=name, needs_spark=block.needs_spark))
        if block.title is not None:
            page.files[block.title] = block.text
        elif block.is_test:
            pasted = PASTED.format(page=name)
            page.files[pasted] = page.files.get(pasted, "") + "\n\n" + block.text
        else:
            page.scripts.append(block)
    return list(found.values())


def paste(page: Page, folder: Path) -> Path:
    """Writes the page's files below `folder` and returns their directory."""
    home = folder / page.name
    for name, text in page.files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return home


def run_pytest(homes: Sequence[Path], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Runs the tests of all pages in one pytest run; each page can import its own modules."""
    settings = ["-o", f"pythonpath={' '.join(map(str, homes))}", "--import-mode=importlib"]
    settings += ["-p", "no:cacheprovider", "--explore-seed=731"]  # the same schedules in each run
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *settings, *homes],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def blocks_of(document: Path) -> Iterator[Block]:
    text = document.read_text()
    for match in _FENCE.finditer(text):
        indent, _, info, body = match.groups()
        language, _, rest = info.strip().partition(" ")
        yield Block(
            document=document,
            line=text.count("\n", 0, match.start()) + 1,
            language=language,
            attributes=dict(_ATTRIBUTE.findall(rest)),
            text="".join(line.removeprefix(indent) for line in body.splitlines(keepends=True)),
        )


def _page_name(document: Path, *, spark: bool) -> str:
    name = document.relative_to(ROOT).with_suffix("").as_posix().lower()
    return re.sub(r"\W", "_", name) + ("_spark" if spark else "")
