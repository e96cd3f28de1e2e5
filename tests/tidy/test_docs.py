"""The documents say what the code does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from embedkafka.server.api_table import HANDLERS, load_handler
from tests.tidy import compatibility, states

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(ROOT.glob("*.md"))


def python_blocks(document: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)


def test_the_compatibility_table_is_current():
    assert compatibility.PAGE.read_text() == compatibility.render(), "run `make docs`"


def test_the_state_diagrams_are_current():
    assert states.PAGE.read_text() == states.render(), "run `make docs`"


def test_every_row_of_the_handler_table_has_a_handler_that_explains_itself():
    for key, api in HANDLERS.items():
        assert load_handler(api.handler).__doc__, key


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_named_files_exist(document):
    text = document.read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), f"{document.name} links to {target}"
    for name in re.findall(r"`((?:embedkafka|tests|docs|ci|examples|benchmarks)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), f"{document.name} names {name}"


def test_make_targets_in_the_documents_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        named = set(re.findall(r"`make ([a-z-]+)", document.read_text()))
        assert named <= targets, f"{document.name} names {named - targets}"


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_tests_in_readme_pass_when_pasted(tmp_path):
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


def test_the_script_in_readme_runs_when_pasted():
    scripts = [b for b in python_blocks(ROOT / "README.md") if not b.startswith("def test_")]
    for script in scripts:
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
