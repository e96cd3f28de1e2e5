"""The documents say what the code does."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from embedkafka.server.api_table import HANDLERS, load_handler
from tests.tidy import compatibility, states
from tests.tidy.sources import DOCUMENTS, PACKAGE, ROOT


def python_blocks(document: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)


def test_the_compatibility_table_is_current() -> None:
    assert compatibility.PAGE.read_text() == compatibility.render(), "run `make docs`"


def test_the_state_diagrams_are_current() -> None:
    assert states.PAGE.read_text() == states.render(), "run `make docs`"


def test_every_row_of_the_handler_table_has_a_handler_that_explains_itself() -> None:
    for key, api in HANDLERS.items():
        assert load_handler(api.handler).__doc__, key


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_and_modules_exist(document: Path) -> None:
    named = names_in_code(document.read_text())
    assert [name for name in named if not exists(name, document.parent)] == []


def test_a_file_that_is_not_there_is_found_out() -> None:
    text = "`log/log.py` and `log/lgo.py`, `tests/wire`, `tests/wier/`, `embedkafka.runtime.clokc`"
    missing = [name for name in names_in_code(text) if not exists(name, ROOT)]
    assert missing == ["log/lgo.py", "tests/wier/", "embedkafka.runtime.clokc"]


def names_in_code(text: str) -> list[str]:
    """What stands between backticks and can only be a file, a directory or a module of ours."""
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    words = [word.rstrip(".,:;") for span in spans for word in span.split()]
    return [word for word in words if OURS.fullmatch(word)]


OURS = re.compile(
    r"[\w-]+(/[\w.-]+)*\.(py|md|sh|toml)"  # a file
    r"|(embedkafka|tests|docs|ci|examples|benchmarks|pytest_plugin)/[\w./-]*"
    r"|[a-z_]+/"  # a package
    r"|(embedkafka|tests|benchmarks)(\.\w+)+"  # a module, or a name in one
)
SUFFIXES = (".py", ".md", ".sh", ".toml")
THEIRS = {"conftest.py", "test_orders.py"}
"""Files of the reader's own project."""


def exists(name: str, beside: Path) -> bool:
    """Files may be named from the root, from the product's own, or from the document's place."""
    if name in THEIRS:
        return True
    if re.fullmatch(r"\w+(\.\w+)+", name) and not name.endswith(SUFFIXES):
        return _is_module(name)
    if any((root / name).exists() for root in (ROOT, PACKAGE, beside)):
        return True
    return any(path.as_posix().endswith("/" + name) for path in PACKAGE.rglob("*.py"))


def _is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    module, _, attribute = name.rpartition(".")
    return bool(module) and hasattr(importlib.import_module(module), attribute)


def test_make_targets_in_the_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        named = set(re.findall(r"`make ([a-z-]+)", document.read_text()))
        assert named <= targets, f"{document.name} names {named - targets}"


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_tests_in_readme_pass_when_pasted(tmp_path: Path) -> None:
    tests = [block for block in python_blocks(ROOT / "README.md") if block.startswith("def test_")]
    assert len(tests) >= 2
    pasted = tmp_path / "test_pasted.py"
    pasted.write_text("\n\n".join(tests))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(pasted)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_script_in_readme_runs_when_pasted() -> None:
    scripts = [b for b in python_blocks(ROOT / "README.md") if not b.startswith("def test_")]
    for script in scripts:
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
